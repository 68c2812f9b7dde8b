//! Names of files that no process maps any more, read while the files are still there.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::pipeline::LeftModule;
use crate::process::Module;
use crate::symbol::{Symbol, SymbolStats, Symbolizer};

/// Maximum memory of these names, in bytes. Files beyond it stay open until the profile ends.
const MAX_BYTES: usize = 16 << 20;

/// Names of files for the profile that has their frames.
#[derive(Default)]
pub(super) struct EarlyNames {
    /// By the address of the opener.
    modules: HashMap<usize, EarlyModule>,
    /// Files whose names are read at the end of the profile.
    open: Vec<Module>,
    bytes: usize,
}

/// The names of a file.
struct EarlyModule {
    names: HashMap<u64, Arc<[Symbol]>>,
    /// The starts of functions without a name.
    starts: HashMap<u64, u64>,
    /// Keeps the address of its opener in use.
    _module: Module,
}

impl EarlyNames {
    /// Reads the names of a file and closes it.
    pub(super) fn add(&mut self, left: LeftModule, symbolizer: &mut dyn Symbolizer) {
        let LeftModule { module, addresses } = left;
        let Some(opener) = module.opener.clone() else { return };
        if addresses.is_empty() {
            return opener.release();
        }
        if self.bytes >= MAX_BYTES {
            return self.open.push(module);
        }
        let none: Arc<[Symbol]> = Arc::new([]);
        let mut names: HashMap<u64, Arc<[Symbol]>> = addresses.iter().map(|&at| (at, none.clone())).collect();
        let mut bytes = size_of::<EarlyModule>() + addresses.len() * ENTRY;
        symbolizer.native(&module, &addresses, &mut |number, symbols| {
            bytes += symbols.iter().map(symbol_bytes).sum::<usize>();
            names.insert(addresses[number], symbols.into());
        });
        let unnamed: Vec<u64> = addresses.iter().copied().filter(|at| names[at].is_empty()).collect();
        let mut starts = HashMap::new();
        if !unnamed.is_empty() {
            symbolizer
                .starts(&module, &unnamed, &mut |number, start| _ = starts.insert(unnamed[number], start));
        }
        self.bytes += bytes;
        self.modules.insert(key(&module), EarlyModule { names, starts, _module: module });
        opener.release();
    }

    /// Drops all names, and closes the files whose names were read with the profile.
    pub(super) fn clear(&mut self) {
        for opener in self.open.iter().filter_map(|module| module.opener.as_ref()) {
            opener.release();
        }
        *self = EarlyNames::default();
    }
}

/// Memory of an address without the text of its names, in bytes.
const ENTRY: usize = size_of::<(u64, Arc<[Symbol]>)>() * 2 + 32;

/// Returns the memory of a symbol. Many share their texts.
fn symbol_bytes(symbol: &Symbol) -> usize {
    size_of::<Symbol>() + symbol.function.len() + symbol.file.len() / 4
}

fn key(module: &Module) -> usize {
    module.opener.as_ref().map_or(0, |opener| Arc::as_ptr(opener).cast::<()>() as usize)
}

/// A symbolizer that has some names already.
pub(super) struct WithEarlyNames<'a> {
    pub(super) early: &'a EarlyNames,
    pub(super) symbolizer: &'a mut dyn Symbolizer,
}

impl Symbolizer for WithEarlyNames<'_> {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        let Some(early) = self.early.modules.get(&key(module)) else {
            return self.symbolizer.native(module, addresses, name);
        };
        let mut missing = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            match early.names.get(address) {
                Some(symbols) if symbols.is_empty() => {}
                Some(symbols) => name(number, symbols),
                None => missing.push(number),
            }
        }
        if !missing.is_empty() {
            let wanted: Vec<u64> = missing.iter().map(|&number| addresses[number]).collect();
            self.symbolizer.native(module, &wanted, &mut |place, symbols| name(missing[place], symbols));
        }
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.symbolizer.kernel(addresses, name);
    }

    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        let Some(early) = self.early.modules.get(&key(module)) else {
            return self.symbolizer.starts(module, addresses, begin);
        };
        for (number, address) in addresses.iter().enumerate() {
            if let Some(&start) = early.starts.get(address) {
                begin(number, start);
            }
        }
    }

    fn stats(&self) -> SymbolStats {
        self.symbolizer.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Opener;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A file that is gone once it was released.
    #[derive(Default)]
    struct Gone(AtomicBool);

    impl Opener for Arc<Gone> {
        fn open(&self) -> std::io::Result<Box<dyn crate::elf::ReadAt>> {
            Err(std::io::ErrorKind::NotFound.into())
        }

        fn release(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Names even addresses of files that are there.
    struct Even(Arc<Gone>);

    impl Symbolizer for Even {
        fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
            for (number, address) in addresses.iter().enumerate() {
                if address % 2 == 0 && !self.0.0.load(Ordering::Relaxed) {
                    name(number, &[Symbol { function: format!("f{address}").into(), ..Symbol::default() }]);
                }
            }
        }

        fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

        fn starts(&mut self, _: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
            addresses.iter().enumerate().for_each(|(number, address)| begin(number, address - 1));
        }
    }

    fn names(symbolizer: &mut dyn Symbolizer, module: &Module, addresses: &[u64]) -> (Vec<String>, Vec<u64>) {
        let (mut names, mut starts) = (vec![String::new(); addresses.len()], vec![0; addresses.len()]);
        symbolizer.native(module, addresses, &mut |number, symbols| {
            names[number] = symbols[0].function.to_string();
        });
        symbolizer.starts(module, addresses, &mut |number, start| starts[number] = start);
        (names, starts)
    }

    #[test]
    fn names_outlive_their_file() {
        let gone = Arc::new(Gone::default());
        let mut module = Module::new("/tmp/gone");
        module.opener = Some(Arc::new(gone.clone()));
        let (mut early, mut even) = (EarlyNames::default(), Even(gone.clone()));
        early.add(LeftModule { module: module.clone(), addresses: vec![2, 3, 4] }, &mut even);
        assert!(gone.0.load(Ordering::Relaxed), "the file was closed");
        let mut symbolizer = WithEarlyNames { early: &early, symbolizer: &mut even };
        let (found, starts) = names(&mut symbolizer, &module, &[2, 3, 4, 6]);
        assert_eq!((found, starts[1]), (vec!["f2".to_owned(), String::new(), "f4".into(), String::new()], 2));
        // Another file of the same name.
        module.opener = Some(Arc::new(Arc::new(Gone::default())));
        assert_eq!(names(&mut symbolizer, &module, &[2]).0, [""]);
        early.clear();
        assert_eq!(early.bytes, 0);
    }

    #[test]
    fn files_beyond_the_bound_stay_open_until_the_profile_ends() {
        let gone = Arc::new(Gone::default());
        let mut module = Module::new("/tmp/gone");
        module.opener = Some(Arc::new(gone.clone()));
        let mut early = EarlyNames { bytes: MAX_BYTES, ..EarlyNames::default() };
        early.add(LeftModule { module, addresses: vec![2] }, &mut Even(gone.clone()));
        assert!(!gone.0.load(Ordering::Relaxed));
        early.clear();
        assert!(gone.0.load(Ordering::Relaxed));
    }
}
