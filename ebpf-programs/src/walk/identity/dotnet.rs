//! Checks of .NET's methods.
//!
//! The memory of a method that was freed, with its assembly or as a dynamic one, is used again. So the check covers the header of
//! its code, its descriptor, the module, and the name of a dynamic method.

use super::{check, mix, text};
use crate::abi::dotnet::{DYNAMIC, GROUP, HEADER, MAX_STUB_KIND, MODULE};
use crate::machine::Machine;

/// Bits of a descriptor's first word that don't change: 12 bits of the token, index, slot, kind.
const DESCRIPTOR: u64 = 0x0007_ffff_00ff_0fff;

/// Bits of a group's third word that don't change: size, number of methods, 12 bits of the token.
const RANGE: u64 = 0x0fff_ffff;

/// A method and its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Address of its descriptor.
    pub descriptor: u64,
    /// Address of the header of its code.
    pub header: u64,
    /// Number of unwind entries behind the header.
    pub entries: u64,
    /// The check.
    pub check: u32,
}

/// Returns the method whose code begins at an address; `None` if it is unreadable, or a stub. `name_offset` is the offset of the name in
/// the descriptor of a dynamic method.
#[inline(always)]
pub fn method<M: Machine>(machine: &mut M, start: u64, name_offset: u64) -> Option<Method> {
    let header = machine.read_memory(start.wrapping_sub(8))?;
    if header <= MAX_STUB_KIND {
        return None;
    }
    let (descriptor, entries, mut sum) = {
        let words = machine.read_object(header, HEADER)?;
        (words[3], words[4] as u32 as u64, mix(mix(mix(mix(0, words[0]), words[2]), words[3]), words[4]))
    };
    let first = machine.read_memory(descriptor)?;
    sum = mix(sum, first & DESCRIPTOR);
    if first >> 48 & 7 == DYNAMIC {
        let name = machine.read_memory(descriptor.wrapping_add(name_offset))?;
        sum = mix(sum, text(machine, name)?);
    }
    let group = group(descriptor, first);
    let (table, range) = {
        let words = machine.read_object(group, GROUP as u32)?;
        (words[0], words[2] & RANGE)
    };
    sum = mix(mix(sum, table), range);
    let module = machine.read_memory(table.wrapping_add(MODULE))?;
    Some(Method { descriptor, header, entries, check: check(mix(sum, module)) })
}

/// Returns the group that a method is in, by its descriptor and the first word of that.
#[inline(always)]
pub fn group(descriptor: u64, first: u64) -> u64 {
    let index = first >> 16 & 0xff;
    descriptor.wrapping_sub(GROUP).wrapping_sub(index * 8)
}

/// Returns a hash of the code around an address, 24 bits, and of a further number.
#[inline(always)]
pub fn code<M: Machine>(machine: &mut M, address: u64, number: u64) -> Option<u32> {
    let words = machine.read_object(address.wrapping_sub(8), 16)?;
    Some(check(mix(mix(mix(0, words[0]), words[1]), number)))
}
