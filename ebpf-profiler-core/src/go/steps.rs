//! Iteration over a pc table, which maps instructions to values.

use std::ops::Range;

/// An iterator over the values of one function, each with its address range, from the entry on.
///
/// ```text
///   pc table   {change of value, change of address} {..} .. 0
/// ```
///
/// Both are variable-length integers of seven bits per byte. The value starts at -1 and its changes
/// are zigzag-coded; addresses count in units of the smallest instruction.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    bytes: &'a [u8],
    entry: u64,
    at: u64,
    value: i32,
    quantum: u64,
}

impl<'a> Steps<'a> {
    /// Iterates over the table that `bytes` begin with, for the function at `entry`.
    pub(super) fn new(bytes: &'a [u8], entry: u64, quantum: u64) -> Steps<'a> {
        Steps { bytes, entry, at: entry, value: -1, quantum }
    }

    /// Returns the value at `address`. Each step decrements `left`; fails with `None` once it is 0.
    pub(super) fn value_at(self, address: u64, left: &mut usize) -> Option<i32> {
        for (range, value) in self {
            *left = left.checked_sub(1)?;
            if address < range.end {
                return range.contains(&address).then_some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value as u32);
            }
        }
        None
    }
}

impl Iterator for Steps<'_> {
    type Item = (Range<u64>, i32);

    /// Returns the next range and value. A zero ends the table, except as the first change.
    fn next(&mut self) -> Option<(Range<u64>, i32)> {
        let change = self.number()?;
        let begin = self.at;
        if change == 0 && begin != self.entry {
            return None;
        }
        let size = u64::from(self.number()?) * self.quantum;
        self.value = self.value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
        self.at = begin.checked_add(size)?;
        Some((begin..self.at, self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn values_of_a_function() {
        // 0 for 4 bytes, 8 for 1, 120 for 300, 0 for 1, the end.
        let bytes = [2, 4, 16, 1, 0xe0, 1, 0xac, 2, 0xef, 1, 1, 0, 9, 9];
        let steps = Steps::new(&bytes, 0x1000, 1);
        let expected = [(0x1000..0x1004, 0), (0x1004..0x1005, 8), (0x1005..0x1131, 120), (0x1131..0x1132, 0)];
        assert_eq!(steps.clone().collect::<Vec<_>>(), expected);
        assert_eq!(steps.clone().value_at(0x1130, &mut 3), Some(120));
        assert_eq!(steps.clone().value_at(0x1130, &mut 2), None);
        assert_eq!(steps.value_at(0x1132, &mut 9), None);
    }

    #[test]
    fn arm64_counts_instructions() {
        let steps: Vec<_> = Steps::new(&[2, 3, 32, 2, 0], 0x1000, 4).collect();
        assert_eq!(steps, [(0x1000..0x100c, 0), (0x100c..0x1014, 16)]);
    }
}
