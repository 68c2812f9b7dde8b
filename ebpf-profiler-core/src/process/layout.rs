//! The executable regions of one address space.
//!
//! ```text
//!   Regions ──► [ chunk | chunk | chunk ]      a parent and its forked child share both levels
//!                   │       └───────────────► [ region, …, region ]   at most 64, sorted by address
//!                   └───────────────────────► copied by the first of them that changes it
//! ```
//!
//! An insertion searches both levels and moves at most one chunk, whatever the number of regions. A fork copies one
//! pointer; the first insertion afterwards copies the list of chunks and one chunk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LoadBias, ModuleId};
use crate::sample::{FileId, MapEvent};

/// One executable region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// The first address.
    pub(crate) start: u64,
    /// The first address behind it.
    pub(crate) end: u64,
    /// The offset in the file of the first byte.
    pub(crate) offset: u64,
    /// The file, interned.
    pub(crate) name: Arc<FileName>,
    /// The module of the file and its load bias; `None` until the file was opened.
    pub(crate) file: Option<Mapped>,
}

/// Identity and path of a mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileName {
    pub(crate) file: FileId,
    pub(crate) path: Arc<str>,
}

/// The module in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mapped {
    pub(crate) module: ModuleId,
    pub(crate) bias: LoadBias,
}

impl Region {
    pub(crate) fn new(map: &MapEvent, name: Arc<FileName>) -> Region {
        Region { start: map.start, end: map.end, offset: map.offset, name, file: None }
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name.file == FileId::Anonymous
    }

    /// Returns `true` if the region is shared memory, which the kernel shows as a deleted file.
    pub(crate) fn is_shared_memory(&self) -> bool {
        // The last two are what asmjit and .NET map for the code that they generate.
        const NAMES: [&str; 5] = [
            "/dev/zero (deleted)",
            "/anon_hugepage (deleted)",
            "/SYSV",
            "/memfd:vmem (deleted)",
            "/memfd:doublemapper (deleted)",
        ];
        NAMES.iter().any(|name| self.name.path.starts_with(name))
    }

    /// Returns `true` if a mapping of the same file as this region has the same bytes of it at the same addresses.
    pub(crate) fn has_offset_of(&self, map: &MapEvent) -> bool {
        self.is_anonymous() || self.offset.wrapping_sub(self.start) == map.offset.wrapping_sub(map.start)
    }

    /// Returns the region as the event of its mapping.
    pub(crate) fn map(&self) -> MapEvent {
        let FileName { file, path } = &*self.name;
        let Region { start, end, offset, .. } = *self;
        MapEvent { start, end, offset, file: file.clone(), path: path.clone() }
    }

    /// Returns `true` if `next` continues this region of anonymous memory.
    fn continues_in(&self, next: &Region) -> bool {
        self.is_anonymous() && self.end == next.start && Arc::ptr_eq(&self.name, &next.name)
    }
}

/// Number of regions held by all processes. Shared chunks count once.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegionCount(Arc<AtomicUsize>);

impl RegionCount {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Regions at most in one chunk.
const CHUNK: usize = 64;

/// The executable regions of a process, sorted by address, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    /// Never an empty chunk.
    chunks: Arc<Vec<Arc<Chunk>>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    regions: Vec<Region>,
    /// The capacity of `regions` that is part of the count.
    counted: usize,
    count: RegionCount,
}

impl Chunk {
    fn new(regions: Vec<Region>, count: &RegionCount) -> Chunk {
        let mut chunk = Chunk { regions, counted: 0, count: count.clone() };
        chunk.recount();
        chunk
    }

    fn start(&self) -> u64 {
        self.regions.first().map_or(0, |region| region.start)
    }

