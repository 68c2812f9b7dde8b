//! Checks of subs and files of Perl.

use super::{LastText, check, mix, text};
use crate::machine::Machine;

/// Offset in the body of a sub from which on it is read: stash, start, …, name, file.
const BODY: u64 = 32;

/// Offset in an operation from which on it is read: line, stash, file, hints and number of a statement.
const STATEMENT: u64 = 32;

/// Returns the check of a sub with a body.
///
/// Its first statement has a number that the interpreter counts up while it compiles: a later sub has another one.
#[inline(always)]
pub fn sub<M: Machine>(machine: &mut M, body: u64) -> u32 {
    let mut sum = mix(0, body);
    let mut start = 0;
    if let Some(words) = machine.read_object(body.wrapping_add(BODY), 40) {
        start = words[1];
        sum = mix(mix(mix(mix(sum, words[0]), words[1]), words[3]), words[4]);
    }
    if start != 0
        && let Some(words) = machine.read_object(start.wrapping_add(STATEMENT), 32)
    {
        // Without the flags of the operation.
        sum = mix(mix(mix(sum, words[0] >> 32), words[2]), words[3]);
    }
    check(sum)
}

/// Returns the check of a file: of its path, or, if `is_glob`, of the name of its glob. `None` if it is unreadable.
#[inline(always)]
pub fn file<M: Machine>(machine: &mut M, at: u64, is_glob: bool, last: &mut LastText) -> Option<u32> {
    if at != last.address || at == 0 {
        let hash = if is_glob {
            // The body of the glob; its name; hash and length of that.
            let body = machine.read_memory(at)?;
            let name = machine.read_memory(body.wrapping_add(32)).unwrap_or(0);
            mix(mix(0, body), machine.read_memory(name).unwrap_or(0))
        } else {
            text(machine, at)?
        };
        *last = LastText { address: at, hash };
    }
    Some(check(mix(0, last.hash)))
}
