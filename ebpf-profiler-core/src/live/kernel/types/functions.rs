//! Functions that a kernel describes: their numbers, arguments and results.
//!
//! ```text
//!   FUNC         name, type: number of its FUNC_PROTO
//!   FUNC_PROTO   count of parameters, type: that of the result, 0 for none; parameter: name: u32, type: u32
//!   INT          size; encoding: u32, whose bit 24 is set if it is signed
//! ```

use std::collections::HashSet;

use super::{DEPTH, KernelTypes, MAX_VISITS, ReadAt, TYPE, Type, kind, word};

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::live) struct KernelFunction {
    /// Number of its type.
    pub(in crate::live) id: u32,
    pub(in crate::live) name: String,
    pub(in crate::live) arguments: Vec<Argument>,
    /// Its result; `None` if that is no integer or pointer, or there is none.
    pub(in crate::live) result: Option<Integer>,
}

/// An argument of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::live) struct Argument {
    /// Number of its first word among the words of all arguments.
    pub(in crate::live) word: u32,
    /// `None` for other types than integers and pointers.
    pub(in crate::live) integer: Option<Integer>,
}

/// An integer or pointer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::live) struct Integer {
    /// Logarithm of its size in bytes, 0 to 3.
    pub(in crate::live) size: u32,
    pub(in crate::live) is_signed: bool,
}

impl<R: ReadAt> KernelTypes<R> {
    /// Returns the functions whose names match, in the order of their numbers.
    pub(in crate::live) fn functions(&mut self, matches: impl Fn(&[u8]) -> bool) -> Vec<KernelFunction> {
        self.visits_left = MAX_VISITS;
        let names = self.names(matches);
        let (mut positions, mut found, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(next) = self.type_at(at) {
            positions.push(at);
            if next.kind == kind::FUNC && names.contains(&next.name) {
                found.push((positions.len() as u32, next));
            }
            let Some(end) = next.end() else { break };
            at = end;
        }
        found.into_iter().filter_map(|(id, function)| self.function(id, function, &positions)).collect()
    }

    /// Returns the offsets of the strings that match.
    fn names(&mut self, matches: impl Fn(&[u8]) -> bool) -> HashSet<u32> {
        let mut at = 0u32;
        let mut found = HashSet::new();
        while let Some(name) = self.strings.string(at.into()) {
            if !name.is_empty() && matches(name) {
                found.insert(at);
            }
            at += name.len() as u32 + 1;
        }
        found
    }

    fn function(&mut self, id: u32, function: Type, positions: &[u64]) -> Option<KernelFunction> {
        /// Size of a parameter in bytes.
        const PARAMETER: u64 = 8;
        let name = String::from_utf8(self.strings.string(function.name.into())?.to_vec()).ok()?;
        let shape = self.numbered(function.of, positions).filter(|shape| shape.kind == kind::FUNC_PROTO)?;
        let (mut arguments, mut next) = (Vec::new(), 0);
        for index in 0..shape.count {
            let bytes: [u8; 8] = self.types.array(shape.at + TYPE + u64::from(index) * PARAMETER)?;
            let (integer, words) = self.value(word(&bytes, 4), positions);
            arguments.push(Argument { word: next, integer });
            next += words;
        }
        let (result, _) = self.value(shape.of, positions);
        Some(KernelFunction { id, name, arguments, result })
    }

    /// Returns type `id` as an integer, and its number of words as an argument.
    fn value(&mut self, id: u32, positions: &[u64]) -> (Option<Integer>, u32) {
        let Some(found) = self.resolved(id, positions) else { return (None, 1) };
        let (size, is_signed) = match found.kind {
            kind::PTR => (8, false),
            kind::INT => {
                let encoding = self.types.array::<4>(found.at + TYPE).map_or(0, |bytes| word(&bytes, 0));
                (found.of, encoding >> 24 & 1 != 0)
            }
            // The bit says that values are signed.
            kind::ENUM | kind::ENUM64 => (found.of, found.has_bitfields),
            kind::STRUCT | kind::UNION => return (None, found.of.div_ceil(8).max(1)),
            _ => return (None, 1),
        };
        let size = [1, 2, 4, 8].iter().position(|&known| known == size);
        (size.map(|size| Integer { size: size as u32, is_signed }), 1 + u32::from(size.is_none()))
    }

    /// Returns type `id` without typedefs and qualifiers.
    fn resolved(&mut self, mut id: u32, positions: &[u64]) -> Option<Type> {
        for _ in 0..DEPTH {
            let found = self.numbered(id, positions)?;
            if !found.is_qualifier() {
                return Some(found);
            }
            id = found.of;
        }
        None
    }

    fn numbered(&mut self, id: u32, positions: &[u64]) -> Option<Type> {
        let at = *positions.get((id as usize).checked_sub(1)?)?;
        self.type_at(at)
    }
}
