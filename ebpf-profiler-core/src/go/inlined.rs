//! Inlined calls.
//!
//! ```text
//!   pc table 2 of a function    address ──► number in its tree, or -1
//!   tree, data 3                {.., name, address in the caller that stands for the call, ..} for each
//! ```
//!
//! Trees are outside the table: see [`super::module`].

use super::{Function, Pclntab, Version, word};

/// The trees of all functions.
#[derive(Clone, Debug)]
pub(super) struct Trees {
    /// The bytes that offsets of trees refer to.
    pub(super) data: Vec<u8>,
}

/// One function at an address: an inlined one, or the function that holds the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inlined<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The address that stands for the call; for the innermost function, that of the instruction.
    pub address: u64,
    /// The line on which it begins; 0 if unknown.
    pub start_line: u32,
}

/// Numbers of the pc table and of the data.
const INDEX: u32 = 2;
const TREE: u8 = 3;

/// Maximum depth of inlining.
const MAX_DEPTH: usize = 64;

impl Pclntab {
    /// Returns the functions inlined at `address` of `function`, innermost first, and `function`
    /// itself.
    ///
    /// Tables are searched step by step, and each step decrements `left`. It bounds the work that a
    /// malicious file can cause; once it is 0, only `function` is returned.
    pub fn functions<'a>(
        &'a self,
        function: &Function<'a>,
        address: u64,
        left: &mut usize,
    ) -> Vec<Inlined<'a>> {
        let mut found = Vec::new();
        let mut at = address;
        while found.len() < MAX_DEPTH
            && let Some(entry) = self.inlined_at(function, at, left)
        {
            found.push(Inlined { name: entry.name, address: at, start_line: entry.start_line });
            at = entry.call;
        }
        let start_line = function.start_line().unwrap_or(0);
        found.push(Inlined { name: function.name(), address: at, start_line });
        found
    }

    fn inlined_at<'a>(
        &'a self,
        function: &Function<'a>,
        address: u64,
        left: &mut usize,
    ) -> Option<Entry<'a>> {
        let trees = self.inlined.as_ref()?;
        let tree = function.extra_data(TREE)?;
        let number = usize::try_from(function.extra_steps(INDEX)?.value_at(address, left)?).ok()?;
        trees.entry(self.version, function, tree, number)
    }

    /// Returns `true` if `trees` has valid entries for the first few functions that refer to it.
    pub(super) fn fit(&self, trees: &Trees) -> bool {
        const CHECKED_FUNCTIONS: usize = 32;
        let functions = (0..self.count).filter_map(|number| self.function(number));
        let with_trees = functions.filter_map(|function| {
            let tree = function.extra_data(TREE)?;
            // Somewhere in it there is a number.
            let numbers = function.extra_steps(INDEX)?.take(CHECKED_FUNCTIONS).map(|(_, number)| number);
            Some((function, tree, usize::try_from(numbers.max()?).ok()?))
        });
        let mut checked = with_trees.take(CHECKED_FUNCTIONS).map(|(function, tree, number)| {
            let entry = trees.entry(self.version, &function, tree, number);
            entry.is_some_and(|entry| !entry.name.is_empty() && entry.name.iter().all(|byte| *byte > b' '))
        });
        checked.next() == Some(true) && checked.all(|sensible| sensible)
    }
}

/// One entry of a tree.
struct Entry<'a> {
    name: &'a [u8],
    /// The address that stands for the call.
    call: u64,
    start_line: u32,
}

impl Trees {
    fn entry<'a>(
        &self,
        version: Version,
        function: &Function<'a>,
        tree: u32,
        number: usize,
    ) -> Option<Entry<'a>> {
        // {id, name, call, start line}, before 1.20 {parent, id, file, line, name, call}
        let (size, name, call, start_line) =
            if version == Version::Go120 { (16, 4, 8, Some(12)) } else { (20, 12, 16, None) };
        let at = (tree as usize).checked_add(number.checked_mul(size)?)?;
        let field = |place: usize| word(&self.data, at.checked_add(place)?);
        let name = function.other_name(field(name)?)?;
        let call = function.entry().checked_add(field(call)?.into())?;
        Some(Entry { name, call, start_line: start_line.and_then(field).unwrap_or(0) })
    }
}
