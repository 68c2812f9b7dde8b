//! The symbolizer that a profiler uses unless it is given another one.

use std::sync::Arc;

use super::cache::Cache;
use super::demangle::{Name, Texts};
use super::file::{FileKey, FileState, OpenFiles};
use super::kernel::{KernelFunction, KernelName, KernelNames, KernelTable};
use super::options::SymbolOptions;
use super::starts::Starts;
use super::stats::SymbolStats;
use super::{Symbol, Symbolizer};
use crate::elf::Elf;
use crate::process::Module;

/// Names from symbol tables and debug information of files, and from the kernel's list.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use ebpf_profiler_core::elf::{Elf, ReadAt};
/// use ebpf_profiler_core::process::Module;
/// use ebpf_profiler_core::symbol::{Symbolizer, Symbols};
///
/// # let open = || Ok(std::fs::File::open("/proc/self/exe")?);
/// let entry = Elf::open(open()?)?.entry();
/// let mut module = Module::new("/proc/self/exe");
/// module.opener = Some(Arc::new(move || open().map(|file| Box::new(file) as Box<dyn ReadAt>)));
///
/// let mut symbols = Symbols::default();
/// symbols.native(&module, &[entry], &mut |number, functions| {
///     assert_eq!(number, 0);
///     assert_eq!(&*functions[0].function, "_start");
/// });
/// assert_eq!(symbols.stats().named, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Symbols {
    options: SymbolOptions,
    stats: SymbolStats,
    texts: Texts,
    /// The functions of an address of the file with a number.
    names: Cache<(u32, u64), Arc<[Symbol]>>,
    /// Where the functions begin that have no name; `None` where nothing says so.
    starts: Cache<(u32, u64), Option<u64>>,
    numbers: Cache<FileKey, u32>,
    files: Cache<u32, Arc<FileState>>,
    kernel: Option<KernelTable>,
    /// The kernel itself, where it answers: its list is read for what it has no name for.
    asked: Option<Box<dyn KernelNames>>,
    /// The number that the kernel's functions have among `names`; another one each time that they are read.
    kernel_number: u32,
    last_number: u32,
}

impl Default for Symbols {
    fn default() -> Symbols {
        Symbols::new(SymbolOptions::default())
    }
}

impl Symbols {
    /// A symbolizer with empty caches.
    pub fn new(options: SymbolOptions) -> Symbols {
        Symbols {
            stats: SymbolStats::default(),
            texts: Texts::new(options.memory / 6),
            names: Cache::new(options.memory / 8),
            starts: Cache::new(options.memory / 24),
            numbers: Cache::new(options.memory / 32),
            files: Cache::new(options.files_budget()),
            kernel: None,
            asked: None,
            kernel_number: 0,
            last_number: 0,
            options,
        }
    }

    /// Asks the running kernel before it reads its list.
    #[cfg(feature = "live")]
    pub(crate) fn with_kernel(self, kernel: Box<dyn KernelNames>) -> Symbols {
        Symbols { asked: Some(kernel), ..self }
    }

    /// What was found, missed, and why, since it was made.
    pub fn stats(&self) -> SymbolStats {
        SymbolStats { not_demangled: self.texts.failed, ..self.stats }
    }

    /// Forgets everything but the counts, and gives its memory back.
    pub fn clear(&mut self) {
        let stats = self.stats();
        let asked = self.asked.take();
        *self = Symbols { asked, ..Symbols::new(self.options.clone()) };
        self.stats = stats;
        self.texts.failed = stats.not_demangled;
    }

