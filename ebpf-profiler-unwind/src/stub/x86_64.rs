//! x86_64.

use std::ops::Range;

use super::{Found, Kind, Recognizer};

pub(super) static RECOGNIZER: Recognizer =
    Recognizer { system_call, context: super::signal(RSP, 0), entry, coroutine };

const RSP: u8 = 7;

const SYSCALL: [u8; 6] = [15, 0, 0, 0, 0x0f, 0x05];

/// `call r9; mov edi, eax; xor eax, eax; mov al, 60; syscall`
const THREAD_END: [u8; 11] = *b"\x41\xff\xd1\x89\xc7\x31\xc0\xb0\x3c\x0f\x05";

/// `mov eax, 15` or `mov rax, 15`, then `syscall`; or the end of a thread.
fn system_call(code: &[u8]) -> Option<Found> {
    let mut end = 0;
    loop {
        end += last_byte(code.get(end..)?)? + 1;
        if code[..end].ends_with(&THREAD_END) {
            return Some((end - THREAD_END.len()..end, Kind::ThreadEnd));
        }
        let Some(before) = code[..end].strip_suffix(&SYSCALL) else { continue };
        if before.ends_with(&[0x48, 0xc7, 0xc0]) {
            return Some((before.len() - 3..end, Kind::SignalReturn));
        }
        if before.ends_with(&[0xb8]) {
            return Some((before.len() - 1..end, Kind::SignalReturn));
        }
    }
}

/// Returns the position of the first byte that may be the last one of the system call: the rarest
/// of its bytes.
///
/// Most code is scanned by this alone: eight bytes at a time, by [the test for a zero byte][trick].
///
/// [trick]: https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord
fn last_byte(code: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, rest) = code.as_chunks();
    let has_it = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word) ^ (ONES * SYSCALL[5] as u64);
        word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
    };
    let is_it = |&byte: &u8| byte == SYSCALL[5];
    match words.iter().position(has_it) {
        Some(number) => words[number].iter().position(is_it).map(|at| number * 8 + at),
        None => rest.iter().position(is_it).map(|at| words.len() * 8 + at),
    }
}

/// Returns the size up to the end of the first call, or of a loader's jump to the program.
fn entry(code: &[u8]) -> usize {
    const JUMP_R12: [u8; 3] = [0x41, 0xff, 0xe4];
    if let Some(jump) = code.windows(JUMP_R12.len()).position(|window| window == JUMP_R12) {
        return jump + JUMP_R12.len();
    }
    // Near calls only: a byte of an address may recognizer like a call, too.
    let is_call = |call: &[u8]| call[0] == 0xe8 && matches!(call[3..], [0 | 0xff, 0 | 0xff]);
    code.windows(5).position(is_call).map_or(0, |call| call + 5)
}

/// Returns the end of `make_fcontext`: it calls the first function of a coroutine, which returns to
/// the `xor`.
///
/// ```text
///   push rbp             55
///   jmp  rbx             ff e3
///   xor  rdi, rdi        48 31 ff
///   call _exit           e8 …
///   hlt                  f4
/// ```
fn coroutine(code: &[u8]) -> Option<Range<usize>> {
    const SIZE: usize = 12;
    let is_end = |code: &[u8]| matches!(code, [0x55, 0xff, 0xe3, 0x48, 0x31, 0xff, 0xe8, _, _, _, _, 0xf4]);
    code.windows(SIZE).position(is_end).map(|at| at..at + SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal_return(code: &[u8]) -> Option<Range<usize>> {
        system_call(code).filter(|found| found.1 == Kind::SignalReturn).map(|found| found.0)
    }

    #[test]
    fn thread_ends() {
        let code = [b"\x31\xed\x5f", &THREAD_END[..], b"\xf4\xc3"].concat();
        assert_eq!(system_call(&code), Some((3..14, Kind::ThreadEnd)));
        // Another system call, without a call before it.
        assert_eq!(system_call(&THREAD_END[1..]), None);
        assert_eq!(system_call(&code[..13]), None);
    }

    #[test]
    fn signal_returns() {
        // musl's, behind a `nop`.
        assert_eq!(signal_return(b"\x90\x48\xc7\xc0\x0f\0\0\0\x0f\x05\xc3"), Some(1..10));
        assert_eq!(signal_return(b"\xb8\x0f\0\0\0\x0f\x05"), Some(0..7));
        // Another register, another number.
        assert_eq!(signal_return(b"\xb9\x0f\0\0\0\x0f\x05"), None);
        assert_eq!(signal_return(b"\xb8\x10\0\0\0\x0f\x05"), None);
        assert_eq!(signal_return(b"\xbf\x0f\0\0\0\x0f\x05\xb8\x0f\0\0\0\x0f\x05"), Some(7..14));
        assert_eq!(signal_return(b"\x0f\0\0\0\x0f\x05"), None);
        for distance in 0..20 {
            let code = [&vec![5; distance][..], b"\xb8\x0f\0\0\0\x0f\x05"].concat();
            assert_eq!(signal_return(&code), Some(distance..distance + 7));
        }
    }

    #[test]
    fn coroutines() {
        // PHP's, behind `mov [rax + 0x38], rcx; ret`.
        let code = b"\x48\x89\x48\x38\xc3\x55\xff\xe3\x48\x31\xff\xe8\x59\xb9\xe5\xff\xf4\x0f";
        assert_eq!(coroutine(code), Some(5..17));
        assert_eq!(coroutine(&code[..16]), None);
    }

    #[test]
    fn entries() {
        // xor rbp, rbp; mov rdi, rsp; lea rsi, ...; and rsp, -16; call
        let musl = b"\x48\x31\xed\x48\x89\xe7\x48\x8d\x35\xe8\x2d\0\0\x48\x83\xe4\xf0\xe8\x05\0\0\0\x8b\x37\xe8\0\0\0\0";
        assert_eq!(entry(musl), 22);
        // mov rdi, rsp; call; mov r12, rax; ...; call; lea; mov rsp, r13; jmp r12
        let loader = b"\x48\x89\xe7\xe8\xa0\x0b\0\0\x49\x89\xc4\xe8\0\x01\0\0\x4c\x89\xec\x41\xff\xe4\x90";
        assert_eq!(entry(loader), 22);
        assert_eq!(entry(b"\x31\xed"), 0);
    }
}
