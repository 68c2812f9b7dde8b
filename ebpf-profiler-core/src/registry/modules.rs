//! The mapped files, each once, with their unwind tables.

use std::ops::Range;
use std::sync::{Arc, Weak};

use ebpf_programs::abi::interpreter;
use hashbrown::HashMap;

use super::arena::Arena;
use super::compile::Failure;
use super::published::Published;
use super::table::Table;
use super::until::{IsOver, Until};
use crate::elf::{Elf, Segment, code_address};
use crate::language::{FoundRuntime, LabelRuntime, LabelSource, Language, RuntimeFiles};
use crate::process::{LoadBias, Mapped, Module, ModuleId, Opener, Region, System};
use crate::sample::FileId;
use crate::unwind::BareFunction;

/// The mapped files.
#[derive(Default)]
pub(super) struct Modules {
    entries: HashMap<ModuleId, Entry>,
    by_file: HashMap<FileId, ModuleId>,
    /// Files that others than root may write, by device and inode. Their build ids are not in `by_file`.
    by_foreign_inode: HashMap<(u64, u64), ModuleId>,
    next: u32,
    /// Modules that no published process maps any more, or did not for a moment.
    left: Vec<ModuleId>,
    languages: Vec<Box<dyn Language>>,
    label_sources: Vec<Box<dyn LabelSource>>,
    /// Ends the search for runtimes in files.
    is_over: Option<IsOver>,
    /// Number of modules at which unused ones are dropped.
    purge_at: usize,
    /// Modules whose table failed to build, and may be there later.
    pub(super) failed: Vec<ModuleId>,
}

/// Runtimes and sources of labels in a file.
struct Found {
    runtimes: Vec<FoundRuntime>,
    labels: Vec<(&'static str, Box<dyn LabelRuntime>)>,
}

pub(super) struct Entry {
    pub(super) module: Module,
    /// Executable segments; empty for a file that is not ELF.
    segments: Vec<Segment>,
    pub(super) table: Table,
    /// A table that other files have too, and that published mappings may still lead to.
    pub(super) former: Option<Table>,
    /// The last failure to build it, and the number of failures.
    pub(super) failed: Option<(Failure, u32)>,
    /// The derivation of rules of its code without unwind data.
    pub(super) derivation: Derivation,
    /// The runtimes of languages in the file.
    pub(super) runtimes: Vec<FoundRuntime>,
    /// Runtimes that set labels of threads, with the names of their sources.
    pub(super) labels: Vec<(&'static str, Box<dyn LabelRuntime>)>,
    /// `true` if it occurred in a frame of the current profile.
    pub(super) seen: bool,
    /// Time when a process with it was last published or withdrawn.
    pub(super) used: u64,
    /// Number of published states that have it mapped.
    references: u32,
    /// `true` if it is among [`Modules::left`], or was taken from there.
    is_left: bool,
    /// Published mappings that wait for its table.
    waiting: Vec<Waiting>,
    /// Length of `waiting` at which the mappings that are gone are dropped.
    prune_at: usize,
}

/// The derivation of rules of a file's code without unwind data.
#[derive(Default)]
pub(super) struct Derivation {
    /// Number of frames in the file whose caller was guessed, or not found.
    pub(super) guesses: u32,
    /// Number of attempts that failed.
    pub(super) failures: u32,
    /// Nothing further is derived.
    pub(super) is_done: bool,
    /// Addresses with derived rules, in order.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Derivation {
    /// Returns `true` if the rule at an address is derived.
    pub(super) fn has(&self, address: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.start <= address);
        next.checked_sub(1).is_some_and(|index| address < self.ranges[index].end)
    }
}

/// A published mapping whose module has no table yet.
pub(super) struct Waiting {
    pub(super) published: Weak<Published>,
    /// Index of the mapping in the published array.
    pub(super) index: u32,
    /// Its [`interpreter`](ebpf_programs::abi::mapping::Mapping::interpreter).
    pub(super) interpreter: u16,
}

impl Modules {
    /// Adds languages, whose runtimes are searched for in files opened later.
    pub(super) fn add_languages(&mut self, languages: Vec<Box<dyn Language>>) {
        self.languages.extend(languages);
    }

    /// Searches for runtimes until `is_over` returns `true`; [`Modules::add`] fails from then on.
    #[cfg(feature = "live")]
    pub(super) fn search_until(&mut self, is_over: IsOver) {
        self.is_over = Some(is_over);
    }

