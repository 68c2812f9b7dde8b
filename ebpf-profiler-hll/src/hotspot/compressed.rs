//! Compressed numbers (`UNSIGNED5`) and line tables of methods.
//!
//! ```text
//!   number   b₀ … bₙ, at most 5 bytes; all but the last are 192 or more      Σ (bᵢ - x) · 64ⁱ
//!            x = 0 up to JDK 19; from 20 on x = 1, and 0 is no byte of a number
//!   signed   n is  (n >> 1) ^ -(n & 1)
//!
//!   lines    first bytecode index 0, line 0; then
//!            00                    end
//!            ff signed signed      both differ by these
//!            iiiiilll              the index differs by i, the line by l
//! ```

use ebpf_profiler_core::language::Lines;

/// Smallest byte that another one follows.
const HIGH: u8 = 192;

/// Number of bits of a byte after the first.
const BITS: u32 = 6;

/// Maximum number of bytes of a number.
const MAX_BYTES: u32 = 5;

/// Marks two signed numbers in a line table.
const ESCAPE: u8 = 0xff;

/// Largest bytecode index.
const MAX_INDEX: i32 = 0xffff;

/// Compressed data that is read from its start on.
#[derive(Clone, Debug)]
pub(super) struct Compressed<'a> {
    bytes: &'a [u8],
    /// Subtracted from each byte of a number.
    excess: u8,
}

impl<'a> Compressed<'a> {
    /// Begins to read `bytes` as the JDK of this major version writes them.
    pub(super) fn new(bytes: &'a [u8], version: i32) -> Compressed<'a> {
        Compressed { bytes, excess: u8::from(version >= 20) }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// Returns the next number; `None` at the end, and for bytes that encode none.
    pub(super) fn number(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for index in 0..MAX_BYTES {
            let byte = self.byte()?;
            let digit = u32::from(byte.checked_sub(self.excess)?);
            sum = sum.wrapping_add(digit << (BITS * index));
            if byte < HIGH {
                break;
            }
        }
        Some(sum)
    }

    fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }

    /// Returns the line table that begins here.
    pub(super) fn lines(mut self) -> Lines {
        let (mut index, mut line) = (0_i32, 0_i32);
        let mut entries = Vec::new();
        while let Some(byte) = self.byte().filter(|&byte| byte != 0) {
            let difference = match byte {
                ESCAPE => self.signed().zip(self.signed()),
                _ => Some((i32::from(byte >> 3), i32::from(byte & 7))),
            };
            let Some((of_index, of_line)) = difference else { break };
            index = index.wrapping_add(of_index);
            line = line.wrapping_add(of_line);
            if !(0..=MAX_INDEX).contains(&index) {
                break;
            }
            entries.push((index as u32, u32::try_from(line).unwrap_or(0)));
        }
        // A compiler may list a later position first.
        entries.sort_by_key(|&(index, _)| index);
        let mut lines = Lines::default();
        entries.into_iter().for_each(|(index, line)| lines.push(index, line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_numbers_of_both_encodings() {
        let numbers = |bytes: &[u8], version| {
            let mut compressed = Compressed::new(bytes, version);
            std::iter::from_fn(|| compressed.number()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&[0, 191, 192, 0, 192, 1, 255, 255, 255, 255, 255], 17)[..4], [0, 191, 192, 256]);
        assert_eq!(numbers(&[1, 191, 192, 1, 192, 2], 21), [0, 190, 191, 255]);
        // No number begins with a byte that is excluded, and none is truncated.
        assert_eq!(numbers(&[0], 21), []);
        assert_eq!(numbers(&[200], 17), []);
    }

    #[test]
    fn decodes_lines() {
        // bci 0 line 100: ff, signed 0, signed 100 (200 = c8 00); bci 3 line 102: 1a; bci 4 line 90: ff 02
        // 17 (-12 = 23).
        let bytes = [0xff, 0, 0xc8, 0, 3 << 3 | 2, 0xff, 2, 23, 0, 9];
        let lines: Vec<_> = Compressed::new(&bytes, 17).lines().steps().collect();
        assert_eq!(lines, [(0, 100), (3, 102), (4, 90)]);
        assert!(Compressed::new(&[0xff, 200], 17).lines().is_empty());
    }
}
