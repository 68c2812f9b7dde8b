//! Checks of Erlang's functions.
//!
//! A module that is loaded again may get the memory of a version that was purged. So the check
//! covers module, function and arity, and the first locations of the function in the line table:
//! versions whose lines differ are different functions.

use super::{Words, bytes, check, mix};
use crate::abi::beam::{ATOM, ATOM_MASK, CHECKED_LOCATIONS, FUNCTION_LINES, LINE_TABLE, NAME, parameter};
use crate::machine::Machine;

/// The first locations of a function in the line table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locations {
    /// Their address; 0 for none.
    pub address: u64,
    /// Their size in bytes, at most [`CHECKED_LOCATIONS`].
    pub size: u64,
}

impl Locations {
    /// Reads where the locations of function `index` of a module are. Returns `None` if the line
    /// table is unreadable.
    #[inline(always)]
    pub fn read<M: Machine>(machine: &mut M, header: u64, index: u64) -> Option<Locations> {
        let table = machine.read_memory(header.wrapping_add(LINE_TABLE))?;
        if table == 0 {
            return Some(Locations::default());
        }
        let [size, start, first] =
            machine.read_object(table.wrapping_add(8), 24).map(|words| [words[0], words[1], words[2]])?;
        let at = table.wrapping_add(FUNCTION_LINES).wrapping_add(index.wrapping_mul(8));
        let [own, next] = machine.read_object(at, 16).map(|words| [words[0], words[1]])?;
        let shift = if size as u32 == 2 { 1 } else { 2 };
        let count = next.wrapping_sub(own) >> 3;
        let most = CHECKED_LOCATIONS >> shift;
        let count = if count < most { count } else { most };
        let before = own.wrapping_sub(first) >> 3;
        Some(Locations { address: start.wrapping_add(before << shift), size: count << shift })
    }
}

/// Returns the check of the function whose `ErtsCodeInfo` is at an address; `None` if there is
/// none.
#[inline(always)]
pub fn function<M: Machine>(machine: &mut M, info: u64, locations: Locations) -> Option<u32> {
    let words: &Words = machine.read_object(info.wrapping_add(NAME), 24)?;
    let [module, name, arity] = [words[0], words[1], words[2]];
    if module & ATOM_MASK != ATOM || name & ATOM_MASK != ATOM {
        return None;
    }
    let mut sum = mix(mix(mix(0, module), name), arity & 0xff);
    if locations.size != 0
        && let Some(words) = machine.read_object(locations.address, CHECKED_LOCATIONS as u32)
    {
        sum = bytes::<4>(sum, words, 0, locations.size);
    }
    Some(check(sum))
}

/// Returns a hash of the code around an address, 24 bits, and of a further number.
#[inline(always)]
pub fn code<M: Machine>(machine: &mut M, address: u64, number: u64) -> Option<u32> {
    let words = machine.read_object(address.wrapping_sub(8), 16)?;
    Some(check(mix(mix(mix(0, words[0]), words[1]), number)))
}

/// Returns address and number of entries of the active table of modules; `None` if they are
/// unreadable or implausible.
#[inline(always)]
pub fn modules<M: Machine>(machine: &mut M, ranges: u64, active: u64) -> Option<(u64, u64)> {
    use crate::abi::beam::{MAX_COUNT, TABLE, TABLES};
    let index = machine.read_memory(active)? as u32 as u64;
    if index >= TABLES {
        return None;
    }
    let words = machine.read_object(ranges.wrapping_add(index * TABLE), 16)?;
    let (modules, count) = (words[0], words[1]);
    (count != 0 && count < MAX_COUNT).then_some((modules, count))
}

const _: () = assert!(parameter::COUNT <= crate::abi::interpreter::PARAMETERS);