    /// Returns `true` if there are languages.
    pub(super) fn has_languages(&self) -> bool {
        !self.languages.is_empty()
    }

    /// Adds sources of labels, which are searched for in files opened later.
    pub(super) fn add_label_sources(&mut self, sources: Vec<Box<dyn LabelSource>>) {
        self.label_sources.extend(sources);
    }

    /// Returns `true` if there are sources of labels.
    pub(super) fn have_label_sources(&self) -> bool {
        !self.label_sources.is_empty()
    }

    /// Finds what a file has for walks: the runtimes, of which a server may have several linked in, and
    /// sources of labels. `None` if it is over before.
    fn search(&self, elf: Elf) -> Option<Found> {
        let elf = match self.is_over.clone() {
            Some(is_over) => elf.with_source(|source| Until { source, is_over }),
            None => elf,
        };
        let runtimes = self.languages.iter().filter_map(|language| {
            Some(FoundRuntime { language: language.name(), runtime: language.find(&elf)? })
        });
        let runtimes = runtimes.take(interpreter::MAX).collect();
        let labels = self.label_sources.iter().filter_map(|source| Some((source.name(), source.find(&elf)?)));
        let labels = labels.collect();
        // What was found with a part of its reads may be wrong.
        (!self.is_over()).then_some(Found { runtimes, labels })
    }

    fn is_over(&self) -> bool {
        self.is_over.as_ref().is_some_and(|is_over| is_over())
    }

    /// Returns the module of a region if its file is known.
    pub(super) fn known(&self, region: &Region) -> Option<ModuleId> {
        self.by_file.get(&region.name.file).copied()
    }

    /// Returns the module with an identity, if it is known: `likely`, if that has the build id.
    pub(super) fn with_identity(&self, likely: ModuleId, file: &FileId) -> Option<ModuleId> {
        let build_id = self.entries.get(&likely).map(|entry| &entry.module.build_id);
        let is_it = matches!((file, build_id), (FileId::BuildId(id), Some(known)) if id == known);
        if is_it { Some(likely) } else { self.by_file.get(file).copied() }
    }

    /// Returns the place of a region in its module.
    pub(super) fn place(&mut self, id: ModuleId, region: &Region, now: u64) -> Option<Mapped> {
        let entry = self.entries.get_mut(&id)?;
        entry.used = now;
        // Bytes of an ELF file that it does not load as code are no code of this module: a data segment, or an archive behind it.
        let address = match code_address(&entry.segments, region.offset) {
            None if entry.is_elf() => return None,
            address => address.unwrap_or(region.offset),
        };
        entry.module.extend(address, address.saturating_add(region.end - region.start), region.offset);
        Some(Mapped { module: id, bias: LoadBias::between(region.start, address) })
    }

    /// Opens the file of a region, which may be known by another of its identities. `None` if that fails, or
    /// if the search for runtimes in it does not end in time: without them, frames of scripts would be
    /// missing with no sign of it.
    pub(super) fn add(&mut self, pid: u32, region: &Region, system: &dyn System) -> Option<ModuleId> {
        if self.is_over() {
            return None;
        }
        let map = region.map();
        let opener = system.opener(pid, &map);
        let foreign = opener.foreign_inode();
        if let Some(id) = self.known_foreign(foreign, &map.file) {
            return Some(id);
        }
        let generation = opener.generation().unwrap_or(0);
        let by_generation = map.file.clone().with_generation(generation);
        if by_generation != map.file
            && let Some(&id) = self.by_file.get(&by_generation)
        {
            self.by_file.insert(map.file.clone(), id);
            return Some(id);
        }
        // Gone already, or for the moment: another process may have it, or the same one later.
        let elf = Elf::open(opener.open().ok()?).ok();
        let build_id: Box<[u8]> = elf.as_ref().and_then(Elf::build_id).unwrap_or_default().into();
        if let FileId::BuildId(expected) = &map.file
            && **expected != *build_id
        {
            // Replaced since it was mapped, or gone together with its process.
            return None;
        }
        let same = FileId::BuildId(build_id.clone());
        if !build_id.is_empty()
            && let Some(&id) = self.by_file.get(&same)
        {
            // One build may lie in any number of files.
            if self.by_file.len() < MAX_FILES {
                self.by_file.insert(map.file.clone(), id);
            }
            return Some(id);
        }
        let mut entry = Entry::new(Module::new(&*map.path), elf.as_ref());
        if let Some(elf) = elf {
            Found { runtimes: entry.runtimes, labels: entry.labels } = self.search(elf)?;
        }
        let id = ModuleId(self.next);
        self.next += 1;
        match foreign {
            Some(inode) => _ = self.by_foreign_inode.insert(inode, id),
            None if !build_id.is_empty() => _ = self.by_file.insert(same, id),
            None => {}
        }
        if foreign.is_none() || !matches!(map.file, FileId::BuildId(_)) {
            self.by_file.insert(map.file.clone(), id);
            // The last file with the inode: the number of the former one is free since.
            self.by_file.insert(map.file.clone().without_generation(), id);
            self.by_file.insert(by_generation, id);
        }
        entry.module.build_id = build_id;
        entry.module.opener = Some(opener);
        entry.module.is_foreign = foreign.is_some();
        self.entries.insert(id, entry);
        Some(id)
    }

