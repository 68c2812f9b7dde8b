//! Text as a list of characters.
//!
//! ```text
//!   list = address | 01 ──► character << 4 | 1111, rest of the list
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::modules::words;

/// Maximum number of characters.
const MAX: usize = 4096;

/// The empty list.
const EMPTY: u64 = 0x3b;

/// Returns `true` for a list that isn't empty.
pub(super) fn is_list(term: u64) -> bool {
    term & 3 == 1
}

/// Returns the text of a list.
pub(super) fn characters(mut list: u64, memory: &dyn Memory) -> Result<String, Reason> {
    let mut text = String::new();
    for _ in 0..MAX {
        if list == EMPTY {
            return Ok(text);
        }
        if !is_list(list) {
            break;
        }
        let [head, tail] = words(list - 1, memory)?;
        let character = if head & 15 == 15 { u32::try_from(head >> 4).ok() } else { None };
        text.push(character.and_then(char::from_u32).ok_or(Reason::Implausible)?);
        list = tail;
    }
    Err(Reason::Implausible)
}

#[test]
fn reads_lists() {
    use ebpf_profiler_core::language::Unreadable;
    // "ä.erl" from address 0x1000, whose rest is at 0x2000.
    let memory = |end: u64| {
        move |address: u64, buffer: &mut [u8]| {
            let cell = match address {
                0x1000 => [0xe4 << 4 | 15, 0x2001],
                0x2000 => [u64::from(b'b') << 4 | 15, end],
                _ => return Err(Unreadable),
            };
            let bytes: Vec<u8> = cell.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            buffer.copy_from_slice(&bytes);
            Ok(())
        }
    };
    assert_eq!(characters(0x1001, &memory(EMPTY)), Ok("äb".to_owned()));
    assert_eq!(characters(0x1001, &memory(0x1001)), Err(Reason::Implausible));
    assert_eq!(characters(0x1001, &memory(0x3001)), Err(Reason::Unreadable));
    assert_eq!(characters(0x1001, &memory(2)), Err(Reason::Implausible));
}
