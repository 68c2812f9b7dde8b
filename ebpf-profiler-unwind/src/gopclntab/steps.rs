//! Walks one pc table: which value holds for which instructions.

use std::ops::Range;

use crate::bytes::Bytes;

/// The values of one function, from its entry on.
#[derive(Clone, Debug)]
pub(crate) struct Steps<'a> {
    bytes: Bytes<'a>,
    entry: u64,
    at: u64,
    value: i32,
    quantum: u64,
}

impl<'a> Steps<'a> {
    /// The values that `bytes` give to the function that begins at `entry`.
    pub(crate) fn new(bytes: Bytes<'a>, entry: u64, quantum: u64) -> Steps<'a> {
        Steps { bytes, entry, at: entry, value: -1, quantum }
    }
}

impl Iterator for Steps<'_> {
    type Item = (Range<u64>, i32);

    /// The change of the value is zigzag-coded; a zero ends the table, but for the first, which may be one.
    fn next(&mut self) -> Option<(Range<u64>, i32)> {
        let change = self.bytes.uleb()? as u32;
        let begin = self.at;
        if change == 0 && begin != self.entry {
            return None;
        }
        let size = u64::from(self.bytes.uleb()? as u32) * self.quantum;
        self.value = self.value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
        self.at = begin.checked_add(size)?;
        Some((begin..self.at, self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;
    use crate::bytes::Bytes;

    #[test]
    fn values_of_a_function() {
        // 0 for 4 bytes, 8 for 1, 120 for 300, 0 for 1, the end.
        let bytes = [2, 4, 16, 1, 0xe0, 1, 0xac, 2, 0xef, 1, 1, 0, 9, 9];
        let steps: Vec<_> = Steps::new(Bytes(&bytes), 0x1000, 1).collect();
        let expected = [(0x1000..0x1004, 0), (0x1004..0x1005, 8), (0x1005..0x1131, 120), (0x1131..0x1132, 0)];
        assert_eq!(steps, expected);
    }

    #[test]
    fn arm64_counts_instructions() {
        let steps: Vec<_> = Steps::new(Bytes(&[2, 3, 32, 2, 0]), 0x1000, 4).collect();
        assert_eq!(steps, [(0x1000..0x100c, 0), (0x100c..0x1014, 16)]);
    }
}