    /// Returns the module of a file that others than root may write, unless its build id was replaced.
    fn known_foreign(&self, inode: Option<(u64, u64)>, file: &FileId) -> Option<ModuleId> {
        let &id = self.by_foreign_inode.get(&inode?)?;
        let build_id = &self.entries.get(&id)?.module.build_id;
        (*file == FileId::BuildId(build_id.clone())).then_some(id)
    }

    pub(super) fn get(&self, id: ModuleId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ModuleId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    /// Counts one more published state with the module mapped.
    pub(super) fn acquire(&mut self, id: ModuleId, now: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.references += 1;
            entry.used = now;
        }
    }

    /// Counts one published state less.
    pub(super) fn release(&mut self, id: ModuleId, now: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.references = entry.references.saturating_sub(1);
            entry.used = now;
            if entry.references == 0 && !std::mem::replace(&mut entry.is_left, true) {
                self.left.push(id);
            }
        }
    }

    /// Takes the modules that no published process maps any more.
    #[cfg(feature = "live")]
    pub(super) fn take_left(&mut self) -> Vec<(ModuleId, Module)> {
        let left = std::mem::take(&mut self.left).into_iter().filter_map(|id| {
            let entry = self.entries.get_mut(&id)?;
            entry.is_left = entry.references == 0;
            entry.is_left.then(|| (id, entry.module.clone()))
        });
        left.collect()
    }

    /// Takes the opener of another process for a module that is mapped again after all others left it.
    pub(super) fn return_to(&mut self, id: ModuleId, opener: impl FnOnce() -> Arc<dyn Opener>) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.references == 0
            && std::mem::take(&mut entry.is_left)
        {
            entry.module.opener = Some(opener());
        }
    }

    /// Takes the modules that occurred in frames since the previous call.
    pub(super) fn take_seen(&mut self) -> HashMap<ModuleId, Module> {
        let taken = |(&id, entry): (&ModuleId, &mut Entry)| {
            std::mem::take(&mut entry.seen).then(|| (id, entry.module.clone()))
        };
        self.entries.iter_mut().filter_map(taken).collect()
    }

    /// Marks modules as ones that occurred in frames.
    pub(super) fn keep(&mut self, ids: impl Iterator<Item = ModuleId>) {
        for id in ids {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.seen = true;
            }
        }
    }

    /// Returns `true` if there are fewer than `limit` modules.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        self.entries.len() < limit
    }

    /// Drops unused modules if there are `limit` of them, or twice the number that the previous call left.
    /// Returns `true` if fewer than `limit` are left.
    pub(super) fn make_room(&mut self, limit: usize, now: u64, arena: &mut Arena) -> bool {
        if self.entries.len() >= limit.min(self.purge_at.max(MIN_PURGE_COUNT)) {
            self.drop_unused(KEEP_AT_LEAST, now, arena);
            self.purge_at = self.entries.len() * 2;
        }
        self.entries.len() < limit
    }

    /// Drops the modules that no published process has had mapped for `keep` nanoseconds, and frees their tables.
    pub(super) fn drop_unused(&mut self, keep: u64, now: u64, arena: &mut Arena) {
        self.entries.retain(|_, entry| {
            let kept = entry.seen || entry.references > 0 || now.saturating_sub(entry.used) < keep;
            for table in entry.former.into_iter().chain([entry.table]) {
                if let (false, Table::Ready { place, bytes }) = (kept, table) {
                    arena.free_table(place, bytes, now);
                }
            }
            kept
        });
        let entries = &self.entries;
        self.by_file.retain(|_, id| entries.contains_key(id));
        self.by_foreign_inode.retain(|_, id| entries.contains_key(id));
    }
}

