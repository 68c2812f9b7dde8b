//! Decodes the line table of an instruction sequence.
//!
//! ```text
//!   entries     {line u32, …}, one for each position at which the line changes
//!   positions   succinct index: 54 ranks of 7 bits, 9 in a word, for the first 54 positions; then blocks of 512
//!               positions {rank u32, unused u32, ranks of 64 positions u64, bits 8 × u64}
//! ```
//!
//! A rank is the number of entries at or before a position.

use ebpf_profiler_core::language::{Lines, Memory, Reason};

use super::offsets::Offsets;

/// Maximum number of entries.
const MAX_ENTRIES: u64 = 1 << 17;

/// Maximum number of words of instructions.
const MAX_SIZE: u32 = 1 << 20;

/// Number of positions whose rank is stored.
const RANKED: u32 = 54;

/// Number of ranks in a word.
const RANKS: u32 = 9;

/// Number of positions in a block, and its size in bytes.
const BLOCK: u32 = 512;
const BLOCK_SIZE: usize = 80;

/// Reads the lines of positions, which are the low 32 bits of addresses.
///
/// `instructions` is the address of the instructions and `size` their number of words.
pub(super) fn read(
    body: u64,
    instructions: u64,
    size: u32,
    offsets: &Offsets,
    memory: &dyn Memory,
) -> Result<Lines, Reason> {
    // {entries, positions, number of entries u32, …, index}
    let table: [u8; 32] = memory.array(body.wrapping_add(offsets.lines.into()))?;
    let [entries, _, count, index] = table.as_chunks::<8>().0 else { return Err(Reason::Implausible) };
    let [entries, count, index] = [entries, count, index].map(|word| u64::from_le_bytes(*word));
    let count = count & u64::from(u32::MAX);
    if count == 0 || count > MAX_ENTRIES || size > MAX_SIZE {
        return Err(Reason::Implausible);
    }
    let bytes = memory.bytes(entries, count * u64::from(offsets.line_size), MAX_ENTRIES as usize * 12)?;
    let line = |number: usize| {
        let entry = bytes.get(number * offsets.line_size as usize..).unwrap_or_default();
        entry.first_chunk().copied().map_or(0, u32::from_le_bytes)
    };
    let positions = match count {
        1 => vec![0],
        _ => decode(&read_index(index, size, memory)?, size),
    };
    let mut steps: Vec<(u32, u32)> = Vec::with_capacity(positions.len());
    for (number, position) in positions.iter().enumerate().take(count as usize) {
        // A frame's pc is behind its instruction, except before the first one.
        let behind = if *position == 0 { 0 } else { u64::from(*position) + 1 };
        steps.push((instructions.wrapping_add(8 * behind) as u32, line(number)));
    }
    // The low bits of addresses may wrap around.
    steps.sort_by_key(|step| step.0);
    let mut lines = Lines::default();
    steps.into_iter().for_each(|(position, line)| lines.push(position, line));
    Ok(lines)
}

fn read_index(index: u64, size: u32, memory: &dyn Memory) -> Result<Vec<u8>, Reason> {
    let ranks = RANKED.div_ceil(RANKS) as usize * 8;
    let blocks = size.saturating_sub(RANKED).div_ceil(BLOCK) as usize;
    let len = ranks + blocks * BLOCK_SIZE;
    Ok(memory.bytes(index, len as u64, len)?)
}

/// Returns the positions of the entries.
fn decode(index: &[u8], size: u32) -> Vec<u32> {
    let word = |at: usize| {
        let bytes = index.get(at..).unwrap_or_default();
        bytes.first_chunk().copied().map_or(0, u64::from_le_bytes)
    };
    let mut positions = Vec::new();
    for position in 0..size.min(RANKED) {
        let rank = word((position / RANKS) as usize * 8) >> (7 * (position % RANKS)) & 0x7f;
        // At most one entry per position.
        if rank as usize > positions.len() {
            positions.push(position);
        }
    }
    for position in RANKED..size {
        let bit = (position - RANKED) % BLOCK;
        let block = RANKED.div_ceil(RANKS) as usize * 8 + ((position - RANKED) / BLOCK) as usize * BLOCK_SIZE;
        if word(block + 16 + (bit / 64) as usize * 8) >> (bit % 64) & 1 == 1 {
            positions.push(position);
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes positions as Ruby does.
    fn encode(positions: &[u32], size: u32) -> Vec<u8> {
        let rank = |at: u32| positions.iter().filter(|&&position| position <= at).count() as u64;
        let mut words = [0u64; 6];
        for at in 0..size.min(RANKED) {
            words[(at / RANKS) as usize] |= rank(at) << (7 * (at % RANKS));
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for start in (RANKED..size).step_by(BLOCK as usize) {
            bytes.extend((rank(start) as u32).to_le_bytes());
            bytes.extend([0; 12]);
            for from in (start..start + BLOCK).step_by(64) {
                let bits = positions.iter().filter(|at| (from..from + 64).contains(*at));
                let word = bits.fold(0u64, |word, at| word | 1 << (at - from));
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn decodes_what_ruby_encodes() {
        for positions in
            [&[0][..], &[0, 3, 53, 54, 55], &[0, 7, 100, 118, 565, 566, 1078], &[2, 4], &[0, 600]]
        {
            let size = positions[positions.len() - 1] + 2;
            assert_eq!(decode(&encode(positions, size), size), positions);
        }
    }

    #[test]
    fn truncated_index_has_fewer_positions() {
        let index = encode(&[0, 3, 60], 70);
        assert_eq!(decode(&index[..48], 70), [0, 3]);
        assert_eq!(decode(&[], 70), [0; 0]);
    }
}
