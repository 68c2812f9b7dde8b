//! Labels that the kernel side copied from the memory of a thread.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use ebpf_programs::abi::labels::{CONTEXT_WORDS, MAX_VALUE, flag, pair};

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

    /// Returns `true` if they are a thread context.
    pub(crate) fn are_context(&self) -> bool {
        self.flags & flag::CONTEXT != 0
    }

    /// Decodes pairs whose constants are of `x`.
    #[cfg(fuzzing)]
    pub(crate) fn decode_pairs(&self) -> Option<Labels> {
        self.decode(&mut |_, size| Some(vec![b'x'; size]))
    }

    /// Decodes a thread context: its ids, and the first of its attributes in the order of their keys.
    /// `keys` are those that the process has published.
    ///
    /// Returns `None` if a size exceeds the words.
    pub(crate) fn decode_context(&self, keys: &[Arc<str>]) -> Option<ThreadContext> {
        let (head, words) = self.words.split_first_chunk::<CONTEXT_WORDS>()?;
        let size = if self.are_cut() { 0 } else { (head[3] >> 16) as usize & 0xffff };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (texts, has_unknown_keys) = attributes(bytes.get(..size)?, keys);
        let ids = head.map(u64::to_ne_bytes);
        let (trace, span) = (ids[..2].concat(), ids[2]);
        let has_span = trace.iter().any(|&byte| byte != 0) && span != [0; 8];
        let ids = [(Labels::TRACE_ID, hexadecimal(&trace)), (Labels::SPAN_ID, hexadecimal(&span))];
        let ids = ids.into_iter().filter(|_| has_span);
        let labels = ids.map(|(key, id)| SampleLabel::new(key, id)).collect::<Vec<_>>();
        let is_id = |key: &str| labels.iter().any(|label| label.key() == key);
        let texts: Vec<SampleLabel> = texts
            .into_iter()
            .filter(|(key, _)| !is_id(key))
            .map(|(key, text)| SampleLabel::new(Arc::clone(key), text))
            .collect();
        let is_cut = texts.len() + labels.len() > Labels::MAX;
        let all = labels.into_iter().chain(texts).fold(Labels::default(), |all, label| all.with(label));
        Some(ThreadContext { labels: all, is_cut, has_unknown_keys })
    }

    /// Decodes them: the first [`Labels::MAX`] in the order of their keys. Invalid UTF-8 is replaced.
    /// `constant` reads a text of a size at an address of the program's constants.
    ///
    /// Returns `None` if a size exceeds the words, or a constant can't be read.
    pub(crate) fn decode(&self, constant: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<Labels> {
        let mut labels = Vec::new();
        let mut rest = self.words;
        while let Some((&first, behind)) = rest.split_first() {
            let mut text = |behind, size: u64, [is_cut, is_constant]: [u64; 2]| {
                let (bytes, rest) = bytes(behind, size as usize, first & is_constant != 0, constant)?;
                Some((text(bytes, first & is_cut != 0), rest))
            };
            let flags = [pair::KEY_IS_CUT, pair::KEY_IS_CONSTANT];
            let (key, behind) = text(behind, first & pair::SIZE, flags)?;
            let flags = [pair::VALUE_IS_CUT, pair::VALUE_IS_CONSTANT];
            let (value, behind) = text(behind, first >> pair::VALUE_SHIFT & pair::SIZE, flags)?;
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

/// A decoded thread context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadContext {
    pub(crate) labels: Labels,
    /// `true` if attributes are left out.
    pub(crate) is_cut: bool,
    /// `true` if it has keys that the process had not published.
    pub(crate) has_unknown_keys: bool,
}

/// Decodes attributes up to the first incomplete one, the last one with each key. Returns them, and `true` if there are others with
/// unknown keys.
fn attributes<'k>(mut bytes: &[u8], keys: &'k [Arc<str>]) -> (BTreeMap<&'k Arc<str>, String>, bool) {
    let (mut texts, mut has_unknown) = (BTreeMap::new(), false);
    while let [key, size, rest @ ..] = bytes
        && let Some((value, rest)) = rest.split_at_checked(usize::from(*size))
    {
        bytes = rest;
        match keys.get(usize::from(*key)) {
            Some(key) if !key.is_empty() => {
                _ = texts.insert(key, String::from_utf8_lossy(value).into_owned())
            }
            Some(_) => {}
            None => has_unknown = true,
        }
    }
    (texts, has_unknown)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Splits `size` bytes from the words, or the address of a constant of that size.
fn bytes<'w>(
    words: &'w [u64],
    size: usize,
    is_constant: bool,
    constant: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Option<(Vec<u8>, &'w [u64])> {
    if is_constant {
        let (&address, rest) = words.split_first()?;
        return Some((constant(address, size.min(MAX_VALUE))?, rest));
    }
    let (words, rest) = words.split_at_checked(size.div_ceil(8))?;
    Some((words.iter().flat_map(|word| word.to_ne_bytes()).take(size).collect(), rest))
}

/// Returns bytes as a text. One that is cut ends with its last whole character.
fn text(mut bytes: Vec<u8>, is_cut: bool) -> String {
    if is_cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8(bytes);
    text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
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
        CopiedLabels { words, flags: 0 }.decode(&mut |_, _| None)
    }

    /// A context as the kernel side copies it, with attributes.
    fn context(ids: [u64; 3], attributes: &[u8]) -> Vec<u64> {
        let mut words = [&ids[..], &[1 | (attributes.len() as u64) << 16]].concat();
        words.extend(attributes.chunks(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(bytes)
        }));
        words
    }

    fn keys(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    fn in_context(words: &[u64], names: &[&str]) -> Option<ThreadContext> {
        CopiedLabels { words, flags: flag::CONTEXT }.decode_context(&keys(names))
    }

    const IDS: [u64; 3] =
        [u64::from_ne_bytes([0x0a; 8]), u64::from_ne_bytes([0xf7; 8]), u64::from_ne_bytes([0x10; 8])];

    #[test]
    fn contexts_have_ids_and_the_last_attribute_of_each_key() {
        let attributes = b"\x01\x03GET\x00\x05/cart\x01\x04POST\x07\x01x\x02\x00";
        let found = in_context(&context(IDS, attributes), &["route", "method", "empty"]).unwrap();
        let (trace, span) = ("0a0a0a0a0a0a0a0af7f7f7f7f7f7f7f7", "1010101010101010");
        let expected =
            [("trace_id", trace), ("span_id", span), ("route", "/cart"), ("method", "POST"), ("empty", "")];
        assert_eq!(
            found,
            ThreadContext { labels: Labels::from(expected), is_cut: false, has_unknown_keys: true }
        );
        let none = in_context(&context([IDS[0], 0, 0], b"\x00\x01a"), &["route"]).unwrap();
        assert_eq!((none.labels, none.has_unknown_keys), (Labels::from([("route", "a")]), false), "no span");
        let reserved = in_context(&context(IDS, b"\x00\x01a"), &["span_id"]).unwrap();
        assert_eq!(reserved.labels.get("span_id"), Some(&span.into()));
    }

    #[test]
    fn contexts_with_many_or_incomplete_attributes_are_cut() {
        let many: Vec<u8> = (0..9).flat_map(|key| [key, 1, b'v']).collect();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "z"];
        let found = in_context(&context(IDS, &many), &names).unwrap();
        let kept: Vec<&str> = found.labels.iter().map(SampleLabel::key).collect();
        assert_eq!((kept, found.is_cut), (vec!["a", "b", "c", "d", "e", "f", "span_id", "trace_id"], true));
        for (cut, count) in
            [(&b"\x00\x01a\x01\x05four"[..], 3), (b"\x00\x01a\x01", 3), (b"\x00", 2), (b"\x00\xffa", 2)]
        {
            assert_eq!(
                in_context(&context(IDS, cut), &names).unwrap().labels.iter().count(),
                count,
                "{cut:?}"
            );
        }
        let mut false_size = context(IDS, b"\x00\x01a");
        false_size[3] = 1 | 0xffff << 16;
        assert_eq!(in_context(&false_size, &names), None);
        let flags = flag::CONTEXT | flag::CUT;
        let large = CopiedLabels { words: &false_size[..4], flags }.decode_context(&keys(&names)).unwrap();
        assert_eq!(large.labels.iter().count(), 2, "more attributes than are copied");
        for len in 0..4 {
            assert_eq!(in_context(&false_size[..len], &names), None, "{len}");
        }
    }

    #[test]
    fn constants_are_read_by_address_and_size() {
        let sizes = 3 | 4 << pair::VALUE_SHIFT;
        let flags = pair::KEY_IS_CONSTANT | pair::VALUE_IS_CONSTANT;
        let both = [sizes | flags, 0x1000, 0x2000];
        let read = |words: &[u64]| {
            let mut asked = Vec::new();
            let labels = CopiedLabels { words, flags: 0 }.decode(&mut |address, size| {
                asked.push((address, size));
                Some(vec![b'a' + asked.len() as u8; size])
            });
            (labels, asked)
        };
        assert_eq!(read(&both), (Some(Labels::from([("bbb", "cccc")])), vec![(0x1000, 3), (0x2000, 4)]));
        let value = [sizes | pair::VALUE_IS_CONSTANT, u64::from_ne_bytes(*b"key\0\0\0\0\0"), 0x2000];
        assert_eq!(read(&value).0, Some(Labels::from([("key", "bbbb")])));
        let large = [0xffff << pair::VALUE_SHIFT | flags, 1, 2];
        assert_eq!(read(&large).1, [(1, 0), (2, MAX_VALUE)]);
        for len in 1..3 {
            assert_eq!(read(&both[..len]).0, None);
        }
        assert_eq!(decode(&both), None, "a constant that can't be read");
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
