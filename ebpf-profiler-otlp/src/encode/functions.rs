//! From symbols to the numbers of their functions.

use std::hash::BuildHasher;

use ebpf_profiler_core::symbol::Symbol;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::dictionary::{Dictionary, Function};

/// The functions that were seen, so that the strings of each are looked up once and not for every address in it.
#[derive(Debug, Default)]
pub(super) struct Functions<'p> {
    known: HashTable<Known<'p>>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Known<'p> {
    hash: u64,
    symbol: &'p Symbol,
    number: u32,
}

impl<'p> Functions<'p> {
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// The number of the function that `symbol` lies in.
    pub(super) fn number(&mut self, symbol: &'p Symbol, dictionary: &mut Dictionary) -> u32 {
        // Two functions of one name are told apart by comparing; they are too few to hash more for them.
        let hash = self.hasher.hash_one(symbol.function.as_bytes());
        let same = |known: &Known<'_>| known.hash == hash && is_same(known.symbol, symbol);
        if let Some(known) = self.known.find(hash, same) {
            return known.number;
        }
        let number = new_function(symbol, dictionary);
        self.known.insert_unique(hash, Known { hash, symbol, number }, |known| known.hash);
        number
    }
}

fn new_function(symbol: &Symbol, dictionary: &mut Dictionary) -> u32 {
    let function = Function {
        name: dictionary.string(&symbol.function),
        system_name: dictionary.string(&symbol.system_name),
        filename: dictionary.string(&symbol.file),
        start_line: symbol.start_line.into(),
    };
    dictionary.function(&function)
}

fn is_same(a: &Symbol, b: &Symbol) -> bool {
    let numbers = a.start_line == b.start_line;
    numbers && a.function == b.function && a.system_name == b.system_name && a.file == b.file
}
