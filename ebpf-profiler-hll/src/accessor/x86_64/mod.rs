//! x86_64 instructions.

mod state;

use ebpf_profiler_core::internal::x86_64::{TWO_BYTES, decode};

pub(super) use state::State;

pub(super) fn jumps(code: &[u8], start: u64) -> Vec<u64> {
    const SHORT_JUMP: u32 = 0xeb;
    const LONG_JUMP: u32 = 0xe9;
    let mut targets = Vec::new();
    let mut at = 0;
    while at < code.len() {
        // Undecodable bytes are skipped one by one; decoding resynchronizes within a few instructions.
        let Some(instruction) = decode(&code[at..]) else {
            at += 1;
            continue;
        };
        at += instruction.len as usize;
        let jump = matches!(instruction.opcode, SHORT_JUMP | LONG_JUMP | 0x70..=0x7f)
            || (TWO_BYTES | 0x80..=TWO_BYTES | 0x8f).contains(&instruction.opcode);
        if jump {
            targets.push(start.wrapping_add(at as u64).wrapping_add_signed(instruction.immediate));
        }
    }
    targets
}

pub(super) fn calls(code: &[u8], start: u64, callee: u64) -> Vec<u64> {
    const CALL: u8 = 0xe8;
    let is_call = |(at, code): &(usize, &[u8])| {
        let [CALL, distance @ ..] = code else { return false };
        let distance = distance.first_chunk().copied().map_or(0, i32::from_le_bytes);
        start.wrapping_add(*at as u64 + 5).wrapping_add_signed(distance.into()) == callee
    };
    code.windows(5).enumerate().filter(is_call).map(|(at, _)| start.wrapping_add(at as u64)).collect()
}

/// Returns the length of an instruction, 0 if it cannot be decoded.
#[cfg(test)]
pub(super) fn len(bytes: &[u8]) -> u64 {
    decode(bytes).map_or(0, |instruction| instruction.len)
}
