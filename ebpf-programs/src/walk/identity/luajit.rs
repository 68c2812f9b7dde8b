//! Checks of LuaJIT's prototypes.
//!
//! The name of a function is in the instructions and constants of its caller, so the check of a prototype covers what names others:
//! its first constants and the names of its variables.

use super::{Words, bytes, check, mix, words_of_text};
use crate::abi::luajit::{COMPACT, INSTRUCTION, WIDE, kind};
use crate::machine::Machine;

/// Maximum number of constants whose addresses are covered.
const CONSTANTS: usize = 8;

/// Number of constants that are covered if they are strings.
const STRINGS: usize = 3;

/// Words of a string's characters.
const CHARACTERS: usize = 7;

/// Bytes of the names of variables.
const VARIABLES: u64 = 32;

/// A prototype.
pub struct Prototype {
    /// Size of its instructions, in bytes.
    pub size: u64,
    /// Its check.
    pub check: u32,
}

/// The words of a prototype that lead to its contents.
struct Contents {
    sum: u64,
    size: u64,
    chunk: u64,
    constants: u64,
    count: u64,
    variables: u64,
    end: u64,
}

impl Prototype {
    /// Reads the prototype at an address. Returns `None` if it is unreadable.
    #[inline(always)]
    pub fn read<M: Machine>(machine: &mut M, address: u64, is_compact: bool) -> Option<Prototype> {
        let mut contents = if is_compact {
            let at = COMPACT.prototype;
            let words = machine.read_object(address, at.chunk as u32 + 24)?;
            Contents {
                sum: mix(
                    mix(mix(mix(0, half(words, at.constants)), words[5]), words[6]),
                    half(words, at.size),
                ),
                size: half(words, at.count) * INSTRUCTION,
                chunk: half(words, at.chunk),
                constants: half(words, at.constants),
                count: half(words, at.constant_count),
                variables: half(words, at.variables),
                end: address.wrapping_add(half(words, at.size)),
            }
        } else {
            let at = WIDE.prototype;
            let words = machine.read_object(address, at.chunk as u32 + 24)?;
            let sum = mix(mix(mix(mix(0, words[4]), words[8]), words[9]), words[10]);
            Contents {
                sum: mix(mix(sum, words[6]), half(words, at.size)),
                size: half(words, at.count) * INSTRUCTION,
                chunk: words[at.chunk / 8],
                constants: words[at.constants / 8],
                count: half(words, at.constant_count),
                // Further behind.
                variables: 0,
                end: address.wrapping_add(half(words, at.size)),
            }
        };
        if !is_compact {
            let variables = address.wrapping_add(WIDE.prototype.variables as u64);
            contents.variables = machine.read_memory(variables).unwrap_or(0);
        }
        let size = contents.size;
        Some(Prototype { size, check: check(contents.hash(machine, is_compact)) })
    }
}

impl Contents {
    /// Returns the hash of the contents.
    #[inline(always)]
    fn hash<M: Machine>(self, machine: &mut M, is_compact: bool) -> u64 {
        let mut sum = mix(self.sum, string(machine, self.chunk, is_compact, true));
        let mut strings = [0; STRINGS];
        if let Some(words) =
            machine.read_object(self.constants.wrapping_sub(8 * CONSTANTS as u64), 8 * CONSTANTS as u32)
        {
            let mut index = 0;
            while index < CONSTANTS {
                // The first one is the last in memory.
                let place = if is_compact { 2 * CONSTANTS } else { CONSTANTS } - 1 - index;
                let constant = if is_compact { half(words, 4 * place) } else { words[place] };
                if (index as u64) < self.count {
                    sum = mix(sum, constant);
                    if index < STRINGS {
                        strings[index] = constant;
                    }
                }
                index += 1;
            }
        }
        let mut index = 0;
        while index < STRINGS {
            if strings[index] != 0 {
                sum = mix(sum, string(machine, strings[index], is_compact, false));
            }
            index += 1;
        }
        if self.variables != 0 {
            sum = mix(sum, variables(machine, self.variables, self.end));
        }
        sum
    }
}

/// Returns the hash of a string: of its number, its own hash and its length, as far as its build has them, and if `has_text`, of its
/// characters. Returns 0 for other objects.
#[inline(always)]
fn string<M: Machine>(machine: &mut M, at: u64, is_compact: bool, has_text: bool) -> u64 {
    const HEAD: u32 = 24;
    const WHOLE: u32 = HEAD + CHARACTERS as u32 * 8;
    let size = if has_text { WHOLE } else { HEAD };
    if let Some(words) = machine.read_object(at, size) {
        return hash_of_string(words, is_compact, has_text);
    }
    // It may be the last object of a mapping.
    match machine.read_object(at, HEAD) {
        Some(words) => hash_of_string(words, is_compact, false),
        None => 0,
    }
}

/// Returns the hash of the words of a string; 0 for other objects.
#[inline(always)]
fn hash_of_string(words: &Words, is_compact: bool, has_text: bool) -> u64 {
    let layout = if is_compact { COMPACT.kind } else { WIDE.kind };
    if (words[layout / 8] >> (layout % 8 * 8) as u32) as u8 != kind::STRING {
        return 0;
    }
    // The first bytes change when the garbage collector runs.
    let own = if is_compact { words[1] } else { words[1] >> 32 };
    let sum = mix(mix(0, own), words[2]);
    if has_text { mix(sum, words_of_text::<CHARACTERS>(words, 3)) } else { sum }
}

/// Returns the hash of the first names of variables, which are the last part of the prototype.
#[inline(always)]
fn variables<M: Machine>(machine: &mut M, at: u64, end: u64) -> u64 {
    let left = end.wrapping_sub(at);
    let taken = if left < VARIABLES { left } else { VARIABLES };
    match machine.read_object(at, VARIABLES as u32) {
        Some(words) => bytes::<{ VARIABLES as usize / 8 }>(0, words, 0, taken),
        None => 0,
    }
}

/// Returns the four bytes at an offset.
#[inline(always)]
fn half(words: &Words, at: usize) -> u64 {
    words[at / 8] >> (at % 8 * 8) as u32 & 0xffff_ffff
}
