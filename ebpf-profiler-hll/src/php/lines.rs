//! Lines of a function's instructions.
//!
//! A position is the number of an instruction, with [bits](ebpf_programs::abi::php::identity) of
//! the function's hash.

use ebpf_profiler_core::language::{Lines, Memory, Reason};
use ebpf_programs::abi::php::INSTRUCTION;

/// Size of an instruction, `zend_op`, in bytes.
const SIZE: u32 = 32;

/// Offset of `lineno` in an instruction.
const LINE: usize = 24;

/// Reads the lines of `count` instructions at `opcodes`, for positions with `bits`.
pub(super) fn read(bits: u32, opcodes: u64, count: u32, memory: &dyn Memory) -> Result<Lines, Reason> {
    if count > INSTRUCTION {
        return Err(Reason::Implausible);
    }
    let size = count * SIZE;
    let bytes = memory.bytes(opcodes, size.into(), size as usize)?;
    let line =
        |instruction: &[u8]| instruction[LINE..].first_chunk().map_or(0, |&four| u32::from_le_bytes(four));
    let lines = bytes.chunks_exact(SIZE as usize).map(line);
    Ok(table(bits, lines))
}

/// Returns the table of instructions whose positions have `bits`.
fn table(bits: u32, lines: impl Iterator<Item = u32>) -> Lines {
    let mut table = Lines::default();
    // The number behind the last instruction has no line.
    for (number, line) in lines.chain([0]).enumerate() {
        table.push(bits | number as u32, line);
    }
    table
}

#[test]
fn positions_outside_the_instructions_have_no_line() {
    let bits = 5 * (INSTRUCTION + 1);
    let lines = table(bits, [3, 3, 5].into_iter());
    let positions = [bits - 1, bits, bits + 1, bits + 2, bits + 3, bits + INSTRUCTION];
    assert_eq!(positions.map(|at| lines.at(at)), [0, 3, 3, 5, 0, 0]);
    let most = table(!INSTRUCTION, std::iter::repeat_n(7, INSTRUCTION as usize));
    assert_eq!([u32::MAX - 1, u32::MAX].map(|at| most.at(at)), [7, 0]);
    assert_eq!(table(bits, std::iter::empty()).at(bits), 0);
}
