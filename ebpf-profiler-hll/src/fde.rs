//! Ranges of functions from `.eh_frame`, and detection of parts that continue another function's
//! frame.
//!
//! ```text
//!   .eh_frame_hdr   {address, entry} for each function, sorted: see EhFrameHdr
//!   .eh_frame       CIE  length u32, 0, version, augmentation, alignments, register, {encoding…}, rules
//!                   FDE  length u32, distance back to the CIE u32, address, size, augmentation, rules
//! ```

use std::ops::Range;

use ebpf_profiler_core::elf::{EhFrameHdr, Elf};

/// Maximum number of entries of the search table.
const MAX_FDES: u32 = 1 << 22;

/// Number of bytes of an entry that are read; enough for all fields and the first rules.
const ENTRY: usize = 64;

/// The search table of `.eh_frame_hdr`.
pub(crate) struct Fdes<'a> {
    elf: &'a Elf,
    header: EhFrameHdr,
}

/// A function, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fde {
    pub(crate) range: Range<u64>,
    /// `true` if more than a return address is on the stack at its first instruction.
    pub(crate) continues_frame: bool,
}

impl<'a> Fdes<'a> {
    pub(crate) fn open(elf: &'a Elf) -> Option<Fdes<'a>> {
        let header = EhFrameHdr::of(elf)?;
        (1..=MAX_FDES).contains(&header.count()).then_some(Fdes { elf, header })
    }

    /// Returns the function that contains `address`.
    pub(crate) fn at(&self, address: u64) -> Option<Fde> {
        let (_, entry) = self.header.find(self.elf, address)?;
        self.entry(entry).filter(|fde| fde.range.contains(&address))
    }

    /// Returns the first function of at least `size` bytes whose rules begin with `rules`.
    pub(crate) fn with_rules(&self, size: u64, rules: &[u8]) -> Option<Range<u64>> {
        let count = self.header.count();
        let pairs = u64::from(count) * EhFrameHdr::PAIR as u64;
        let table = self.elf.bytes(self.header.offset_of(0)?, pairs).ok()?;
        let (pairs, _) = table.as_chunks();
        let functions: Vec<_> = pairs.iter().map(|&pair| self.header.decode(pair)).collect();
        let behind = functions.iter().skip(1).map(|&(start, _)| start).chain([u64::MAX]);
        let large =
            functions.iter().zip(behind).filter(|((start, _), end)| end.saturating_sub(*start) >= size);
        large.map(|((_, entry), _)| *entry).find_map(|entry| {
            let (fde, found) = self.entry_with_rules(entry)?;
            (found.starts_with(rules) && fde.range.end - fde.range.start >= size).then_some(fde.range)
        })
    }

    fn entry(&self, at: u64) -> Option<Fde> {
        self.entry_with_rules(at).map(|(fde, _)| fde)
    }

    fn entry_with_rules(&self, at: u64) -> Option<(Fde, Vec<u8>)> {
        let fde = read_entry(self.elf, at)?;
        let u32_at =
            |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|&four| u32::from_le_bytes(four));
        let length = u32_at(&fde, 0)? as usize;
        let cie_at = at.wrapping_add(4).wrapping_sub(u32_at(&fde, 4)?.into());
        let cie = read_entry(self.elf, cie_at)?;
        let encoding = encoding(&cie)?;
        let (start, size, rules) = match encoding & 0x0f {
            // Four bytes, relative to their own address.
            0x03 | 0x0b if encoding & 0x70 == 0x10 => {
                let distance = i64::from(u32_at(&fde, 8)? as i32);
                (at.wrapping_add(8).wrapping_add_signed(distance), u64::from(u32_at(&fde, 12)?), 16)
            }
            _ => return None,
        };
        let end = (length + 4).min(ENTRY);
        // The rules follow the augmentation data, which begins with its length.
        let rules = rules + 1 + usize::from(*fde.get(rules)?);
        let rules = fde.get(rules..end).unwrap_or_default();
        let continues_frame = continues_frame(rules) || has_frame(&cie).unwrap_or(false);
        Some((Fde { range: start..start.checked_add(size)?, continues_frame }, rules.to_vec()))
    }
}

/// Maximum size of a section that is read completely, in bytes.
const MAX_SECTION: u64 = 32 << 20;