    fn recount(&mut self) {
        let (before, now) = (self.counted, self.regions.capacity());
        self.counted = now;
        if now >= before {
            self.count.0.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.count.0.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

impl Clone for Chunk {
    fn clone(&self) -> Chunk {
        Chunk::new(self.regions.clone(), &self.count)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Regions {
    /// Returns regions for sorted `regions`, at most `limit`; the others are dropped.
    pub(crate) fn from_sorted(
        regions: impl IntoIterator<Item = Region>,
        limit: usize,
        count: &RegionCount,
    ) -> Regions {
        let mut merged: Vec<Region> = Vec::new();
        for region in regions {
            let is_full = merged.len() >= limit;
            match merged.last_mut() {
                Some(last) if last.continues_in(&region) => last.end = region.end,
                Some(last) if region.start < last.end => {}
                _ if is_full || region.start >= region.end => {}
                _ => merged.push(region),
            }
        }
        let len = merged.len();
        let chunks = merged.chunks(CHUNK).map(|chunk| Arc::new(Chunk::new(chunk.to_vec(), count)));
        Regions { chunks: Arc::new(chunks.collect()), len }
    }

    /// Returns the number of regions.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the regions in the order of their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Region> {
        self.chunks.iter().flat_map(|chunk| &chunk.regions)
    }

    /// Returns the region that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&Region> {
        let region = self.before(address)?;
        region.holds(address).then_some(region)
    }

    /// Returns the start of the first region that begins above `address`.
    pub(crate) fn start_above(&self, address: u64) -> Option<u64> {
        let chunks = self.chunks.get(self.chunk_of(address)..)?;
        let mut starts = chunks.iter().take(2).flat_map(|chunk| &chunk.regions).map(|region| region.start);
        starts.find(|&start| start > address)
    }

    /// Returns the last region that begins at or before `address`.
    fn before(&self, address: u64) -> Option<&Region> {
        let chunk = self.chunks.get(self.chunk_of(address))?;
        let next = chunk.regions.partition_point(|region| region.start <= address);
        chunk.regions.get(next.checked_sub(1)?)
    }

    /// Returns the index of the last chunk that begins at or before `address`, or 0.
    fn chunk_of(&self, address: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.start() <= address).saturating_sub(1)
    }

    /// Returns the region that has all addresses of a mapping, with the same bytes of a file at them. The file may be another.
    pub(crate) fn containing(&self, map: &MapEvent) -> Option<&Region> {
        self.find(map.start).filter(|region| map.end <= region.end && region.has_offset_of(map))
    }

    /// Returns the regions with addresses in `start..end`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let chunks = self.chunks.get(self.chunk_of(start)..).unwrap_or_default();
        let chunks = chunks.iter().take_while(move |chunk| chunk.start() < end);
        let regions = chunks.flat_map(|chunk| &chunk.regions);
        regions.filter(move |region| region.start < end && start < region.end)
    }

    /// Removes what `start..end` covers and inserts `region` there, if there are fewer than `limit` regions.
    ///
    /// Returns `false` if the region was not inserted.
    pub(crate) fn insert(&mut self, region: Region, limit: usize, count: &RegionCount) -> bool {
        if region.start >= region.end {
            return true;
        }
        self.remove(region.start, region.end, count);
        if self.merge(&region) {
            return true;
        }
        if self.len >= limit {
            return false;
        }
        let index = self.chunk_of(region.start);
        let chunks = Arc::make_mut(&mut self.chunks);
        self.len += 1;
        let Some(chunk) = chunks.get_mut(index) else {
            chunks.push(Arc::new(Chunk::new(vec![region], count)));
            return true;
        };
        let chunk = Arc::make_mut(chunk);
        let at = chunk.regions.partition_point(|other| other.start < region.start);
        chunk.regions.insert(at, region);
        if chunk.regions.len() > CHUNK {
            // Insertions in ascending order leave full chunks behind.
            let half = if at + 1 == chunk.regions.len() { CHUNK } else { CHUNK / 2 };
            let right = chunk.regions.split_off(half);
            chunk.regions.shrink_to_fit();
            chunks.insert(index + 1, Arc::new(Chunk::new(right, count)));
        }
        if let Some(chunk) = chunks.get_mut(index) {
            Arc::make_mut(chunk).recount();
        }
        true
    }

    /// Extends the region that ends where `region` begins, if that one continues in it.
    fn merge(&mut self, region: &Region) -> bool {
        let Some(before) = region.start.checked_sub(1) else { return false };
        if !self.find(before).is_some_and(|last| last.continues_in(region)) {
            return false;
        }
        let index = self.chunk_of(before);
        let Some(chunk) = Arc::make_mut(&mut self.chunks).get_mut(index) else { return false };
        let regions = &mut Arc::make_mut(chunk).regions;
        let at = regions.partition_point(|other| other.start <= before);
        let Some(last) = at.checked_sub(1).and_then(|at| regions.get_mut(at)) else { return false };
        last.end = region.end;
        true
    }

    /// Removes what lies in `start..end`.
    pub(crate) fn remove(&mut self, start: u64, end: u64, count: &RegionCount) {
        let first = self.chunk_of(start);
        let behind = self.chunks.partition_point(|chunk| chunk.start() < end);
        let touches = |region: &Region| region.start < end && start < region.end;
        let is_free =
            !self.chunks[first.min(behind)..behind].iter().any(|chunk| chunk.regions.iter().any(touches));
        if is_free {
            return;
        }
        let mut kept: Vec<Region> = Vec::new();
        for chunk in &self.chunks[first..behind] {
            for region in &chunk.regions {
                cut(region, start, end, &mut kept);
            }
        }
        let removed: usize = self.chunks[first..behind].iter().map(|chunk| chunk.regions.len()).sum();
        self.len = self.len - removed + kept.len();
        let fresh = kept.chunks(CHUNK).map(|chunk| Arc::new(Chunk::new(chunk.to_vec(), count)));
        let fresh: Vec<_> = fresh.collect();
        Arc::make_mut(&mut self.chunks).splice(first..behind, fresh);
    }

    /// Sets the module of the regions for which `resolve` returns one.
    pub(crate) fn resolve(&mut self, mut resolve: impl FnMut(&Region) -> Option<Mapped>) {
        let mut changes: Vec<(usize, usize, Mapped)> = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            for (at, region) in chunk.regions.iter().enumerate() {
                changes.extend(resolve(region).map(|file| (index, at, file)));
            }
        }
        if changes.is_empty() {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        for (index, at, file) in changes {
            if let Some(chunk) = chunks.get_mut(index) {
                Arc::make_mut(chunk).regions[at].file = Some(file);
            }
        }
    }

    /// Returns `true` if both have the same mappings, whether or not their files were opened. `is_same_file` compares the files
    /// of two regions.
    pub(crate) fn is_same_layout(
        &self,
        other: &Regions,
        mut is_same_file: impl FnMut(&Region, &Region) -> bool,
    ) -> bool {
        let mut is_same = |(a, b): (&Region, &Region)| {
            let is_same_place = (a.start, a.end) == (b.start, b.end);
            is_same_place && (a.is_anonymous() || a.offset == b.offset) && is_same_file(a, b)
        };
        self.len == other.len && self.iter().zip(other.iter()).all(&mut is_same)
    }
}

/// Keeps the parts of `region` outside of `from..to`.
fn cut(region: &Region, from: u64, to: u64, kept: &mut Vec<Region>) {
    if region.end <= from || to <= region.start {
        return kept.push(region.clone());
    }
    if region.start < from {
        kept.push(Region { end: from, ..region.clone() });
    }
    if to < region.end {
        let offset = region.offset.wrapping_add(to - region.start);
        kept.push(Region { start: to, offset, ..region.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = usize::MAX;

    fn region(start: u64, end: u64) -> Region {
        named(start, end, "")
    }

    /// Regions of files continue in each other only if their offsets do, which these never do.
    fn named(start: u64, end: u64, path: &str) -> Region {
        let file = FileId::Inode { device: (8, 1), inode: start };
        Region { start, end, offset: start, name: Arc::new(FileName { file, path: path.into() }), file: None }
    }

    fn layout(regions: &Regions) -> Vec<(u64, u64, u64)> {
        regions.iter().map(|region| (region.start, region.end, region.offset)).collect()
    }

    fn filled(maps: &[(u64, u64)]) -> (Regions, RegionCount) {
        let (mut regions, count) = (Regions::default(), RegionCount::default());
        for &(start, end) in maps {
            assert!(regions.insert(region(start, end), ALL, &count));
        }
        (regions, count)
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers() {
        let (mut regions, count) = filled(&[(0, 100), (200, 300), (40, 60)]);
        assert_eq!(layout(&regions), [(0, 40, 0), (40, 60, 40), (60, 100, 60), (200, 300, 200)]);
        regions.insert(region(50, 250), ALL, &count);
        assert_eq!(layout(&regions), [(0, 40, 0), (40, 50, 40), (50, 250, 50), (250, 300, 250)]);
    }

    #[test]
    fn addresses_between_mappings_are_in_none() {
        let (regions, _) = filled(&[(10, 20), (30, 40)]);
        let found = [9, 10, 19, 20, 30, 40].map(|at| regions.find(at).map(|region| region.start));
        assert_eq!(found, [None, Some(10), Some(10), None, Some(30), None]);
        let next = [9, 10, 29, 30].map(|at| regions.start_above(at));
        assert_eq!(next, [Some(10), Some(30), Some(30), None]);
    }

    /// The same as a list that is searched from its beginning.
    #[test]
    fn agrees_with_a_plain_list() {
        let (mut regions, count) = (Regions::default(), RegionCount::default());
        let mut plain: Vec<Region> = Vec::new();
        let mut seed = 3u64;
        for _ in 0..4000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (seed >> 33) % 20_000;
            let end = start + 1 + (seed >> 20) % if seed & 15 == 0 { 2000 } else { 20 };
            let new = region(start, end);
            regions.insert(new.clone(), ALL, &count);
            let mut kept = Vec::new();
            plain.iter().for_each(|old| cut(old, start, end, &mut kept));
            let at = kept.partition_point(|old| old.start < start);
            kept.insert(at, new);
            plain = kept;
        }
        let expected: Vec<_> = plain.iter().map(|region| (region.start, region.end, region.offset)).collect();
        assert_eq!(layout(&regions), expected);
        assert_eq!(regions.len(), plain.len());
        for address in (0..22_000).step_by(7) {
            let next = plain.iter().map(|region| region.start).find(|&start| start > address);
            assert_eq!(regions.start_above(address), next);
        }
        drop(regions);
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn forks_share_until_they_differ() {
        let maps: Vec<_> = (0..10_000).map(|number| (number * 10, number * 10 + 5)).collect();
        let (parent, count) = filled(&maps);
        let alone = count.get();
        let mut children: Vec<_> = (0..40).map(|_| parent.clone()).collect();
        assert_eq!(count.get(), alone);
        for child in &mut children {
            child.insert(region(7, 8), ALL, &count);
            assert_eq!(child.len(), 10_001);
        }
        assert!(count.get() <= alone + 40 * 2 * CHUNK, "{} regions", count.get());
        assert_eq!(parent.len(), 10_000);
    }

    #[test]
    fn insertion_ends_at_the_limit_and_still_removes() {
        let (mut regions, count) = filled(&[(0, 10), (20, 30)]);
        assert!(!regions.insert(region(5, 15), 2, &count));
        assert_eq!(layout(&regions), [(0, 5, 0), (20, 30, 20)]);
    }

    #[test]
    fn pages_that_continue_each_other_are_one_region() {
        let (mut regions, count) = (Regions::default(), RegionCount::default());
        let name = Arc::new(FileName { file: FileId::Anonymous, path: "//anon".into() });
        for page in 0..1000u64 {
            let (start, end) = (page << 12, (page + 1) << 12);
            let page = Region { start, end, offset: 0, name: name.clone(), file: None };
            regions.insert(page, ALL, &count);
        }
        assert_eq!(layout(&regions), [(0, 1000 << 12, 0)]);
    }
}
