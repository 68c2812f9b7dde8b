//! Lines of a function's instructions.
//!
//! A position is the distance of an instruction from the function, modulo 2³²: instructions lie anywhere, often below the
//! function.

use ebpf_profiler_core::language::{Lines, Memory, Reason};

/// Size of an instruction, `zend_op`, in bytes.
const SIZE: u32 = 32;

/// Offset of `lineno` in an instruction.
const LINE: usize = 24;

/// Maximum number of instructions of a function.
const MAX_INSTRUCTIONS: u32 = 1 << 17;

/// Reads the lines of `count` instructions at `opcodes`, for positions of the function at `function`.
pub(super) fn read(function: u64, opcodes: u64, count: u32, memory: &dyn Memory) -> Result<Lines, Reason> {
    if count > MAX_INSTRUCTIONS {
        return Err(Reason::Implausible);
    }
    let size = count * SIZE;
    let bytes = memory.bytes(opcodes, size.into(), size as usize)?;
    let line =
        |instruction: &[u8]| instruction[LINE..].first_chunk().map_or(0, |&four| u32::from_le_bytes(four));
    let lines: Vec<_> = bytes.chunks_exact(SIZE as usize).map(line).collect();
    Ok(table(opcodes.wrapping_sub(function) as u32, &lines))
}

/// Returns the table of instructions whose first position is `first`. Positions that overflow continue at 0.
fn table(first: u32, lines: &[u32]) -> Lines {
    let position = |index: usize| first.wrapping_add(SIZE.wrapping_mul(index as u32));
    let overflow = (1..=lines.len()).find(|&index| position(index) < first);
    let (below, above) = lines.split_at(overflow.unwrap_or(lines.len()));
    let mut table = Lines::default();
    for (index, &line) in above.iter().enumerate() {
        table.push(position(below.len() + index), line);
    }
    if overflow.is_some() {
        table.push(position(lines.len()), 0);
    }
    for (index, &line) in below.iter().enumerate() {
        table.push(position(index), line);
    }
    if overflow.is_none() {
        table.push(position(lines.len()), 0);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_outside_the_instructions_have_no_line() {
        let lines = table(0x1000, &[3, 3, 5]);
        assert_eq!(
            [0xfff, 0x1000, 0x103f, 0x1040, 0x105f, 0x1060].map(|at| lines.at(at)),
            [0, 3, 3, 5, 5, 0]
        );
        assert_eq!(table(0x1000, &[]).at(0x1000), 0);
    }

    #[test]
    fn positions_continue_at_0() {
        let first = 0u32.wrapping_sub(2 * SIZE);
        let lines = table(first, &[3, 4, 5, 6]);
        let at = |index: u32| lines.at(first.wrapping_add(index * SIZE));
        assert_eq!([0, 1, 2, 3, 4].map(at), [3, 4, 5, 6, 0]);
        assert_eq!(lines.at(first - 1), 0);
        // The last instruction ends where positions overflow.
        let lines = table(first, &[3, 4]);
        assert_eq!([first, first + SIZE, 0, first - 1].map(|at| lines.at(at)), [3, 4, 0, 0]);
    }
}
