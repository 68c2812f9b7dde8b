//! Labels that the kernel side copied from the memory of a thread.

use ebpf_programs::abi::labels::{flag, pair};

use crate::profile::{Labels, SampleLabel};

/// The labels of a sample's thread, as the kernel side copied them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedLabels<'a> {
    /// [Pairs](ebpf_programs::abi::labels).
    pub words: &'a [u64],
    /// [Flags](flag).
    pub flags: u8,
}

impl CopiedLabels<'_> {
    /// Returns `true` if the thread has labels that could not be read.
    pub fn are_unreadable(&self) -> bool {
        self.flags & flag::UNREADABLE != 0
    }

    /// Returns `true` if some are left out or cut.
    pub fn are_cut(&self) -> bool {
        self.flags & flag::CUT != 0
    }

    /// Decodes them: the first [`Labels::MAX`] in the order of their keys. Invalid UTF-8 is replaced.
    ///
    /// Returns `None` if a size exceeds the words.
    pub fn decode(&self) -> Option<Labels> {
        let mut labels = Vec::new();
        let mut rest = self.words;
        while let Some((&first, behind)) = rest.split_first() {
            let (key, behind) = text(behind, first & pair::SIZE, first & pair::KEY_IS_CUT != 0)?;
            let size = first >> pair::VALUE_SHIFT & pair::SIZE;
            let (value, behind) = text(behind, size, first & pair::VALUE_IS_CUT != 0)?;
            labels.push(SampleLabel::new(key, value));
            rest = behind;
        }
        // Stable: of equal keys the first one stays.
        labels.sort_by(|one, next| one.key().cmp(next.key()));
        labels.dedup_by(|next, one| next.key() == one.key());
        labels.truncate(Labels::MAX);
        Some(Labels::of_sorted(labels))
    }
}

/// Splits a text of `size` bytes from the words. One that is cut ends with its last whole character.
fn text(words: &[u64], size: u64, is_cut: bool) -> Option<(String, &[u64])> {
    let size = size as usize;
    let (words, rest) = words.split_at_checked(size.div_ceil(8))?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(size).collect();
    if is_cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8(bytes);
    Some((text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes pairs as the kernel side does.
    fn words(pairs: &[(&[u8], &[u8])], flags: u64) -> Vec<u64> {
        let padded = |text: &[u8]| -> Vec<u64> {
            let chunks = text.chunks(8);
            let word = |chunk: &[u8]| {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(bytes)
            };
            chunks.map(word).collect()
        };
        let encode = |&(key, value): &(&[u8], &[u8])| {
            let first = key.len() as u64 | (value.len() as u64) << pair::VALUE_SHIFT | flags;
            [vec![first], padded(key), padded(value)].concat()
        };
        pairs.iter().flat_map(encode).collect()
    }

    fn decode(words: &[u64]) -> Option<Labels> {
        CopiedLabels { words, flags: 0 }.decode()
    }

    #[test]
    fn pairs_become_labels_in_the_order_of_their_keys() {
        let words = words(
            &[(b"tenant", b"blue"), (b"", b""), (b"requests", b"seven of nine"), (b"tenant", b"red")],
            0,
        );
        let expected = Labels::from([("", ""), ("requests", "seven of nine"), ("tenant", "blue")]);
        assert_eq!(decode(&words), Some(expected));
        assert_eq!(decode(&[]), Some(Labels::default()));
        assert!(decode(&[]).unwrap().is_empty());
    }

    #[test]
    fn invalid_text_is_replaced_and_cut_text_ends_with_a_character() {
        let value = |text: &[u8], flags| {
            decode(&words(&[(b"k", text)], flags)).unwrap().get("k").unwrap().to_string()
        };
        assert_eq!(value(b"a\xffb", 0), "a\u{fffd}b");
        assert_eq!(value("aä".as_bytes().split_last().unwrap().1, 0), "a\u{fffd}");
        assert_eq!(value("aä".as_bytes().split_last().unwrap().1, pair::VALUE_IS_CUT), "a");
    }

    #[test]
    fn the_first_labels_of_many_are_kept() {
        let keys: Vec<String> = (0..16).rev().map(|index| format!("{index:02}")).collect();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_bytes(), &b"v"[..])).collect();
        let labels = decode(&words(&pairs, 0)).unwrap();
        let kept: Vec<&str> = labels.iter().map(SampleLabel::key).collect();
        assert_eq!(kept, ["00", "01", "02", "03", "04", "05", "06", "07"]);
    }

    #[test]
    fn false_sizes_are_no_labels() {
        let whole = words(&[(b"tenant", b"blue"), (b"request", b"seven of nine")], 0);
        for len in (0..whole.len()).filter(|&len| len != 0 && len != 3) {
            assert_eq!(decode(&whole[..len]), None, "{len}");
        }
        let mut seed = 1u64;
        let mut noise = [0; 128];
        for _ in 0..20_000 {
            for word in &mut noise {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *word = seed >> (seed & 63);
            }
            let _ = decode(&noise);
        }
    }
}
