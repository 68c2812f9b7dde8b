//! All processes that matter, and what the kernel side knows of them.
//!
//! ```text
//!   life events ──► regions of each process ──► modules ──► tables ──► kernel side
//!                                                 (on demand: when a walk asks)
//! ```
//!
//! Nothing is done ahead of need. A process is told to the kernel side when it is first sampled, a table is
//! built when a walk first stands in its file: most files that are mapped never have a frame on a stack.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, Process, kind, wanted};
use ebpf_programs::abi::record::frame;
use hashbrown::{HashMap, HashSet};

use super::interpreters::{InterpreterStats, Interpreters, Surroundings};
use super::layout::{self, Region};
use super::modules::{Modules, Table};
use super::{Description, Module, ModuleId, System};
use crate::language::{Language, Script, ScriptId, Scripts};
use crate::sample::{Life, LifeEvent, MapEvent};
use crate::tables::{Allocator, Tables};
use crate::trace::{Found, Frame};
use crate::unwind::UnwindCompiler;

/// How many raw ticks for want of a mapping a process is granted each time that it is told anew.
const PATIENCE: u32 = 16;

/// The most mappings of a process that are told to the kernel side: one search finds any of them.
const MAX_MAPPINGS: usize = 1 << 14;

/// Functions of scripts that are remembered at most, between two profiles.
const MAX_SCRIPTS: usize = 1 << 18;

/// How long a process is known after its first thread ended, in nanoseconds.
const LINGER: u64 = 1_000_000_000;

/// How long a file without processes keeps its table, in nanoseconds.
const KEEP: u64 = 60_000_000_000;

/// Processes, their files, and the way down to the kernel side.
pub struct Registry {
    system: Box<dyn System>,
    tables: Box<dyn Tables>,
    compiler: Option<Box<dyn UnwindCompiler>>,
    allocator: Allocator,
    modules: Modules,
    scripts: Scripts,
    processes: HashMap<u32, Entry>,
    /// Processes whose first thread ended, and when: others of their threads may still run.
    leaving: VecDeque<(u64, u32)>,
    /// The processes that are asked for, with what they fork; all where there is none.
    wanted: Option<HashSet<u32>>,
    stats: RegistryStats,
}

/// What a [`Registry`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryStats {
    /// Tables that were built.
    pub tables: u64,
    /// Rows in them that can't be said.
    pub unsupported_rows: u64,
    /// Bytes of the arena that are taken.
    pub table_bytes: u64,
    /// Files without a table, by reason.
    pub without_table: BTreeMap<&'static str, u64>,
    /// Processes that are known.
    pub processes: u64,
    /// What was seen of interpreters.
    pub interpreters: InterpreterStats,
}

#[derive(Default)]
struct Entry {
    regions: Arc<Vec<Region>>,
    /// What the kernel side was told, as long as it is still so.
    told: Option<Arc<Told>>,
    interpreters: Interpreters,
    description: Option<Description>,
    /// When its first thread ended.
    ended: Option<u64>,
}

/// What the kernel side was told of a process. It holds for what the process forked since, too, for each of them
/// as long as nothing else is mapped there.
struct Told {
    process: Process,
    /// How many bytes the descriptions of its interpreters take in the arena.
    described: usize,
}

impl Told {
    /// How many bytes its mappings take in the arena.
    fn mapped(&self) -> usize {
        self.process.count as usize * size_of::<Mapping>()
    }
}

impl Registry {
    /// Knows nothing yet. At most `bytes` of tables and mappings are kept.
    pub fn new(
        system: Box<dyn System>,
        tables: Box<dyn Tables>,
        compiler: Option<Box<dyn UnwindCompiler>>,
        bytes: u64,
    ) -> Registry {
        Registry {
            system,
            tables,
            compiler,
            allocator: Allocator::new(bytes),
            modules: Modules::default(),
            scripts: Scripts::default(),
            processes: HashMap::new(),
            leaving: VecDeque::new(),
            wanted: None,
            stats: RegistryStats::default(),
        }
    }

    /// Looks for the runtimes of these languages in every file that is met from now on.
    pub fn add_languages(&mut self, languages: Vec<Box<dyn Language>>) {
        self.modules.add_languages(languages);
    }

    /// Leaves out all processes but these and what they fork from now on; all are wanted if there is none.
    pub fn want_only(&mut self, pids: &[u32]) {
        self.wanted = (!pids.is_empty()).then(|| pids.iter().copied().collect());
    }

