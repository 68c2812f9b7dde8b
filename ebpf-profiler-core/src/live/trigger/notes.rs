//! Static probes (USDT): the notes of a file that describe them.
//!
//! ```text
//!   section .note.stapsdt, notes one after the other, each padded to a multiple of 4 bytes:
//!
//!   owner size: u32 = 8, description size: u32, type: u32 = 3, owner "stapsdt\0",
//!   location: u64, base: u64, semaphore: u64, provider\0, name\0, arguments\0
//! ```
//!
//! Addresses are virtual ones of the file. `base` was the address of the section `.stapsdt.base`
//! when it was linked: the difference to its address now is added to both addresses.

use crate::elf::Elf;

/// Maximum size of the notes of a file in bytes.
const MAX_NOTES: u64 = 16 << 20;

/// A static probe at one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note<'a> {
    /// Its address.
    pub(super) location: u64,
    /// Address of the number of those who look at the probe, 16 bits; 0 if it has none.
    pub(super) semaphore: u64,
    pub(super) provider: &'a [u8],
    pub(super) name: &'a [u8],
    /// Its operands, separated by spaces.
    pub(super) arguments: &'a str,
}

/// The notes of a file.
#[derive(Debug, Default)]
pub(super) struct Notes {
    bytes: Vec<u8>,
    /// Address of the base; 0 if the file has none.
    base: u64,
}

impl Notes {
    /// Reads the notes of a file; without any if it has none.
    pub(super) fn of(elf: &Elf) -> Notes {
        let section = elf.section(".note.stapsdt").filter(|section| section.size <= MAX_NOTES);
        let bytes = section.and_then(|section| elf.data(section).ok()).unwrap_or_default();
        Notes { bytes, base: elf.section(".stapsdt.base").map_or(0, |section| section.address) }
    }

    /// Returns the probes in the order of the notes. Notes that cannot be parsed are skipped.
    pub(super) fn probes(&self) -> impl Iterator<Item = Note<'_>> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || note(&mut rest)).filter_map(|description| self.probe(description?))
    }

    fn probe<'a>(&self, description: &'a [u8]) -> Option<Note<'a>> {
        let (location, rest) = word(description)?;
        let (base, rest) = word(rest)?;
        let (semaphore, rest) = word(rest)?;
        let mut texts = rest.split(|&byte| byte == 0);
        let (provider, name) = (texts.next()?, texts.next()?);
        let arguments = str::from_utf8(texts.next()?).ok()?;
        let moved = if base == 0 || self.base == 0 { 0 } else { self.base.wrapping_sub(base) };
        let at = |address: u64| if address == 0 { 0 } else { address.wrapping_add(moved) };
        let is_valid = location != 0 && !provider.is_empty() && !name.is_empty();
        is_valid.then_some(Note {
            location: at(location),
            semaphore: at(semaphore),
            provider,
            name,
            arguments,
        })
    }
}

/// Takes a note from `rest`. Returns its description, `Some(None)` if it is that of another owner
/// or type, and `None` at the end.
fn note<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let number = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (owner, size, kind) = (number(rest, 0)?, number(rest, 4)?, number(rest, 8)?);
    let behind = rest.get(12..)?;
    let (owner, behind) = behind.split_at_checked(owner as usize)?;
    let behind = behind.get(padding(owner.len())..)?;
    let (description, behind) = behind.split_at_checked(size as usize)?;
    *rest = behind.get(padding(description.len())..).unwrap_or_default();
    Some((owner == b"stapsdt\0" && kind == 3).then_some(description))
}

fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(location: u64, base: u64, semaphore: u64, texts: &[u8]) -> Vec<u8> {
        let words = [location, base, semaphore].map(u64::to_le_bytes).concat();
        let head = [8, (words.len() + texts.len()) as u32, 3].map(u32::to_le_bytes).concat();
        let mut note = [&head, &b"stapsdt\0"[..], &words, texts].concat();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    fn probes(bytes: &[u8], base: u64) -> Vec<(u64, u64, String)> {
        let notes = Notes { bytes: bytes.to_vec(), base };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = |it: Note<'_>| format!("{}:{} {}", text(it.provider), text(it.name), it.arguments);
        notes.probes().map(|it| (it.location, it.semaphore, shown(it))).collect()
    }

    #[test]
    fn notes_are_parsed_and_moved_with_their_base() {
        let both =
            [bytes(0x1000, 0x500, 0x2000, b"a\0b\08@%rax\0"), bytes(0x1100, 0x500, 0, b"a\0c\0\0")].concat();
        let (first, second) = ("a:b 8@%rax".to_owned(), "a:c ".to_owned());
        assert_eq!(probes(&both, 0x500), [(0x1000, 0x2000, first.clone()), (0x1100, 0, second.clone())]);
        assert_eq!(probes(&both, 0x600), [(0x1100, 0x2100, first), (0x1200, 0, second)]);
    }

    #[test]
    fn invalid_notes_are_skipped() {
        let good = bytes(0x1000, 0, 0, b"a\0b\0\0");
        for bad in [
            bytes(0, 0, 0, b"a\0b\0\0"),
            bytes(1, 0, 0, b"\0b\0\0"),
            bytes(1, 0, 0, b"a\0\0\0"),
            bytes(1, 0, 0, b"a\0b"),
            bytes(1, 0, 0, b""),
            bytes(1, 0, 0, b"a\0b\0\xff\0"),
            [&[4u32, 2, 3].map(u32::to_le_bytes).concat()[..], b"GNU\0ab\0\0"].concat(),
        ] {
            let all = [good.clone(), bad, good.clone()].concat();
            assert_eq!(probes(&all, 0).len(), 2);
        }
        for size in [u32::MAX, 1 << 31, 100] {
            let mut cut = good.clone();
            cut[4..8].copy_from_slice(&size.to_le_bytes());
            assert_eq!(probes(&cut, 0), []);
            cut = good.clone();
            cut[..4].copy_from_slice(&size.to_le_bytes());
            assert_eq!(probes(&cut, 0), []);
        }
    }

    #[test]
    fn any_bytes_are_notes_that_end() {
        let good = [bytes(0x1000, 0x500, 8, b"a\0b\08@%rax\0"), bytes(1, 0, 0, b"c\0d\0\0")].concat();
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut parsed = 0;
        for _ in 0..20_000 {
            let mut bytes = good.repeat(1 + random() % 3);
            for _ in 0..1 + random() % 4 {
                let at = random() % bytes.len();
                bytes[at] = random() as u8;
            }
            bytes.truncate(random() % (bytes.len() + 1));
            for (_, _, text) in probes(&bytes, 0x500) {
                assert!(text.len() <= bytes.len() * 3);
                parsed += 1;
            }
        }
        assert!(parsed > 10_000, "{parsed}");
    }
}