    fn next_number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }

    fn number(&mut self, key: FileKey) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.next_number();
        let bytes = key.bytes();
        self.numbers.insert(key, number, bytes);
        number
    }

    /// Calls `name` for what is cached, and gives the numbers of the others.
    fn name_cached(
        &mut self,
        file: u32,
        addresses: &[u64],
        name: &mut dyn FnMut(usize, &[Symbol]),
    ) -> Vec<usize> {
        self.stats.addresses += addresses.len() as u64;
        let mut missing = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            match self.names.get(&(file, address)) {
                Some(functions) if functions.is_empty() => self.stats.cached += 1,
                Some(functions) => {
                    self.stats.cached += 1;
                    name(number, functions);
                }
                None => missing.push(number),
            }
        }
        missing
    }

    fn keep(&mut self, file: u32, address: u64, functions: &[Symbol]) {
        self.names.insert((file, address), functions.into(), size_of_val(functions) + 32);
    }

    fn open(&mut self, file: u32, module: &Module) -> (Arc<FileState>, Option<OpenFiles>) {
        if let Some(state) = self.files.get(&file).cloned() {
            let open = state.reopen(module, &mut self.stats);
            return (state, open);
        }
        let (state, open) = FileState::new(module, &self.options, &mut self.stats);
        let (state, bytes) = (Arc::new(state), 0);
        self.files.insert(file, state.clone(), bytes + state.bytes());
        (state, open)
    }

    /// Looks up addresses of a file, ascending, and calls `take` with the functions of each.
    fn look_up(
        &mut self,
        file: u32,
        module: &Module,
        addresses: &[u64],
        mut take: impl FnMut(&mut Symbols, usize, Vec<Symbol>),
    ) {
        /// What is not passed on yet is in memory, so it is little at a time.
        const AT_ONCE: usize = 8192;
        let (state, open) = self.open(file, module);
        for (piece, addresses) in addresses.chunks(AT_ONCE).enumerate() {
            let found = match &open {
                Some(open) => self.functions(&state, open, addresses),
                None => vec![Vec::new(); addresses.len()],
            };
            let numbers = piece * AT_ONCE..;
            numbers.zip(found).for_each(|(number, functions)| take(self, number, functions));
        }
    }

    /// The functions of each address, innermost first; the outermost is called as the symbol table says.
    fn functions(&mut self, state: &FileState, open: &OpenFiles, addresses: &[u64]) -> Vec<Vec<Symbol>> {
        let Symbols { options, stats, texts, .. } = self;
        let names: Vec<Option<Name>> = state.with_table(open, addresses, stats, |table| {
            let mut names = table.names(open.files());
            let mut early = Early::of(open.files().main);
            let mut name = |address: u64| {
                names.find(address, texts).or_else(|| {
                    let behind = names.find(address.checked_add(1)?, texts)?;
                    early.is_at(address).then_some(behind)
                })
            };
            addresses.iter().map(|&address| name(address)).collect()
        });
        #[cfg(feature = "symbolize")]
        let known = state.functions(open, addresses, options, texts, stats);
        #[cfg(not(feature = "symbolize"))]
        let known = vec![Vec::new(); addresses.len()];
        let merged = names.into_iter().zip(known).map(|(name, functions)| merge(name, functions));
        let mut functions: Vec<_> = merged.collect();
        state.fill_in(open, addresses, options, texts, &mut functions);
        functions
    }

    fn read_kernel(&mut self) {
        self.stats.kernel_reads += 1;
        let table = KernelTable::read(&self.options.kallsyms).unwrap_or_else(|_| {
            self.stats.unreadable += 1;
            KernelTable::default()
        });
        self.stats.kernel_hidden += u64::from(table.is_hidden());
        self.kernel = Some(table);
        // Programs and modules may have gone since, so what was found before doesn't count any more.
        self.kernel_number = self.next_number();
    }

    /// Reads the kernel's list if that can change what `addresses` are called.
    fn refresh_kernel(&mut self, addresses: impl Iterator<Item = u64>) {
        let Some(table) = &self.kernel else { return self.read_kernel() };
        let stale = |address| table.find(address).is_none_or(|found| found.uncertain);
        if !table.is_hidden() && addresses.into_iter().any(stale) {
            self.read_kernel();
        }
    }

    /// What the running kernel says.
    fn ask_kernel(&mut self, address: u64) -> Option<Symbol> {
        let KernelName { name, module } = self.asked.as_mut()?.name(address)?;
        Some(kernel_symbol(&mut self.texts, &name, &module))
    }

    /// What its list says.
    fn listed_function(&mut self, address: u64) -> Option<Symbol> {
        let KernelFunction { name, module, .. } = self.kernel.as_ref()?.find(address)?;
        Some(kernel_symbol(&mut self.texts, name, module))
    }

    fn count(&mut self, functions: &[Symbol]) {
        match functions {
            [] => self.stats.unnamed += 1,
            [.., outer] => {
                self.stats.named += 1;
                self.stats.inlined += functions.len() as u64 - 1;
                self.stats.lines += u64::from(outer.line != 0);
            }
        }
    }
}

