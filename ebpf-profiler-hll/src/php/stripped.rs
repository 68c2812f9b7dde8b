//! Finds the loop and the globals of an executable without symbols.
//!
//! ```text
//!   mov  (%r15),%rax          the loop continues with the code of the next instruction: some 1,000 times in one function,
//!   jmp  *%rax                less than 100 times in any other
//!
//!   mov  $0xf697a0,%rax       executor_globals
//!   …
//!   mov  0x1e8(%rax),%rax     current_execute_data
//! ```

use std::collections::HashMap;
use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf, segment_type};

use crate::fde;

/// Ways to the code of the next instruction, which `r15` points to: `jmp *(%r15)` and `mov
/// (%r15),%rax`.
const DISPATCHES: [&[u8]; 2] = [b"\x41\xff\x27", b"\x49\x8b\x07"];

/// Minimum number of them in a loop.
pub(super) const MIN_DISPATCHES: usize = 300;

/// Sizes of a loop, in bytes.
const LOOP: Range<u64> = 16 << 10..1 << 20;

/// Maximum distance from an instruction with the address of the globals to the one that uses it, in
/// bytes.
const MAX_DISTANCE: usize = 32;

/// Minimum number of such pairs.
const MIN_PAIRS: usize = 4;

/// Type of the segment with the path of the dynamic linker.
const PT_INTERP: u32 = 3;

/// The loop and the globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) main: Range<u64>,
    /// Virtual address of `executor_globals`.
    pub(super) globals: u64,
}

/// Returns `true` for a program in C without dynamic linker: others export PHP's symbols to
/// extensions.
pub(super) fn is_static(elf: &Elf) -> bool {
    let is_linked = elf.segments().iter().any(|segment| segment.kind == PT_INTERP);
    let is_c = elf.section(".eh_frame").is_some() && elf.section(".gopclntab").is_none();
    elf.arch() == Arch::X86_64 && elf.entry() != 0 && !is_linked && is_c
}

/// Finds the loop among the functions of `.eh_frame`, and in it the globals, whose word at
/// `current` it reads.
pub(super) fn find(elf: &Elf, current: u32) -> Option<Found> {
    let functions = fde::all(elf);
    let candidates = functions.into_iter().filter(|range| LOOP.contains(&(range.end - range.start)));
    let counted = candidates.filter_map(|range| Some((dispatches(&code(elf, &range)?), range)));
    let (count, main) = counted.max_by_key(|(count, _)| *count)?;
    if count < MIN_DISPATCHES {
        return None;
    }
    let globals = globals(&code(elf, &main)?, main.start, current)?;
    let is_writable = |segment: &&ebpf_profiler_core::elf::Segment| {
        segment.kind == segment_type::PT_LOAD && segment.flags & 2 != 0
    };
    let holds = |segment: &ebpf_profiler_core::elf::Segment| {
        globals.checked_sub(segment.address).is_some_and(|at| at < segment.memory_size)
    };
    elf.segments().iter().filter(is_writable).any(holds).then_some(Found { main, globals })
}

/// Returns the number of dispatches in code.
pub(super) fn dispatches(code: &[u8]) -> usize {
    code.windows(3).filter(|window| DISPATCHES.contains(window)).count()
}

/// Returns the offset of the first dispatch in code.
pub(super) fn first_dispatch(code: &[u8]) -> Option<usize> {
    code.windows(3).position(|window| DISPATCHES.contains(&window))
}

/// Reads the code of a function.
pub(super) fn code(elf: &Elf, range: &Range<u64>) -> Option<Vec<u8>> {
    let size = range.end.checked_sub(range.start).filter(|&size| size <= LOOP.end)?;
    let mut code = vec![0; size as usize];
    elf.read(range.start, &mut code).ok()?;
    Some(code)
}

/// Returns the address that most pairs of instructions have in common: one loads it, a later one
/// reads at `current` from it.
fn globals(code: &[u8], start: u64, current: u32) -> Option<u64> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for at in 0..code.len().saturating_sub(7) {
        let Some(address) = loaded(&code[at..at + 7], start.wrapping_add(at as u64 + 7)) else { continue };
        let behind = &code[at + 7..(at + 7 + MAX_DISTANCE).min(code.len())];
        if behind.windows(4).any(|window| *window == current.to_le_bytes()) {
            *counts.entry(address).or_default() += 1;
        }
    }
    let (address, count) = counts.into_iter().max_by_key(|&(address, count)| (count, address))?;
    (count >= MIN_PAIRS).then_some(address)
}

/// Returns the address that an instruction of seven bytes loads: `mov $address,%reg` or `lea
/// address(%rip),%reg`.
fn loaded(code: &[u8], next: u64) -> Option<u64> {
    let [rex, opcode, modrm, rest @ ..] = code else { return None };
    let number = i32::from_le_bytes(*rest.first_chunk()?);
    match (rex, opcode, modrm) {
        (0x48 | 0x49, 0xc7, 0xc0..=0xc7) => u64::try_from(number).ok(),
        (0x48 | 0x4c, 0x8d, _) if modrm & 0xc7 == 5 => Some(next.wrapping_add_signed(number.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_address_that_is_read_from() {
        // mov $0xf697a0,%rax; mov 0x1e8(%rax),%rax; and lea 0x100(%rip),%rcx; mov 0x1e8(%rcx),%rax
        let fixed = b"\x48\xc7\xc0\xa0\x97\xf6\x00\x48\x8b\x80\xe8\x01\x00\x00".repeat(5);
        assert_eq!(globals(&fixed, 0x1000, 488), Some(0xf6_97a0));
        assert_eq!(globals(&fixed, 0x1000, 512), None);
        assert_eq!(globals(&fixed[..14], 0x1000, 488), None);
        let relative = b"\x48\x8d\x0d\x00\x01\x00\x00\x48\x8b\x81\xe8\x01\x00\x00";
        assert_eq!(loaded(&relative[..7], 0x1007), Some(0x1107));
    }

    #[test]
    fn counts_dispatches() {
        assert_eq!(dispatches(b"\x49\x8b\x07\xff\xe0\x41\xff\x27\x90"), 2);
        assert_eq!(first_dispatch(b"\xff\xe0\x41\xff\x27\x90"), Some(2));
        assert_eq!(first_dispatch(b"\x90"), None);
    }
}
