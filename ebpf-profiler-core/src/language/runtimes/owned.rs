//! The memory that runtimes own, without a file or of one.

use std::ops::Range;

use crate::process::Region;

/// The memory that the runtimes of a process own.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Ranges, sorted by address, with the numbers of their runtimes.
    pub(super) ranges: Vec<(Range<u64>, u16)>,
    /// Number of the runtime of all executable memory without a file; 0 for none.
    pub(super) anonymous: u16,
    /// Number of the runtime of all executable shared memory without a named file; 0 for none.
    pub(super) shared_memory: u16,
}

impl Owned {
    /// Splits a region where its owner changes: each part with the number of its runtime, 0 for none.
    pub(crate) fn split(&self, region: &Region, mut part: impl FnMut(u64, u64, u16)) {
        let default = if region.is_anonymous() {
            self.anonymous
        } else if region.is_shared_memory() {
            self.shared_memory
        } else {
            0
        };
        self.split_range(region.start, region.end, default, &mut part);
    }

    /// Splits addresses where their owner changes: each part with the number of its runtime, `default` outside of the ranges.
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
    let owned = Owned { ranges, anonymous: 4, shared_memory: 5 };
    let parts = |owned: &Owned, file, path| {
        let mut parts = Vec::new();
        owned.split(&region(file, path), |start, end, number| parts.push((start, end, number)));
        parts
    };
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
    assert_eq!(parts(&owned, file.clone(), "/usr/bin/php"), expected(0));
    assert_eq!(parts(&owned, file.clone(), "/dev/zero (deleted)"), expected(5));
    assert_eq!(parts(&Owned::default(), FileId::Anonymous, ""), [(0x1000, 0x9000, 0)]);
    assert_eq!(parts(&Owned::default(), file, "/dev/zero (deleted)"), [(0x1000, 0x9000, 0)]);
}
