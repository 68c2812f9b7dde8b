//! The memory that runtimes own, without a file or of one.

use std::ops::Range;

use crate::language::Memory;
use crate::process::Region;

/// The memory that the runtimes of a process own.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Ranges, sorted by address, with the numbers of their runtimes.
    pub(super) ranges: Vec<(Range<u64>, u16)>,
    /// Number of the runtime of all executable memory without a file; 0 for none.
    pub(super) anonymous: u16,
    /// Number of the runtime of linked areas in memory without a file; 0 for none.
    pub(super) areas: u16,
    /// Number of the runtime of all executable shared memory without a named file; 0 for none.
    pub(super) shared_memory: u16,
    /// Number of the runtime of all executable mappings of files that are no code of an ELF file; 0
    /// for none.
    pub(super) images: u16,
}

impl Owned {
    /// Splits a region where its owner changes: each part with the number of its runtime, 0 for
    /// none. `is_elf` if it is code of an ELF file.
    pub(crate) fn split(
        &self,
        region: &Region,
        is_elf: bool,
        memory: &dyn Memory,
        mut part: impl FnMut(u64, u64, u16),
    ) {
        let (start, end) = (region.start, region.end);
        if region.is_anonymous() && self.areas != 0 {
            return match linked_areas(start..end, memory) {
                Some(areas) => self.split_areas(start..end, areas, &mut part),
                None => self.split_range(start, end, self.areas, &mut part),
            };
        }
        let default = if region.is_anonymous() {
            self.anonymous
        } else if region.is_shared_memory() {
            self.shared_memory
        } else if is_elf {
            0
        } else {
            self.images
        };
        self.split_range(start, end, default, &mut part);
    }

    /// Splits a range of memory without a file at the borders of its areas.
    fn split_areas(&self, range: Range<u64>, areas: Vec<Range<u64>>, part: &mut impl FnMut(u64, u64, u16)) {
        let mut at = range.start;
        for area in areas {
            self.split_range(at, area.start, self.anonymous, &mut *part);
            part(area.start, area.end, self.areas);
            at = area.end;
        }
        self.split_range(at, range.end, self.anonymous, part);
    }

    /// Splits addresses where their owner changes: each part with the number of its runtime,
    /// `default` outside of the ranges.
    pub(super) fn split_range(
        &self,
        start: u64,
        end: u64,
        default: u16,
        mut part: impl FnMut(u64, u64, u16),
    ) {
        let (mut at, last) = (start, end);
        for (range, number) in &self.ranges {
            let (start, end) = (range.start.clamp(at, last), range.end.clamp(at, last));
            if start >= end {
                continue;
            }
            if at < start {
                part(at, start, default);
            }
            part(start, end, *number);
            at = end;
        }
        if at < last {
            part(at, last, default);
        }
    }
}

/// Returns the areas in a mapping. `None` if the mapping is unreadable, or if nothing was written
/// to it yet.
///
/// An area begins with the address of another area, and with its own size.
fn linked_areas(range: Range<u64>, memory: &dyn Memory) -> Option<Vec<Range<u64>>> {
    let head = |at: u64| Some((memory.u64(at).ok()?, memory.u64(at + 8).ok()?));
    if head(range.start)? == (0, 0) {
        return None;
    }
    let mut areas = Vec::new();
    let mut at = range.start;
    for _ in 0..MAX_PAGES {
        if at >= range.end {
            break;
        }
        let Some((link, size)) = head(at) else { break };
        let is_link = link % PAGE == 0 && link >> 47 == 0;
        if is_link && size != 0 && size % PAGE == 0 && size <= range.end - at {
            areas.push(at..at + size);
            at += size;
        } else {
            at += PAGE;
        }
    }
    Some(areas)
}

/// Size of a page.
const PAGE: u64 = 4096;

/// Maximum number of pages of a mapping, and of areas in it, whose beginnings are read.
const MAX_PAGES: usize = 1024;

