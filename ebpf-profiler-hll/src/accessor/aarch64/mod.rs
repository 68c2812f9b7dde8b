//! arm64 instructions.

mod state;

pub(super) use state::State;

pub(super) fn jumps(code: &[u8], start: u64) -> Vec<u64> {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    (start..)
        .step_by(4)
        .zip(words)
        .filter_map(|(at, word)| Some(at.wrapping_add_signed(distance(word)?)))
        .collect()
}

pub(super) fn calls(code: &[u8], start: u64, callee: u64) -> Vec<u64> {
    let words = code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let is_call = |(at, word): &(u64, u32)| {
        let distance = i64::from((*word << 6) as i32 >> 4);
        word & 0xfc00_0000 == 0x9400_0000 && at.wrapping_add_signed(distance) == callee
    };
    (start..).step_by(4).zip(words).filter(is_call).map(|(at, _)| at).collect()
}

/// Returns the distance of a jump; `None` for calls and other instructions.
fn distance(word: u32) -> Option<i64> {
    // (mask, value, lowest bit of the distance, number of bits)
    const JUMPS: [(u32, u32, u32, u32); 4] = [
        (0xfc00_0000, 0x1400_0000, 0, 26),
        (0xff00_0000, 0x5400_0000, 5, 19),
        (0x7e00_0000, 0x3400_0000, 5, 19),
        (0x7e00_0000, 0x3600_0000, 5, 14),
    ];
    let (_, _, low, bits) = JUMPS.into_iter().find(|&(mask, value, ..)| word & mask == value)?;
    let field = i64::from(word >> low) << (64 - bits);
    Some(field >> (64 - bits) << 2)
}
