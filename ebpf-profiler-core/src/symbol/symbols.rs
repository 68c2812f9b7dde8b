//! The default symbolizer.

use std::sync::Arc;

use super::cache::Cache;
use super::call;
use super::demangle::{Name, Texts};
use super::file::{FileKey, FileState, OpenFiles};
use super::kernel::{self, KernelFunction, KernelName, KernelNames, KernelTable};
use super::options::SymbolOptions;
use super::starts::Starts;
use super::stats::SymbolStats;
use super::{Symbol, Symbolizer};
use crate::elf::Elf;
use crate::process::Module;

/// The default symbolizer: names by symbol tables and debug information of files, and by the
/// kernel.
///
/// With feature `live` the running kernel is asked for its names by a BPF program (`CAP_BPF`,
/// `CAP_PERFMON`). Its list, which needs `CAP_SYSLOG`, is read for what it doesn't name, or if the
/// program can't be loaded. Both happen when the first kernel function is named.
///
/// A module without [opener](crate::process::Module::opener), as of a decoded profile, is opened by
/// its path if its file has the module's build id.
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
    /// The functions of an address, by the number of its file.
    names: Cache<(u32, u64), Arc<[Symbol]>>,
    /// The starts of functions without a name; `None` if unknown.
    starts: Cache<(u32, u64), Option<u64>>,
    /// `true` for addresses at which a call ends.
    calls: Cache<(u32, u64), bool>,
    numbers: Cache<FileKey, u32>,
    files: Cache<u32, Arc<FileState>>,
    kernel: Option<KernelTable>,
    /// The running kernel, if it can be asked; the list is read for addresses that it does not
    /// name.
    asked: Option<Box<dyn KernelNames>>,
    /// `true` if the running kernel was loaded, or could not be.
    has_tried_kernel: bool,
    /// The number of the kernel among `names`; changes each time its list is read.
    kernel_number: u32,
    last_number: u32,
}

impl Default for Symbols {
    fn default() -> Symbols {
        Symbols::new(SymbolOptions::default())
    }
}

impl Symbols {
    /// Creates a symbolizer with empty caches.
    pub fn new(options: SymbolOptions) -> Symbols {
        Symbols {
            stats: SymbolStats::default(),
            texts: Texts::new(options.memory / 6),
            names: Cache::new(options.memory / 8),
            starts: Cache::new(options.memory / 24),
            calls: Cache::new(options.memory / 48),
            numbers: Cache::new(options.memory / 32),
            files: Cache::new(options.files_budget()),
            kernel: None,
            asked: None,
            has_tried_kernel: false,
            kernel_number: 0,
            last_number: 0,
            options,
        }
    }

    /// Prepares to ask the running kernel for names before reading the list, if the list is the
    /// running kernel's.
    pub(crate) fn load_kernel(&mut self) {
        if !std::mem::replace(&mut self.has_tried_kernel, true) && self.options.has_running_kernel() {
            #[cfg(feature = "live")]
            let names = crate::live::kernel_names().ok();
            #[cfg(not(feature = "live"))]
            let names = None;
            self.asked = names;
        }
    }

    /// Returns the counters since its creation.
    pub fn stats(&self) -> SymbolStats {
        SymbolStats { not_demangled: self.texts.failed, ..self.stats }
    }