#[test]
fn areas_are_found_by_the_size_that_each_begins_with() {
    use crate::language::Unreadable;
    // Words by address; others are none of an area, and unreadable at the end.
    let found = |words: &[(u64, u64)]| {
        let read = |address: u64, buffer: &mut [u8]| {
            let word = words.iter().find(|&&(at, _)| at == address);
            buffer.copy_from_slice(&word.map_or(0x1234, |&(_, word)| word).to_le_bytes());
            if word.is_none() && address >= 0x5_0000 { Err(Unreadable) } else { Ok(()) }
        };
        let areas = linked_areas(0x1_0000..0x6_0000, &read)?;
        Some(areas.iter().map(|area| (area.start, area.end)).collect::<Vec<_>>())
    };
    // Two areas that the kernel merged, a page of another owner, and an area at the end.
    let merged = [(0x1_0000, 0x2_0000), (0x1_0008, 0x1_0000), (0x2_0000, 0), (0x2_0008, 0x1_0000)];
    assert_eq!(found(&merged), Some(vec![(0x1_0000, 0x2_0000), (0x2_0000, 0x3_0000)]));
    let last = [(0x4_0000, 0x1_0000), (0x4_0008, 0x2_0000)];
    assert_eq!(found(&last), Some(vec![(0x4_0000, 0x6_0000)]));
    // Beyond its mapping, and no size.
    assert_eq!(found(&[(0x4_0000, 0), (0x4_0008, 0x3_0000)]), Some(vec![]));
    assert_eq!(found(&[(0x4_0000, 0x1_0000), (0x4_0008, 0)]), Some(vec![]));
    assert_eq!(found(&[(0x1_0000, 0), (0x1_0008, 0)]), None, "not written yet");
    assert_eq!(linked_areas(0x5_0000..0x6_0000, &|_: u64, _: &mut [u8]| Err(Unreadable)), None);
}

#[test]
fn regions_are_split_where_their_owner_changes() {
    use std::sync::Arc;

    use crate::process::FileName;
    use crate::sample::{FileId, MapEvent};
    let region = |file: FileId, path: &str| {
        let map = MapEvent { start: 0x1000, end: 0x9000, offset: 0, file: file.clone(), path: path.into() };
        Region::new(&map, Arc::new(FileName { file, path: path.into() }))
    };
    let ranges = vec![
        (0..0x2000, 1),
        (0x3000..0x4000, 2),
        (0x3800..0x5000, 3),
        (0x8000..0xa000, 1),
        (0xb000..0xc000, 2),
    ];
    let owned = Owned { ranges, anonymous: 4, areas: 0, shared_memory: 5, images: 7 };
    let split = |owned: &Owned, file, path, is_elf| {
        let mut parts = Vec::new();
        let unreadable = |_: u64, _: &mut [u8]| Err(crate::language::Unreadable);
        let add = |start, end, number| parts.push((start, end, number));
        owned.split(&region(file, path), is_elf, &unreadable, add);
        parts
    };
    let parts = |owned: &Owned, file, path| split(owned, file, path, true);
    let expected = |other| {
        [
            (0x1000, 0x2000, 1),
            (0x2000, 0x3000, other),
            (0x3000, 0x4000, 2),
            (0x4000, 0x5000, 3),
            (0x5000, 0x8000, other),
            (0x8000, 0x9000, 1),
        ]
    };
    let file = FileId::Inode { device: (8, 1), inode: 1 };
    assert_eq!(parts(&owned, FileId::Anonymous, ""), expected(4));
    let areas = Owned { ranges: owned.ranges.clone(), areas: 6, ..Owned::default() };
    assert_eq!(parts(&areas, FileId::Anonymous, ""), expected(6));
    assert_eq!(parts(&owned, file.clone(), "/usr/bin/php"), expected(0));
    assert_eq!(split(&owned, file.clone(), "/app/app.dll", false), expected(7));
    assert_eq!(parts(&owned, file.clone(), "/dev/zero (deleted)"), expected(5));
    assert_eq!(parts(&Owned::default(), FileId::Anonymous, ""), [(0x1000, 0x9000, 0)]);
    assert_eq!(parts(&Owned::default(), file, "/dev/zero (deleted)"), [(0x1000, 0x9000, 0)]);
}