    /// Whether the ticks of a process are asked for. Lets the kernel side leave them out if not.
    pub fn is_wanted(&mut self, pid: u32) -> bool {
        let wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&pid));
        if !wanted {
            let process = Process { wanted: wanted::NO, ..Process::default() };
            // Where there is no room the ticks go on coming, and are left out here.
            let _ = self.tables.set_process(pid, &process);
        }
        wanted
    }

    /// Learns the mappings of all processes that run, so that what they fork is known too.
    pub fn scan(&mut self) {
        for pid in self.running() {
            self.meet(pid);
        }
    }

    /// Gets ready for the scripts that run already, before the first tick.
    ///
    /// The frames of an interpreter are only to be had at the moment of a tick, by a kernel side that knows the
    /// process and can walk it: such processes are told, with the tables of all their files, before they are
    /// sampled. Does nothing without languages.
    pub fn prepare(&mut self, now: u64) {
        if !self.modules.has_languages() {
            return;
        }
        let is_wanted = |pid: &u32| self.wanted.as_ref().is_none_or(|wanted| wanted.contains(pid));
        let pids: Vec<u32> = self.running().into_iter().filter(is_wanted).collect();
        for pid in pids {
            self.know(pid, now);
            self.resolve(pid, now);
            if self.runs_scripts(pid) && self.tell(pid, now).is_some() {
                self.build_all(pid, now);
            }
        }
    }

    fn runs_scripts(&self, pid: u32) -> bool {
        let holds_runtime = |region: &Region| {
            region
                .file
                .and_then(|file| self.modules.get(file.module))
                .is_some_and(|file| file.runtime.is_some())
        };
        self.processes.get(&pid).is_some_and(|entry| entry.regions.iter().any(holds_runtime))
    }

    /// Builds the tables of all files of a process.
    fn build_all(&mut self, pid: u32, now: u64) {
        let Some(regions) = self.processes.get(&pid).map(|entry| entry.regions.clone()) else { return };
        for region in regions.iter().filter(|region| region.file.is_some()) {
            self.build(pid, region.map.start, now);
        }
    }

    /// The processes that run: whoever has other things to do may [`meet`](Registry::meet) them one by one.
    pub fn running(&self) -> Vec<u32> {
        self.system.processes()
    }

    /// Learns the mappings of a process, if they aren't known yet.
    pub fn meet(&mut self, pid: u32) {
        self.know(pid, 0);
    }

    /// Follows the life of processes.
    pub fn apply(&mut self, event: &LifeEvent) {
        match &event.life {
            Life::Forked { parent } => self.fork(event.pid, *parent, event.time),
            Life::Executed => {
                self.forget(event.pid, event.time);
                self.processes.insert(event.pid, Entry::default());
            }
            Life::Mapped(map) => self.map(event.pid, map, event.time),
            Life::Exited => {
                if let Some(entry) = self.processes.get_mut(&event.pid) {
                    entry.ended = Some(event.time);
                }
                self.leaving.push_back((event.time, event.pid));
            }
            Life::Lost { .. } => self.rescan(event.time),
        }
    }

    /// What the process is.
    pub fn describe(&mut self, pid: u32) -> &Description {
        let system = &self.system;
        let entry = self.processes.entry(pid).or_default();
        entry.description.get_or_insert_with(|| system.describe(pid))
    }

    /// What the kernel side would be told of a process: an up-to-date [`Process`] in the arena.
    ///
    /// `None` when nothing is mapped in it, or there is no room.
    pub fn tell(&mut self, pid: u32, now: u64) -> Option<Process> {
        self.know(pid, now);
        let told = match &self.processes.get(&pid)?.told {
            Some(told) => told.process,
            None => self.lay_down(pid, now)?,
        };
        if self.tables.set_process(pid, &told).is_err() {
            *self.stats.without_table.entry("processes beyond what the kernel side knows").or_default() += 1;
        }
        Some(told)
    }

    /// Writes the mappings of a process into the arena.
    fn lay_down(&mut self, pid: u32, now: u64) -> Option<Process> {
        self.resolve(pid, now);
        self.meet_interpreters(pid, now);
        let entry = self.processes.get_mut(&pid)?;
        let bytes = kernel_mappings(entry, &self.modules);
        if bytes.is_empty() {
            return None;
        }
        let descriptions = entry.interpreters.bytes();
        let mappings = self.put(&bytes, now)?;
        let interpreters = match descriptions.as_slice() {
            [] => 0,
            descriptions => {
                let place = self.put(descriptions, now);
                if place.is_none() {
                    self.allocator.give_back(mappings, bytes.len(), now);
                }
                place?
            }
        };
        let count = (bytes.len() / size_of::<Mapping>()) as u32;
        let process = Process { mappings, count, patience: PATIENCE, wanted: wanted::YES, interpreters };
        let told = Told { process, described: descriptions.len() };
        self.processes.get_mut(&pid)?.told = Some(Arc::new(told));
        Some(process)
    }

    /// Lays bytes into the arena; where.
    fn put(&mut self, bytes: &[u8], now: u64) -> Option<u32> {
        let place = self.allocator.take(bytes.len(), now)?;
        if self.tables.write(u64::from(place) * UNIT as u64, bytes).is_err() {
            self.allocator.give_back(place, bytes.len(), now);
            return None;
        }
        Some(place)
    }

    /// What was told of a process is no longer so.
    fn take_back(&mut self, pid: u32, now: u64) -> bool {
        let Some(told) = self.processes.get_mut(&pid).and_then(|entry| entry.told.take()) else {
            return false;
        };
        if let Some(told) = Arc::into_inner(told) {
            // No other process is known by it.
            self.allocator.give_back(told.process.mappings, told.mapped(), now);
            if told.described > 0 {
                self.allocator.give_back(told.process.interpreters, told.described, now);
            }
        }
        true
    }

    /// Lets the kernel side know a process anew, if it knew it.
    fn tell_anew(&mut self, pid: u32, now: u64) {
        if self.take_back(pid, now) && self.tell(pid, now).is_none() {
            // What it knows lies where other things will lie soon.
            self.tables.remove_process(pid);
        }
    }

    /// Whether the kernel side knows this process as it is now.
    pub fn is_told(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|entry| entry.told.is_some())
    }

    /// Looks at the mappings of a process again: an address turned up that lies in none that is known.
    pub fn look_again(&mut self, pid: u32, now: u64) {
        let Ok(maps) = self.system.mappings(pid) else { return };
        let entry = self.processes.entry(pid).or_default();
        if same_layout(&entry.regions, &maps) {
            return;
        }
        entry.regions = Arc::new(maps.into_iter().map(Region::new).collect());
        self.tell_anew(pid, now);
    }

    /// Builds the table for the file at `address` of a process, if that wasn't tried yet.
    ///
    /// True when the kernel side knows more of it than before.
    pub fn build(&mut self, pid: u32, address: u64, now: u64) -> bool {
        let Some(id) = self.module_at(pid, address) else { return false };
        let Some(entry) = self.modules.get_mut(id) else { return false };
        if entry.table != Table::Pending {
            return false;
        }
        entry.used = now;
        match entry.build(self.compiler.as_deref(), &mut *self.tables, &mut self.allocator, now) {
            Ok(unsupported) => {
                self.stats.tables += 1;
                self.stats.unsupported_rows += u64::from(unsupported);
            }
            Err(reason) => *self.stats.without_table.entry(reason).or_default() += 1,
        }
        self.announce(id);
        true
    }

    /// Appends the frames for the [words](ebpf_programs::abi::record) that a walker left, as the process is mapped
    /// now.
    pub fn frames(&mut self, pid: u32, walked: &[u64], now: u64, frames: &mut Vec<Frame>) {
        let Some(entry) = self.processes.get(&pid) else {
            return frames.extend(walked.iter().map(|&walked| frame_of(walked, &[], &mut self.modules)));
        };
        let regions = entry.regions.clone();
        let mut words = walked.iter();
        let mut bare = false;
        while let Some(&word) = words.next() {
            if word & frame::CALL != 0 {
                let detail = words.as_slice().first().filter(|&word| word & frame::DETAIL != 0);
                frames.extend(detail.and_then(|&detail| self.call(pid, &regions, word, detail, now)));
            } else if word & frame::DETAIL == 0 {
                frames.push(frame_of(word, &regions, &mut self.modules));
                bare |= word & frame::LOOP != 0;
            }
        }
        if bare {
            self.wait_for_interpreters(pid, now);
        }
    }

    /// The frame of a call in a script.
    fn call(&mut self, pid: u32, regions: &[Region], call: u64, detail: u64, now: u64) -> Option<Frame> {
        let Registry { processes, modules, system, scripts, stats, .. } = self;
        let entry = processes.get_mut(&pid)?;
        let (system, stats) = (&**system, &mut stats.interpreters);
        let mut around = Surroundings { pid, now, regions, modules, system, scripts, stats };
        entry.interpreters.frame(call, detail, &mut around)
    }

    /// Finds the interpreters in a process whose files are known.
    fn meet_interpreters(&mut self, pid: u32, now: u64) {
        let Registry { processes, modules, system, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        let (system, stats, regions) = (&**system, &mut stats.interpreters, &entry.regions[..]);
        entry.interpreters.meet(&mut Surroundings { pid, now, regions, modules, system, scripts, stats });
    }

    /// A loop ran without calls: perhaps its interpreter is ready by now.
    fn wait_for_interpreters(&mut self, pid: u32, now: u64) {
        self.stats.interpreters.bare_loops += 1;
        if self.processes.get(&pid).is_some_and(|entry| entry.interpreters.are_waiting(now)) {
            self.tell_anew(pid, now);
        }
    }

    /// The function of a script, as long as it is remembered.
    pub fn script(&self, id: ScriptId) -> Option<&Script> {
        self.scripts.get(id).map(|script| &**script)
    }

    /// Forgets the functions of scripts if they have become many: those that still run are asked for their names
    /// again.
    pub fn tidy_scripts(&mut self) {
        if self.scripts.len() > MAX_SCRIPTS {
            self.scripts.clear();
            self.processes.values_mut().for_each(|entry| entry.interpreters.forget_names());
        }
    }

    /// The arena, for walking on this side of the border.
    pub fn tables(&self) -> &dyn Tables {
        &*self.tables
    }

    /// The machine.
    pub fn system(&self) -> &dyn System {
        &*self.system
    }

    /// The modules that occurred in frames since this was asked last.
    pub fn take_modules(&mut self) -> HashMap<ModuleId, Module> {
        self.modules.take_seen()
    }

    /// Forgets the processes that ended a while ago.
    pub fn expire(&mut self, now: u64) {
        while let Some(&(ended, pid)) = self.leaving.front() {
            if now.saturating_sub(ended) < LINGER {
                break;
            }
            self.leaving.pop_front();
            // Its number may belong to another process by now.
            if self.processes.get(&pid).is_some_and(|entry| entry.ended == Some(ended)) {
                self.forget(pid, now);
                if let Some(wanted) = &mut self.wanted {
                    wanted.remove(&pid);
                }
            }
        }
    }

    /// Lets go of the tables of files that no process has mapped for a while.
    pub fn tidy(&mut self, now: u64) {
        let mut mapped: HashSet<ModuleId> = HashSet::new();
        for entry in self.processes.values().filter(|entry| entry.told.is_some()) {
            mapped.extend(entry.regions.iter().filter_map(|region| Some(region.file?.module)));
        }
        self.modules.retain(&mut self.allocator, now, |id, entry| {
            mapped.contains(&id) || now.saturating_sub(entry.used) < KEEP
        });
        // A region may name a module that is gone; it is looked up anew when the process is told again.
        let modules = &self.modules;
        for entry in self.processes.values_mut().filter(|entry| entry.told.is_none()) {
            if entry.regions.iter().any(|r| r.file.is_some_and(|file| modules.get(file.module).is_none())) {
                for region in Arc::make_mut(&mut entry.regions) {
                    region.file = None;
                }
            }
        }
    }

    /// What it has done so far.
    pub fn stats(&self) -> RegistryStats {
        RegistryStats {
            table_bytes: self.allocator.used(),
            processes: self.processes.len() as u64,
            ..self.stats.clone()
        }
    }

    fn know(&mut self, pid: u32, now: u64) {
        let known = self.processes.get(&pid).is_some_and(|entry| !entry.regions.is_empty());
        if !known {
            self.look_again(pid, now);
        }
    }

    fn fork(&mut self, pid: u32, parent: u32, now: u64) {
        self.forget(pid, now);
        if let Some(wanted) = &mut self.wanted {
            // The number may have been that of a process that was wanted.
            if wanted.contains(&parent) {
                wanted.insert(pid)
            } else {
                wanted.remove(&pid)
            };
        }
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&pid));
        let inherited = self.processes.get(&parent).map(|parent| Entry {
            regions: parent.regions.clone(),
            told: parent.told.clone(),
            interpreters: parent.interpreters.fork(),
            ..Entry::default()
        });
        let entry = inherited.unwrap_or_default();
        // The kernel side let the child be known as its parent was at that moment. Meanwhile the parent may be known
        // otherwise, and the child may have ended.
        match &entry.told {
            Some(told) => self.tables.correct_process(pid, &told.process),
            None if is_wanted => self.tables.remove_process(pid),
            None => {}
        }
        self.processes.insert(pid, entry);
    }

    fn map(&mut self, pid: u32, map: &MapEvent, now: u64) {
        let entry = self.processes.entry(pid).or_default();
        if entry.regions.iter().any(|region| is_same(&region.map, map)) {
            // Seen already when its mappings were looked at.
            return;
        }
        layout::insert(Arc::make_mut(&mut entry.regions), map.clone());
        self.tell_anew(pid, now);
    }

    fn forget(&mut self, pid: u32, now: u64) {
        if self.take_back(pid, now) {
            self.tables.remove_process(pid);
        }
        self.processes.remove(&pid);
    }

    /// Life events were lost: every process is looked at again when it is next sampled.
    fn rescan(&mut self, now: u64) {
        let known: Vec<u32> = self.processes.keys().copied().collect();
        for pid in known {
            self.forget(pid, now);
        }
        self.scan();
    }

    /// Finds the file of every region.
    fn resolve(&mut self, pid: u32, now: u64) {
        let Registry { processes, modules, system, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        if entry.regions.iter().any(|region| region.file.is_none() && !region.is_anonymous()) {
            for region in Arc::make_mut(&mut entry.regions) {
                if region.file.is_none() && !region.is_anonymous() {
                    region.file = modules.resolve(pid, &region.map, &**system);
                }
            }
        }
        for region in entry.regions.iter() {
            if let Some(module) = region.file.and_then(|file| modules.get_mut(file.module)) {
                module.used = now;
            }
        }
    }

    fn module_at(&self, pid: u32, address: u64) -> Option<ModuleId> {
        let regions = &self.processes.get(&pid)?.regions;
        Some(regions[layout::find(regions, address)?].file?.module)
    }

    /// Writes what became of a module's table into the mappings of every process that is told.
    fn announce(&mut self, id: ModuleId) {
        let Some(table) = self.modules.get(id).map(|entry| entry.table) else { return };
        let (place, kind) = table.words();
        for entry in self.processes.values() {
            let Some(at) = entry.told.as_ref().map(|told| told.process.mappings) else { continue };
            let interpreter = entry.interpreters.number(id);
            let words = u64::from(place) | u64::from(kind) << 32 | u64::from(interpreter) << 48;
            for (index, region) in entry.regions.iter().take(MAX_MAPPINGS).enumerate() {
                if region.file.is_some_and(|file| file.module == id) {
                    let offset = index * size_of::<Mapping>() + core::mem::offset_of!(Mapping, table);
                    // Written before, so the room is there.
                    let _ =
                        self.tables.write(u64::from(at) * UNIT as u64 + offset as u64, &words.to_ne_bytes());
                }
            }
        }
    }
}