impl Symbolizer for Symbols {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        let file = self.number(FileKey::of(module));
        let missing = self.name_cached(file, addresses, name);
        if missing.is_empty() {
            return;
        }
        let wanted: Vec<u64> = missing.iter().map(|&number| addresses[number]).collect();
        self.look_up(file, module, &wanted, |symbols, place, functions| {
            symbols.count(&functions);
            symbols.keep(file, wanted[place], &functions);
            if !functions.is_empty() {
                name(missing[place], &functions);
            }
        });
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        let missing = self.name_cached(self.kernel_number, addresses, name);
        if missing.is_empty() {
            return;
        }
        let said: Vec<_> = missing.iter().map(|&number| self.ask_kernel(addresses[number])).collect();
        let unsaid = missing.iter().zip(&said).filter(|(_, said)| said.is_none());
        let unsaid: Vec<u64> = unsaid.map(|(&number, _)| addresses[number]).collect();
        if !unsaid.is_empty() {
            self.refresh_kernel(unsaid.into_iter());
        }
        for (number, said) in missing.into_iter().zip(said) {
            let functions = said.or_else(|| self.listed_function(addresses[number]));
            self.count(functions.as_slice());
            // As long as the list isn't read again, nobody says when a module or program has gone.
            let may_go = functions.iter().any(|function| !function.file.is_empty());
            if self.asked.is_none() || !may_go {
                self.keep(self.kernel_number, addresses[number], functions.as_slice());
            }
            if let Some(function) = functions {
                name(number, &[function]);
            }
        }
    }

    fn stats(&self) -> SymbolStats {
        Symbols::stats(self)
    }

    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        let file = self.number(FileKey::of(module));
        let mut missing = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            match self.starts.get(&(file, address)) {
                Some(start) => start.iter().for_each(|&start| begin(number, start)),
                None => missing.push(number),
            }
        }
        if missing.is_empty() {
            return;
        }
        let (_, open) = self.open(file, module);
        let table = open.as_ref().and_then(|open| Starts::of(open.files().main));
        for number in missing {
            let address = addresses[number];
            let start = table.as_ref().and_then(|table| table.find(address));
            self.starts.insert((file, address), start, 0);
            start.iter().for_each(|&start| begin(number, start));
        }
    }
}

/// Functions whose unwind data begins one byte before them.
///
/// So C libraries write what a signal handler returns to: nothing calls it, but who looks up the byte before a return
/// address is to find it.
struct Early<'e> {
    file: &'e Elf,
    starts: Option<Option<Starts<'e>>>,
}

impl<'e> Early<'e> {
    fn of(file: &'e Elf) -> Early<'e> {
        Early { file, starts: None }
    }

    /// Whether a function is said to begin just there.
    fn is_at(&mut self, address: u64) -> bool {
        let starts = self.starts.get_or_insert_with(|| Starts::of(self.file));
        starts.as_ref().and_then(|starts| starts.find(address)) == Some(address)
    }
}

fn kernel_symbol(texts: &mut Texts, name: &str, module: &str) -> Symbol {
    let (name, file) = (texts.name(name.as_bytes()), texts.share(module.as_bytes()));
    Symbol { function: name.function, system_name: name.system, file, ..Symbol::default() }
}

/// What debug information and the symbol table say about one address.
fn merge(name: Option<Name>, mut functions: Vec<Symbol>) -> Vec<Symbol> {
    if let Some(name) = name {
        if functions.is_empty() {
            functions.push(Symbol::default());
        }
        if let Some(outer) = functions.last_mut() {
            (outer.function, outer.system_name) = (name.function, name.system);
        }
    }
    // A line without a function isn't a name.
    if functions.last().is_some_and(|outer| outer.function.is_empty()) {
        functions.clear();
    }
    functions
}
