//! Checks of Ruby's instruction sequences.
//!
//! A method that is defined again takes the memory of the former one, with the same name and size. So the check covers the first
//! line and the end of the path.

use super::{LastText, bytes, check, mix};
use crate::abi::ruby::{APART, ARRAY, STRING, TYPE, body};
use crate::machine::Machine;

/// Words of the path that are covered: its end.
const PATH: usize = 12;

/// The body of an instruction sequence.
pub struct Body {
    /// Address of its instructions.
    pub instructions: u64,
    /// Its check.
    pub check: u32,
}

impl Body {
    /// Reads the body at an address; `data` is the offset of the text in a string. Returns `None` if it is unreadable.
    #[inline(always)]
    pub fn read<M: Machine>(machine: &mut M, at: u64, data: u64, last: &mut LastText) -> Option<Body> {
        let words = machine.read_object(at, body::READ)?;
        let instructions = words[body::INSTRUCTIONS / 8];
        let sum = mix(mix(0, words[body::SIZE / 8]), instructions);
        // Four bytes from 3.2 on, without its tag.
        let line = words[body::FIRST_LINE / 8] & 0xffff_ffff;
        let sum = mix(mix(sum, words[body::LABEL / 8]), line);
        let path = words[body::PATH / 8];
        if path != last.address || path == 0 {
            *last = LastText { address: path, hash: self::path(machine, path, data) };
        }
        Some(Body { instructions, check: check(mix(sum, last.hash)) })
    }
}

/// Returns the hash of a path: a string, or an array that begins with one. Returns 0 if it is unreadable.
#[inline(always)]
fn path<M: Machine>(machine: &mut M, at: u64, data: u64) -> u64 {
    const HEAD: u32 = 32;
    let Some(words) = machine.read_object(at, HEAD) else { return 0 };
    let (mut at, mut head) = (at, [words[0], words[2], words[3]]);
    if head[0] & (TYPE | APART) == ARRAY | APART {
        // Its elements are within the object.
        at = head[1];
        let Some(words) = machine.read_object(at, HEAD) else { return 0 };
        head = [words[0], words[2], words[3]];
    }
    let [flags, second, third] = head;
    if flags & TYPE != STRING {
        return 0;
    }
    let is_apart = flags & APART != 0;
    let is_short = !is_apart && data == 16;
    let length = if is_short { flags >> 14 & 31 } else { second };
    let start = if is_apart { third } else { at.wrapping_add(data) };
    let taken = if length < PATH as u64 * 8 { length } else { PATH as u64 * 8 };
    let first = start.wrapping_add(length).wrapping_sub(taken);
    let sum = mix(0, length);
    if let Some(words) = machine.read_object(first, PATH as u32 * 8) {
        return bytes::<PATH>(sum, words, 0, taken);
    }
    // It may be the last object of a mapping.
    match machine.read_object(first, 8) {
        Some(words) => bytes::<1>(sum, words, 0, taken),
        None => sum,
    }
}