/// The frame for one address with [flags](ebpf_programs::abi::record::frame).
fn frame_of(walked: u64, regions: &[Region], modules: &mut Modules) -> Frame {
    let found = if walked & frame::GUESSED != 0 { Found::Guessed } else { Found::Exactly };
    let address = walked & frame::ADDRESS;
    let mapped = layout::find(regions, address).and_then(|index| regions[index].file);
    let module = mapped.and_then(|mapped| Some((mapped, modules.get_mut(mapped.module)?)));
    match module {
        Some((mapped, module)) if module.is_elf() => {
            module.seen = true;
            Frame::Native { module: mapped.module, address: address.wrapping_add(mapped.bias), found }
        }
        _ => Frame::Anonymous { address, found },
    }
}

fn same_layout(regions: &[Region], maps: &[MapEvent]) -> bool {
    regions.len() == maps.len() && regions.iter().zip(maps).all(|(a, b)| is_same(&a.map, b))
}

/// Whether two looks at a process saw one mapping; the two ways to look name its file differently.
fn is_same(a: &MapEvent, b: &MapEvent) -> bool {
    (a.start, a.end, a.offset, &a.path) == (b.start, b.end, b.offset, &b.path)
}

/// The regions as the kernel side reads them.
fn kernel_mappings(entry: &Entry, modules: &Modules) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entry.regions.len() * size_of::<Mapping>());
    for region in entry.regions.iter().take(MAX_MAPPINGS) {
        let table = region.file.and_then(|file| modules.get(file.module)).map(|entry| entry.table);
        let (place, kind) = table.map_or((0, kind::BARE), Table::words);
        bytes.extend(region.map.start.to_ne_bytes());
        bytes.extend(region.map.end.to_ne_bytes());
        bytes.extend(region.file.map_or(0, |file| file.bias).to_ne_bytes());
        bytes.extend(place.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(region.file.map_or(0, |file| entry.interpreters.number(file.module)).to_ne_bytes());
    }
    bytes
}
