//! The executable regions of one address space.

use super::ModuleId;
use crate::sample::{FileId, MapEvent};

/// One executable region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) map: MapEvent,
    /// Set when the file was looked at.
    pub(crate) file: Option<Mapped>,
}

/// What a region is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) module: ModuleId,
    /// Added (wrapping) to an address of the process it gives a virtual address of the file.
    pub(crate) bias: u64,
}

impl Region {
    pub(crate) fn new(map: MapEvent) -> Region {
        Region { map, file: None }
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.map.start <= address && address < self.map.end
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.map.file == FileId::Anonymous
    }
}

/// The region that holds `address`, in a sorted list.
pub(crate) fn find(regions: &[Region], address: u64) -> Option<usize> {
    let next = regions.partition_point(|region| region.map.start <= address);
    let index = next.checked_sub(1)?;
    regions[index].holds(address).then_some(index)
}

/// Puts a new mapping in its place; what it covers of older ones is gone.
pub(crate) fn insert(regions: &mut Vec<Region>, new: MapEvent) {
    if new.start >= new.end {
        return;
    }
    let mut kept = Vec::with_capacity(regions.len() + 2);
    for region in regions.drain(..) {
        cut(region, &new, &mut kept);
    }
    let at = kept.partition_point(|region| region.map.start < new.start);
    kept.insert(at, Region::new(new));
    *regions = kept;
}

/// Drops the regions that aren't among the mappings there are: no event tells of what is unmapped.
pub(crate) fn keep(regions: &mut Vec<Region>, maps: &[MapEvent]) {
    regions.retain(|region| {
        let next = maps.partition_point(|map| map.end <= region.map.start);
        maps.get(next).is_some_and(|map| map.start < region.map.end && map.path == region.map.path)
    });
}

/// Keeps what `new` leaves of `region`.
fn cut(region: Region, new: &MapEvent, kept: &mut Vec<Region>) {
    let (start, end) = (region.map.start, region.map.end);
    if end <= new.start || new.end <= start {
        return kept.push(region);
    }
    if start < new.start {
        let mut left = region.clone();
        left.map.end = new.start;
        kept.push(left);
    }
    if new.end < end {
        let mut right = region;
        right.map.start = new.end;
        right.map.offset = right.map.offset.wrapping_add(new.end - start);
        kept.push(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64) -> MapEvent {
        MapEvent { start, end, offset: start, file: FileId::Anonymous, path: "".into() }
    }

    fn layout(regions: &[Region]) -> Vec<(u64, u64, u64)> {
        regions.iter().map(|region| (region.map.start, region.map.end, region.map.offset)).collect()
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers() {
        let mut regions = Vec::new();
        insert(&mut regions, map(0, 100));
        insert(&mut regions, map(200, 300));
        insert(&mut regions, map(40, 60));
        assert_eq!(layout(&regions), [(0, 40, 0), (40, 60, 40), (60, 100, 60), (200, 300, 200)]);
        insert(&mut regions, map(50, 250));
        assert_eq!(layout(&regions), [(0, 40, 0), (40, 50, 40), (50, 250, 50), (250, 300, 250)]);
    }

    #[test]
    fn what_is_unmapped_is_dropped_when_it_is_looked_for() {
        let mut regions = Vec::new();
        for map in [map(0, 10), map(10, 20), map(30, 40), map(50, 60)] {
            insert(&mut regions, map);
        }
        let other = MapEvent { path: "other".into(), ..map(30, 40) };
        keep(&mut regions, &[map(10, 15), other, map(55, 60)]);
        assert_eq!(layout(&regions), [(10, 20, 10), (50, 60, 50)]);
    }

    #[test]
    fn addresses_between_mappings_are_in_none() {
        let mut regions = Vec::new();
        insert(&mut regions, map(10, 20));
        insert(&mut regions, map(30, 40));
        let found: Vec<Option<usize>> = [9, 10, 19, 20, 30, 40].map(|at| find(&regions, at)).into();
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1), None]);
    }
}