    /// Clears all caches but keeps the counters.
    pub fn clear(&mut self) {
        let stats = self.stats();
        let (asked, has_tried_kernel) = (self.asked.take(), self.has_tried_kernel);
        *self = Symbols { asked, has_tried_kernel, ..Symbols::new(self.options.clone()) };
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

    /// Calls `name` for cached addresses; returns the indices of the others.
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
            let open = state.reopen(module, &self.options, &mut self.stats);
            return (state, open);
        }
        let (state, open) = FileState::new(module, &self.options, &mut self.stats);
        let (state, bytes) = (Arc::new(state), 0);
        self.files.insert(file, state.clone(), bytes + state.bytes());
        (state, open)
    }

    /// Looks up ascending addresses of a file and calls `take` with the functions of each.
    fn look_up(
        &mut self,
        file: u32,
        module: &Module,
        addresses: &[u64],
        mut take: impl FnMut(&mut Symbols, usize, Vec<Symbol>),
    ) {
        /// Addresses per step, which bounds the memory of results.
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

    /// Returns the functions of each address, innermost first; the symbol table names the
    /// outermost.
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
        // Programs and modules may be gone since, so cached names are dropped.
        self.kernel_number = self.next_number();
    }

    /// Reads the kernel's list if that can change the names of `addresses`.
    fn refresh_kernel(&mut self, addresses: impl Iterator<Item = u64>) {
        let Some(table) = &self.kernel else { return self.read_kernel() };
        let stale = |address| table.find(address).is_none_or(|found| found.uncertain);
        if !table.is_hidden() && addresses.into_iter().any(stale) {
            self.read_kernel();
        }
    }

    /// Returns the running kernel's name of an address.
    fn ask_kernel(&mut self, address: u64) -> Option<Symbol> {
        let KernelName { name, module } = self.asked.as_mut()?.name(address)?;
        Some(kernel_symbol(&mut self.texts, &name, &module))
    }

    /// Returns the list's name of an address.
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
        self.load_kernel();
        let said: Vec<_> = missing.iter().map(|&number| self.ask_kernel(addresses[number])).collect();
        let unsaid = missing.iter().zip(&said).filter(|(_, said)| said.is_none());
        let unsaid: Vec<u64> = unsaid.map(|(&number, _)| addresses[number]).collect();
        if !unsaid.is_empty() {
            self.refresh_kernel(unsaid.into_iter());
        }
        for (number, said) in missing.into_iter().zip(said) {
            let functions = said.or_else(|| self.listed_function(addresses[number]));
            self.count(functions.as_slice());
            // Unloading is noticed only when the list is read again.
            let may_go = functions.iter().any(|function| !function.file.is_empty());
            if self.asked.is_none() || !may_go {
                self.keep(self.kernel_number, addresses[number], functions.as_slice());
            }
            if let Some(function) = functions {
                name(number, &[function]);
            }
        }
    }

    /// Returns `true` for the running kernel, and for any if [`SymbolOptions::kallsyms`] was
    /// changed.
    fn has_kernel(&self, boot_id: &str) -> bool {
        !self.options.has_running_kernel() || *kernel::boot_id() == *boot_id
    }

    fn stats(&self) -> SymbolStats {
        Symbols::stats(self)
    }

    fn calls(&mut self, module: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        let file = self.number(FileKey::of(module));
        let mut missing = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            match self.calls.get(&(file, address)) {
                Some(true) => {}
                Some(false) => doubt(number),
                None => missing.push(number),
            }
        }
        if missing.is_empty() {
            return;
        }
        // A file that is gone doubts nothing, and may be asked again.
        let (_, Some(open)) = self.open(file, module) else { return };
        for number in missing {
            let is_call = call::ends_at(open.files().main, addresses[number]);
            self.calls.insert((file, addresses[number]), is_call, 0);
            if !is_call {
                self.stats.doubtful += 1;
                doubt(number);
            }
        }
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

/// The functions whose unwind data begins one byte before them.
///
/// C libraries describe the signal return trampoline so: it is never called, but its first byte is
/// a return address, and unwinders look up the byte before.
struct Early<'e> {
    file: &'e Elf,
    starts: Option<Option<Starts<'e>>>,
}

impl<'e> Early<'e> {
    fn of(file: &'e Elf) -> Early<'e> {
        Early { file, starts: None }
    }

    /// Returns `true` if a function begins at this address.
    fn is_at(&mut self, address: u64) -> bool {
        let starts = self.starts.get_or_insert_with(|| Starts::of(self.file));
        starts.as_ref().and_then(|starts| starts.find(address)) == Some(address)
    }
}

fn kernel_symbol(texts: &mut Texts, name: &str, module: &str) -> Symbol {
    let (name, file) = (texts.name(name.as_bytes()), texts.share(module.as_bytes()));
    Symbol { function: name.function, system_name: name.system, file, ..Symbol::default() }
}

/// Merges the name of the symbol table into the functions of debug information.
fn merge(name: Option<Name>, mut functions: Vec<Symbol>) -> Vec<Symbol> {
    if let Some(name) = name {
        if functions.is_empty() {
            functions.push(Symbol::default());
        }
        if let Some(outer) = functions.last_mut() {
            (outer.function, outer.system_name) = (name.function, name.system);
        }
    }
    // A line without a function is no name.
    if functions.last().is_some_and(|outer| outer.function.is_empty()) {
        functions.clear();
    }
    functions
}
