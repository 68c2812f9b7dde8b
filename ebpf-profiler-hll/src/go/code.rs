//! Offsets of fields from the code that accesses them.

use ebpf_profiler_core::internal::x86_64::{Instruction, Operand, decode};

/// Numbers of rax, in which a function of Go has its argument, and rsp.
const RAX: usize = 0;
const RSP: usize = 4;

/// Opcodes of `mov register, memory`; `mov memory, register`; `cmp memory, register`; `call`.
const STORE: u32 = 0x89;
const LOAD: u32 = 0x8b;
const COMPARE: u32 = 0x3b;
const CALL: u32 = 0xe8;

/// Upper bound of plausible offsets of fields: g and m have some 500 bytes.
const MAX_OFFSET: i64 = 4096;

/// Returns the offsets of m in g, and of curg in m, from the code of `runtime.systemstack`, which
/// compares g with three goroutines of its thread.
///
/// ```text
///   mov  %fs:-8,%rax         g
///   mov  0x30(%rax),%rbx     m
///   cmp  0x48(%rbx),%rax     gsignal
///   je   …
///   mov  (%rbx),%rdx         g0
///   cmp  %rdx,%rax
///   je   …
///   cmp  0xb8(%rbx),%rax     curg
/// ```
pub(super) fn hops(code: &[u8]) -> Option<[i64; 2]> {
    let mut instructions = instructions(code).take_while(|it| it.opcode != CALL).filter(|it| it.wide);
    let g = instructions.find(|it| it.opcode == LOAD && it.thread)?.reg;
    let (m, in_g) = instructions.find_map(|it| match (it.opcode, it.operand) {
        (LOAD, Operand::Based(base, offset)) if base == g => Some((it.reg, offset)),
        _ => None,
    })?;
    let mut compared = instructions.filter_map(|it| match (it.opcode, it.operand) {
        (COMPARE, Operand::Based(base, offset)) if (base, it.reg) == (m, g) => Some(offset),
        _ => None,
    });
    let (_signals, in_m) = (compared.next()?, compared.next()?);
    Some([plausible(in_g)?, plausible(in_m)?])
}

/// Returns the offset of the labels in g, at which `runtime_setProfLabel` stores its argument. It also
/// stores it for the collector, at offset 0, and on its stack.
///
/// ```text
///   mov  %rax,(%r11)
///   mov  %rax,0x160(%rcx)    g: r14, or a copy
/// ```
pub(super) fn labels(code: &[u8]) -> Option<i64> {
    let mut stored = instructions(code).filter_map(|it| match (it.opcode, it.operand) {
        (STORE, Operand::Based(base, offset)) if it.wide && it.reg == RAX && base != RSP && offset != 0 => {
            Some(offset)
        }
        _ => None,
    });
    let first = stored.next()?;
    if stored.all(|other| other == first) { plausible(first) } else { None }
}

fn plausible(offset: i64) -> Option<i64> {
    (offset > 0 && offset < MAX_OFFSET && offset % 8 == 0).then_some(offset)
}

/// Decodes instructions up to the first invalid one.
fn instructions(code: &[u8]) -> impl Iterator<Item = Instruction> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let instruction = decode(code.get(at..)?)?;
        at += instruction.len as usize;
        Some(instruction)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of `runtime.systemstack` of Go 1.26.
    const SWITCH: [u8; 50] = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x7c, 0x24, 0x10, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff,
        0xff, 0x48, 0x8b, 0x58, 0x30, 0x48, 0x3b, 0x43, 0x48, 0x74, 0x65, 0x48, 0x8b, 0x13, 0x48, 0x39, 0xd0,
        0x74, 0x5d, 0x48, 0x3b, 0x83, 0xb8, 0x00, 0x00, 0x00, 0x75, 0x5d, 0xe8, 0xae, 0xf2, 0xff, 0xff,
    ];

    #[test]
    fn systemstack_shows_the_offsets_of_m_and_curg() {
        assert_eq!(hops(&SWITCH), Some([48, 184]));
        for len in 0..43 {
            assert_eq!(hops(&SWITCH[..len]), None, "{len}");
        }
        let other = |at: usize, byte: u8| {
            let mut code = SWITCH;
            code[at] = byte;
            hops(&code)
        };
        // No multiple of 8, negative, and behind the call.
        assert_eq!((other(21, 0x31), other(42, 0x80), other(31, 0xe8)), (None, None, None));
    }

    #[test]
    fn the_written_field_of_g_is_that_of_labels() {
        // On the stack, for the collector, in g by r14, and by rcx.
        let [stack, collector] = [&[0x48, 0x89, 0x44, 0x24, 8][..], &[0x49, 0x89, 0x03]];
        let [r14, rcx] = [[0x49, 0x89, 0x86, 0x60, 1, 0, 0], [0x48, 0x89, 0x81, 0x60, 1, 0, 0]];
        assert_eq!(labels(&r14), Some(352));
        assert_eq!(labels(&[collector, &rcx[..], stack, &[0xc3]].concat()), Some(352));
        assert_eq!(labels(&[r14, rcx].concat()), Some(352));
        assert_eq!(labels(&[r14, [0x49, 0x89, 0x86, 0x68, 1, 0, 0]].concat()), None, "two fields");
        assert_eq!(labels(&[stack, collector, &[0xc3]].concat()), None);
    }

    #[test]
    fn noise_is_no_code() {
        let mut seed = 1u64;
        let mut bytes = [0; 256];
        for _ in 0..20_000 {
            for byte in &mut bytes {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (seed >> 56) as u8;
            }
            let _ = (hops(&bytes), labels(&bytes));
        }
    }
}
