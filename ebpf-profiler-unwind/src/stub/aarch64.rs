//! arm64.

use super::{Found, Kind, Recognizer};

pub(super) static RECOGNIZER: Recognizer =
    Recognizer { system_call, context: super::signal(SP, CONTEXT), entry, coroutine: |_| None };

const SP: u8 = 31;

/// The `ucontext` follows 128 bytes of `siginfo`.
const CONTEXT: i32 = 128;

/// `mov x8, 139`, then `svc 0`; or `blr x1`, `mov x8, 93`, `svc 0`.
fn system_call(code: &[u8]) -> Option<Found> {
    const SIGNAL_RETURN: [u32; 2] = [0xd280_1168, SVC];
    const THREAD_END: [u32; 3] = [0xd63f_0020, 0xd280_0ba8, SVC];
    let mut last = [0; 3];
    words(code).enumerate().find_map(|(number, word)| {
        last = [last[1], last[2], word];
        let end = (number + 1) * 4;
        if last == THREAD_END {
            return Some((end - 12..end, Kind::ThreadEnd));
        }
        (last[1..] == SIGNAL_RETURN).then_some((end.saturating_sub(8)..end, Kind::SignalReturn))
    })
}

/// `svc 0`
const SVC: u32 = 0xd400_0001;

/// Returns the size of the code up to the first branch that does not return.
fn entry(code: &[u8]) -> usize {
    words(code).position(is_jump).map_or(0, |number| (number + 1) * 4)
}

/// `b`, `br` or `ret`
fn is_jump(word: u32) -> bool {
    word >> 26 == 0b00_0101 || matches!(word & 0xffff_fc1f, 0xd61f_0000 | 0xd65f_0000)
}

fn words(code: &[u8]) -> impl Iterator<Item = u32> {
    code.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn signal_return(code: &[u8]) -> Option<Range<usize>> {
        system_call(code).filter(|found| found.1 == Kind::SignalReturn).map(|found| found.0)
    }

    #[test]
    fn thread_ends() {
        // ldp x1, x0, [sp], 16; blr x1; mov x8, 93; svc 0
        let musl = code(&[0xa8c1_03e1, 0xd63f_0020, 0xd280_0ba8, 0xd400_0001]);
        assert_eq!(system_call(&musl), Some((4..16, Kind::ThreadEnd)));
        assert_eq!(system_call(&musl[8..]), None);
    }

    #[test]
    fn signal_returns() {
        assert_eq!(signal_return(&code(&[0xd503_201f, 0xd280_1168, 0xd400_0001])), Some(4..12));
        assert_eq!(signal_return(&code(&[0xd280_1168, 0xd400_0001])), Some(0..8));
        assert_eq!(signal_return(&code(&[0xd280_1188, 0xd400_0001, 0xd280_1168])), None);
        assert_eq!(signal_return(&[]), None);
    }

    #[test]
    fn entries() {
        // mov x29, 0; mov x30, 0; mov x0, sp; bl; b
        let musl = code(&[0xd280_001d, 0xd280_001e, 0x9100_03e0, 0x9400_0002, 0x1400_0001, 0xd503_201f]);
        assert_eq!(entry(&musl), 20);
        // br x21
        assert_eq!(entry(&code(&[0x9400_0002, 0xd61f_02a0, 0xd503_201f])), 8);
        assert_eq!(entry(&code(&[0x9400_0002])), 0);
    }
}