impl RuntimeFiles for Modules {
    fn runtimes(&self, id: ModuleId) -> &[FoundRuntime] {
        self.entries.get(&id).map_or(&[], |entry| &entry.runtimes)
    }

    fn module(&self, id: ModuleId) -> Option<&Module> {
        Some(&self.entries.get(&id)?.module)
    }
}

impl Entry {
    fn new(module: Module, elf: Option<&Elf>) -> Entry {
        let segments = elf.map_or(&[][..], Elf::segments);
        let segments = segments.iter().filter(|segment| segment.is_code());
        let segments: Vec<Segment> = segments.take(MAX_SEGMENTS).copied().collect();
        let table = if segments.is_empty() { Table::None } else { Table::Pending };
        Entry {
            module,
            segments,
            table,
            former: None,
            failed: None,
            derivation: Derivation::default(),
            runtimes: Vec::new(),
            labels: Vec::new(),
            seen: false,
            used: 0,
            references: 0,
            is_left: false,
            waiting: Vec::new(),
            prune_at: 0,
        }
    }

    /// Adds a published mapping that waits for the table.
    pub(super) fn wait(&mut self, published: &Arc<Published>, index: u32, interpreter: u16) {
        if self.waiting.len() >= self.prune_at {
            self.waiting.retain(|waiting| waiting.published.strong_count() > 0);
            self.prune_at = (self.waiting.len() * 2).max(64);
        }
        self.waiting.push(Waiting { published: Arc::downgrade(published), index, interpreter });
    }

    /// Takes the mappings that waited for the table.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.prune_at = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Returns `true` if it is an ELF file, so that it has virtual addresses.
    pub(super) fn is_elf(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Returns the number of bytes of its code.
    pub(super) fn code_size(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.file_size))
    }

    /// Returns the functions without unwind data that a runtime in the file names.
    pub(super) fn bare_functions(&self) -> &[BareFunction] {
        let mut bare = self.runtimes.iter().map(|found| found.runtime.bare_functions());
        bare.find(|functions| !functions.is_empty()).unwrap_or_default()
    }
}

/// Number of modules below which unused ones are kept for some time.
const MIN_PURGE_COUNT: usize = 4096;

/// Time that an unused module is kept at least, in nanoseconds.
const KEEP_AT_LEAST: u64 = 1_000_000_000;

/// File identities at most that lead to modules.
const MAX_FILES: usize = 1 << 16;

/// Executable segments of a file that are kept.
const MAX_SEGMENTS: usize = 64;

#[cfg(all(test, feature = "live"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::language::Runtime;
    use crate::process::FileName;
    use crate::sample::MapEvent;
    use crate::testing::FakeSystem;

    /// A search that takes until it is over, or no time, and then reads.
    struct Slow {
        is_over: Arc<AtomicBool>,
        takes_time: bool,
        reads: Arc<AtomicBool>,
    }

    impl Language for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
            self.is_over.store(self.takes_time, Ordering::Relaxed);
            self.reads.store(elf.bytes(0, 4).is_ok(), Ordering::Relaxed);
            None
        }
    }

    #[test]
    fn file_whose_search_is_over_is_no_module() {
        let program = std::env::current_exe().unwrap();
        let file = FileId::Inode { device: (8, 1), inode: 42 };
        let map = MapEvent::new(0x1000..0x2000, 0, file, program.to_str().unwrap());
        let region = Region::new(&map, Arc::new(FileName { file: map.file.clone(), path: map.path.clone() }));
        let system = FakeSystem::this_process().unwrap();
        for takes_time in [true, false] {
            let (is_over, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let mut modules = Modules::default();
            let flag = is_over.clone();
            modules.search_until(Arc::new(move || flag.load(Ordering::Relaxed)));
            modules.add_languages(vec![Box::new(Slow { is_over, takes_time, reads: reads.clone() })]);
            let module = modules.add(std::process::id(), &region, &system);
            assert_eq!(module.is_some(), !takes_time);
            assert_eq!(modules.known(&region), module);
            assert_eq!(reads.load(Ordering::Relaxed), !takes_time);
        }
    }
}
