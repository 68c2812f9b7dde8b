//! Symbols of frames, and the functions that they belong to.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::FunctionId;
use crate::symbol::Symbol;

/// All symbols of a profile; those of a frame are adjacent.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    symbols: Vec<Symbol>,
    /// Function of each symbol.
    functions: Vec<FunctionId>,
    /// First symbol of each function.
    firsts: Vec<u32>,
}

impl Names {
    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    #[inline]
    pub(super) fn symbols(&self, range: &Range<u32>) -> &[Symbol] {
        &self.symbols[range.start as usize..range.end as usize]
    }

    #[inline]
    pub(super) fn functions(&self, range: &Range<u32>) -> &[FunctionId] {
        &self.functions[range.start as usize..range.end as usize]
    }

    /// Returns one symbol for each function, in the order of their numbers.
    pub(super) fn all_functions(&self) -> impl ExactSizeIterator<Item = &Symbol> {
        self.firsts.iter().map(|&first| &self.symbols[first as usize])
    }
}

/// Interner of symbols and functions by content.
#[derive(Debug, Default)]
pub(super) struct Namer {
    names: Names,
    numbers: HashTable<(u64, FunctionId)>,
    hasher: DefaultHashBuilder,
}

impl Namer {
    /// Adds the symbols of a frame and returns their range.
    pub(super) fn add(&mut self, symbols: &[Symbol]) -> Range<u32> {
        let start = self.names.symbols.len() as u32;
        for symbol in symbols {
            let function = self.function(symbol);
            self.push(symbol, function);
        }
        start..self.names.symbols.len() as u32
    }

    pub(super) fn finish(self) -> Names {
        self.names
    }

    fn function(&mut self, symbol: &Symbol) -> FunctionId {
        let hash =
            self.hasher.hash_one((&symbol.function, &symbol.system_name, &symbol.file, symbol.start_line));
        let Namer { names, numbers, .. } = self;
        let same = |&(known, id): &(u64, FunctionId)| {
            known == hash && is_same(&names.symbols[names.firsts[id.0 as usize] as usize], symbol)
        };
        if let Some(&(_, id)) = numbers.find(hash, same) {
            return id;
        }
        let id = FunctionId(names.firsts.len() as u32);
        names.firsts.push(names.symbols.len() as u32);
        numbers.insert_unique(hash, (hash, id), |&(hash, _)| hash);
        id
    }

    /// Appends a symbol. Symbols of one function share its texts; adjacent functions share the name
    /// of their file.
    fn push(&mut self, symbol: &Symbol, id: FunctionId) {
        let names = &mut self.names;
        let first = names.firsts[id.0 as usize] as usize;
        let kept = match names.symbols.get(first) {
            Some(known) => Symbol { line: symbol.line, column: symbol.column, ..known.clone() },
            None => {
                let neighbour = names.symbols.last().filter(|last| last.file == symbol.file);
                Symbol { file: neighbour.unwrap_or(symbol).file.clone(), ..symbol.clone() }
            }
        };
        names.symbols.push(kept);
        names.functions.push(id);
    }
}

/// Returns `true` if two symbols are of one function.
fn is_same(a: &Symbol, b: &Symbol) -> bool {
    let numbers = a.start_line == b.start_line;
    numbers && a.function == b.function && a.system_name == b.system_name && a.file == b.file
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn symbol(function: &str, line: u32) -> Symbol {
        Symbol { function: function.into(), line, ..Symbol::default() }
    }

    #[test]
    fn lines_of_one_function_have_its_number() {
        let mut namer = Namer::default();
        let ranges =
            [namer.add(&[symbol("f", 1), symbol("g", 2)]), namer.add(&[symbol("f", 3)]), namer.add(&[])];
        let names = namer.finish();
        assert_eq!(
            ranges.each_ref().map(|range| names.functions(range).to_vec()),
            [vec![FunctionId(0), FunctionId(1)], vec![FunctionId(0)], vec![]]
        );
        assert_eq!(names.symbols(&ranges[1]), [symbol("f", 3)]);
        assert_eq!(names.all_functions().collect::<Vec<_>>(), [&symbol("f", 1), &symbol("g", 2)]);
        assert!(Arc::ptr_eq(&names.symbols[0].function, &names.symbols[2].function));
    }

    #[test]
    fn symbols_that_differ_beyond_line_are_distinct_functions() {
        let mut namer = Namer::default();
        let f = symbol("f", 1);
        let others = [
            Symbol { system_name: "_Z1f".into(), ..f.clone() },
            Symbol { file: "f.c".into(), ..f.clone() },
            Symbol { start_line: 1, ..f.clone() },
            f,
        ];
        let range = namer.add(&others);
        assert_eq!(namer.finish().functions(&range), [0, 1, 2, 3].map(FunctionId));
    }
}
