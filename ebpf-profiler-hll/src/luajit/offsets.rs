//! Offsets in the data that all states of an interpreter share, from the code of the loop.
//!
//! `r14` is the address of the table of instructions, which lies behind that data:
//!
//! ```text
//!   mov r14, [state + 16]                  49 81 c6 ‹distance›                    add r14, distance of the table
//!   loop: enter a state                    49 89 ae ‹_› 41 c7 86 ‹number› -1      mov [r14 + _], state; mov [r14 + number], -1
//!   loop: enter a trace                    49 8b 8e ‹traces› 48 8b 04 c1          mov rcx, [r14 + traces]; mov rax, [rcx + rax * 8]
//!                                          49 89 96 ‹base› 49 89                  mov [r14 + base], rdx
//! ```
//!
//! A build with references of 4 bytes has the same instructions with 32-bit registers. It doesn't
//! enter a state with the first one.

use ebpf_programs::abi::luajit::parameter;

use super::build::Build;

/// A byte of a pattern: `None` for those of a number of four bytes, which is wanted.
type Pattern = &'static [Option<u8>];

const N: Option<u8> = None;

const TABLE: Pattern = &[Some(0x49), Some(0x81), Some(0xc6), N, N, N, N];
const STATE: Pattern = &[Some(0x49), Some(0x89), Some(0xae), N, N, N, N, Some(0x41), Some(0xc7), Some(0x86)];
const NUMBER: Pattern =
    &[Some(0x41), Some(0xc7), Some(0x86), N, N, N, N, Some(0xff), Some(0xff), Some(0xff), Some(0xff)];
const TRACES: Pattern =
    &[Some(0x49), Some(0x8b), Some(0x8e), N, N, N, N, Some(0x48), Some(0x8b), Some(0x04), Some(0xc1)];
const BASE: Pattern = &[Some(0x49), Some(0x89), Some(0x96), N, N, N, N, Some(0x49), Some(0x89)];

const COMPACT_TABLE: Pattern = &[Some(0x41), Some(0x81), Some(0xc6), N, N, N, N];
const COMPACT_TRACES: Pattern =
    &[Some(0x41), Some(0x8b), Some(0x8e), N, N, N, N, Some(0x8b), Some(0x04), Some(0x81)];
const COMPACT_BASE: Pattern = &[Some(0x41), Some(0x89), Some(0x96), N, N, N, N, Some(0x41), Some(0x89)];

/// Offset of the number in a pattern.
const NUMBER_AT: usize = 3;

/// Maximum size of the data, in bytes.
const MAX: u64 = 1 << 14;

/// Returns the walker's [parameters](parameter); `None` if the code is not as expected.
pub(super) fn parameters(code: &[u8], build: Build) -> Option<[u64; parameter::COUNT]> {
    let [table, traces, base] = match build.is_compact() {
        false => [TABLE, TRACES, BASE],
        true => [COMPACT_TABLE, COMPACT_TRACES, COMPACT_BASE],
    };
    let table = find(code, table)?;
    // All states are entered in the same way.
    if !build.is_compact() {
        find(code, STATE)?;
    }
    let offset = |pattern| {
        let offset = u64::try_from(i64::from(table) + i64::from(find(code, pattern)?)).ok()?;
        (1..MAX).contains(&offset).then_some(offset)
    };
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::TRACE_BASE] = offset(base)?;
    parameters[parameter::TRACE_NUMBER] = offset(NUMBER)?;
    parameters[parameter::TRACES] = offset(traces)?;
    Some(parameters)
}

/// Returns the number in the pattern, if it is the same everywhere.
fn find(code: &[u8], pattern: Pattern) -> Option<i32> {
    let matches = |window: &&[u8]| {
        window.iter().zip(pattern).all(|(byte, wanted)| wanted.is_none_or(|wanted| wanted == *byte))
    };
    let number = |window: &[u8]| window.get(NUMBER_AT..)?.first_chunk().copied().map(i32::from_le_bytes);
    let mut numbers = code.windows(pattern.len()).filter(matches).map(number);
    let first = numbers.next()??;
    numbers.all(|number| number == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of Debian's 2.1.0-beta3.
    const CODE: &[&[u8]] = &[
        &[0x4c, 0x8b, 0x75, 0x10, 0x49, 0x81, 0xc6, 0x80, 0x0f, 0, 0],
        &[0x49, 0x89, 0xae, 0xf0, 0xf1, 0xff, 0xff, 0x41, 0xc7, 0x86, 0x38, 0xf1, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x49, 0x8b, 0x8e, 0xd8, 0xf4, 0xff, 0xff, 0x48, 0x8b, 0x04, 0xc1],
        &[0x49, 0x89, 0x96, 0xf8, 0xf1, 0xff, 0xff, 0x49, 0x89, 0xae],
    ];

    #[test]
    fn derives_offsets_from_instructions() {
        assert_eq!(parameters(&CODE.concat(), Build::WIDE), Some([376, 184, 1112, 0]));
    }

    /// The instructions of a LuaJIT 2.0.
    const COMPACT_CODE: &[&[u8]] = &[
        &[0x41, 0x81, 0xc6, 0xb8, 0x0b, 0, 0],
        &[0x41, 0xc7, 0x86, 0x30, 0xf5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x41, 0x8b, 0x8e, 0x10, 0xf7, 0xff, 0xff, 0x8b, 0x04, 0x81],
        &[0x41, 0x89, 0x96, 0x40, 0xf5, 0xff, 0xff, 0x41, 0x89, 0xae],
    ];

    #[test]
    fn derives_offsets_from_instructions_with_short_references() {
        let code = COMPACT_CODE.concat();
        assert_eq!(parameters(&code, Build::compact(true)), Some([248, 232, 712, 0]));
        assert_eq!(parameters(&code, Build::WIDE), None);
        assert_eq!(parameters(&CODE.concat(), Build::compact(true)), None);
    }

    #[test]
    fn rejects_code_without_them_or_with_several() {
        for missing in 0..CODE.len() {
            let rest: Vec<_> =
                CODE.iter().enumerate().filter(|(at, _)| *at != missing).map(|it| *it.1).collect();
            assert_eq!(parameters(&rest.concat(), Build::WIDE), None, "{missing}");
        }
        let other = [&CODE.concat()[..], &[0x49, 0x81, 0xc6, 0x88, 0x0f, 0, 0]].concat();
        assert_eq!(parameters(&other, Build::WIDE), None);
        assert_eq!(parameters(&[], Build::WIDE), None);
    }
}
