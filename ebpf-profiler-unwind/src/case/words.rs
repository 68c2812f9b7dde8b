//! Single words of memory.

use std::collections::BTreeMap;

use ebpf_profiler_core::trace::Stack;

/// Words of memory at addresses that are multiples of eight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(BTreeMap<u64, u64>);

impl Words {
    pub(super) fn insert(&mut self, address: u64, word: u64) {
        self.0.insert(address, word);
    }

    pub(super) fn get(&self, address: u64) -> Option<u64> {
        self.0.get(&address).copied()
    }

    /// Iterates over all words by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&address, &word)| (address, word))
    }
}

/// Reads eight bytes at any address from one or two aligned words.
pub(super) fn read(address: u64, mut aligned: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
    let (start, shift) = (address & !7, address % 8 * 8);
    let low = aligned(start)? >> shift;
    match shift {
        0 => Some(low),
        _ => Some(low | aligned(start.checked_add(8)?)? << (64 - shift)),
    }
}

impl Stack for &Words {
    fn read(&mut self, address: u64) -> Option<u64> {
        read(address, |aligned| self.get(aligned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_put_together() {
        let mut words = Words::default();
        words.insert(16, 0x0706_0504_0302_0100);
        words.insert(24, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!((&words).read(16), Some(0x0706_0504_0302_0100));
        assert_eq!((&words).read(19), Some(0x0a09_0807_0605_0403));
        assert_eq!((&words).read(25), None);
        assert_eq!((&words).read(15), None);
        assert_eq!((&words).read(u64::MAX), None);
    }
}