/// Returns the ranges of all functions of a file without a search table, from its `.eh_frame`.
pub(crate) fn all(elf: &Elf) -> Vec<Range<u64>> {
    let Some(section) = elf.section(".eh_frame").filter(|section| section.size <= MAX_SECTION) else {
        return Vec::new();
    };
    let Ok(bytes) = elf.data(section) else { return Vec::new() };
    let u32_at = |at: usize| bytes.get(at..)?.first_chunk().map(|&four| u32::from_le_bytes(four));
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(length) = u32_at(at).filter(|&length| length != 0 && length != u32::MAX) {
        let (Some(cie), Some(start), Some(size)) = (u32_at(at + 4), u32_at(at + 8), u32_at(at + 12)) else {
            break;
        };
        // All compilers for 64-bit machines write four bytes, relative to their own address.
        if cie != 0 && (cie as usize) <= at + 4 {
            let own = section.address.wrapping_add(at as u64 + 8);
            let start = own.wrapping_add_signed(i64::from(start as i32));
            ranges.push(start..start.saturating_add(size.into()));
        }
        at += 4 + length as usize;
    }
    ranges
}

/// Returns the pointer encoding of a CIE with augmentation `zR…`.
fn encoding(cie: &[u8; ENTRY]) -> Option<u8> {
    let augmentation = &cie[9..];
    let end = augmentation.iter().position(|&byte| byte == 0)?;
    let (letters, rest) = (augmentation.get(1..end)?, augmentation.get(end + 1..)?);
    if augmentation[0] != b'z' {
        return None;
    }
    let mut rest = rest.iter().copied();
    let mut skip_number = || rest.by_ref().find(|byte| byte & 0x80 == 0);
    // Code alignment, data alignment, return address register, length of the augmentation data.
    (0..4).try_for_each(|_| skip_number().map(drop))?;
    for letter in letters {
        match letter {
            b'R' => return rest.next(),
            b'L' => drop(rest.next()),
            b'P' => {
                let size = match rest.next()? & 0x0f {
                    0x03 | 0x0b => 4,
                    0x00 | 0x04 | 0x0c => 8,
                    _ => return None,
                };
                rest.nth(size - 1)?;
            }
            _ => {}
        }
    }
    None
}

/// Returns `true` if the rules define the CFA before the first advance: the frame is set up
/// already.
fn continues_frame(rules: &[u8]) -> bool {
    const DEF_CFA: u8 = 0x0c;
    const DEF_CFA_REGISTER: u8 = 0x0d;
    const DEF_CFA_OFFSET: u8 = 0x0e;
    const DEF_CFA_EXPRESSION: u8 = 0x0f;
    // The procedure linkage table also begins so: its callers have pushed a word.
    const LINKAGE_TABLE: &[u8] = &[DEF_CFA_OFFSET, 16, 0x46, DEF_CFA_OFFSET, 24, 0x4a, DEF_CFA_EXPRESSION];
    let first = [DEF_CFA, DEF_CFA_REGISTER, DEF_CFA_OFFSET, DEF_CFA_EXPRESSION];
    rules.first().is_some_and(|rule| first.contains(rule)) && !rules.starts_with(LINKAGE_TABLE)
}

/// Returns `true` if the initial rules of a CIE with augmentation `zR…` are those of a frame that
/// is set up: a linker merges the beginnings of rules that several functions share.
fn has_frame(cie: &[u8; ENTRY]) -> Option<bool> {
    const DEF_CFA: u8 = 0x0c;
    const DEF_CFA_OFFSET: u8 = 0x0e;
    const OFFSET: std::ops::RangeInclusive<u8> = 0x80..=0xbf;
    let length = u32::from_le_bytes(*cie.first_chunk()?) as usize;
    let mut rest = cie.get(9..(length + 4).min(ENTRY))?.iter().copied();
    rest.find(|&byte| byte == 0)?;
    let skip_number =
        |rest: &mut std::iter::Copied<std::slice::Iter<'_, u8>>| rest.find(|byte| byte & 0x80 == 0);
    // Code alignment, data alignment, return address register; the length of the augmentation data.
    (0..3).try_for_each(|_| skip_number(&mut rest).map(drop))?;
    let augmentation = rest.next()?;
    if augmentation > 0 {
        rest.nth(usize::from(augmentation) - 1)?;
    }
    let mut definitions = 0;
    while let Some(rule) = rest.next() {
        match rule {
            DEF_CFA => {
                definitions += 1;
                (0..2).try_for_each(|_| skip_number(&mut rest).map(drop))?;
            }
            DEF_CFA_OFFSET => return Some(true),
            _ if OFFSET.contains(&rule) => drop(skip_number(&mut rest)?),
            _ => break,
        }
    }
    Some(definitions > 1)
}

/// Reads the first bytes of an entry. Behind the last one fewer may be readable; the others are
/// zero.
fn read_entry(elf: &Elf, address: u64) -> Option<[u8; ENTRY]> {
    let mut bytes = [0; ENTRY];
    let sizes = [ENTRY, ENTRY / 4 * 3, ENTRY / 2, ENTRY / 8 * 3];
    sizes.iter().find_map(|&size| elf.read(address, &mut bytes[..size]).ok()).map(|()| bytes)
}
