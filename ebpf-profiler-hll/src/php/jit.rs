//! The frame of the loop, in which code of the JIT runs.
//!
//! ```text
//!   push  %r13                the loop's first instructions
//!   …
//!   sub   $0x78,%rsp
//!   …
//!   jmp   *(%r15)             from here on the frame is complete
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::php::FRAME_POINTER;

use super::stripped;

/// Maximum size of a frame, in bytes.
const MAX_FRAME: u32 = 4096;

/// The frame of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopFrame {
    /// Number of its bytes, return address included; with [`FRAME_POINTER`] if the loop sets one.
    pub(super) size: u64,
    /// Virtual address of an instruction of the loop, behind its first byte, at which the frame is
    /// complete.
    pub(super) resume: u64,
}

impl LoopFrame {
    /// Returns the frame of a loop whose code jumps to the code of the next instruction.
    pub(super) fn of(elf: &Elf, main: &Range<u64>) -> Option<LoopFrame> {
        let code = stripped::code(elf, main)?;
        Some(LoopFrame {
            size: size(&code)?,
            resume: main.start + stripped::first_dispatch(&code)? as u64 + 1,
        })
    }
}

/// Returns the size of the frame that the first instructions of a function build.
fn size(code: &[u8]) -> Option<u64> {
    let mut code = code.strip_prefix(b"\xf3\x0f\x1e\xfa").unwrap_or(code);
    let mut size = 8;
    let mut flags = 0;
    loop {
        (code, size) = match code {
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => (rest, size + 8),
            // mov %rsp,%rbp, after push %rbp
            [0x48, 0x89, 0xe5, rest @ ..] if size == 16 => {
                flags = FRAME_POINTER;
                (rest, size)
            }
            [0x48, 0x83, 0xec, bytes, ..] => return Some(flags | (size + u64::from(*bytes))),
            [0x48, 0x81, 0xec, rest @ ..] => {
                let bytes = u32::from_le_bytes(*rest.first_chunk()?);
                return (bytes <= MAX_FRAME).then_some(flags | (size + u64::from(bytes)));
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_pushed_registers_and_reserved_bytes() {
        // PHP 8.2 of Debian 12, 8.4 of Debian 13, and a leaf.
        assert_eq!(size(b"\x41\x55\x41\x54\x55\x53\x48\x83\xec\x78\x64\x48"), Some(160));
        let framed = b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x41\x55\x41\x54\x53\x48\x81\xec\xa8\x00\x00\x00\x64";
        assert_eq!(size(framed), Some(FRAME_POINTER | 208));
        assert_eq!(size(b"\x31\xc0\xc3"), None);
        assert_eq!(size(b"\x55\x48\x81\xec\x00\x00\x01\x00"), None);
        assert_eq!(size(b"\x55\x48\x81\xec\x00"), None);
    }
}
