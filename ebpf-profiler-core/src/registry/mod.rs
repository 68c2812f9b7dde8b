//! All processes that matter, and what the kernel side knows of them.
//!
//! ```text
//!   life events ──► regions of each process ──► modules ──► tables ──► kernel side
//!                                                 (on demand: when a walk asks)
//! ```
//!
//! Nothing is done ahead of need. A process is published to the kernel side when it is first sampled, a table is
//! built when a walk first stands in its file: most files that are mapped never have a frame on a stack.

mod frames;

mod jit;

mod languages;

mod modules;

mod publish;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ebpf_programs::abi::mapping::{Process, filter};
use hashbrown::{HashMap, HashSet};

use self::modules::Modules;
use self::publish::Published;
use crate::jit::{JitNames, JitStats};
use crate::language::{InterpreterStats, Interpreters, Journal, NoJournal, Scripts};
use crate::process::{self, Description, Module, ModuleId, Region, System};
use crate::sample::{Life, LifeEvent, MapEvent};
use crate::tables::{Allocator, Tables};
use crate::unwind::UnwindCompiler;

/// How long a process is known after its first thread ended, in nanoseconds; after that it is looked whether others run.
const LINGER: u64 = 1_000_000_000;

/// How long a file without processes keeps its table, in nanoseconds.
const KEEP: u64 = 60_000_000_000;

/// Processes, their files, and the way down to the kernel side.
pub struct Registry {
    system: Box<dyn System>,
    journal: Box<dyn Journal>,
    tables: Box<dyn Tables>,
    compiler: Option<Box<dyn UnwindCompiler>>,
    allocator: Allocator,
    modules: Modules,
    scripts: Scripts,
    processes: HashMap<u32, Entry>,
    /// Processes whose first thread ended, and when, or when others of their threads were last seen to run.
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
    /// Counters of perf maps and jitdump files.
    pub jit: JitStats,
}

#[derive(Default)]
struct Entry {
    regions: Arc<Vec<Region>>,
    /// What the kernel side was published, as long as it is still so.
    published: Option<Arc<Published>>,
    interpreters: Interpreters,
    jit: JitNames,
    description: Option<Description>,
    /// When its first thread ended, or others were last seen to run after that.
    ended: Option<u64>,
    /// Whether it was met again after life events were lost: what the kernel side walked before is still to come.
    rediscovered: bool,
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
            journal: Box::new(NoJournal),
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

    /// Takes the names of script functions from `journal` where it has them, and writes the others there.
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.journal = journal;
    }

    /// Leaves out all processes but these and what they fork from now on; all are wanted if there is none.
    pub fn set_filter(&mut self, pids: &[u32]) {
        self.wanted = (!pids.is_empty()).then(|| pids.iter().copied().collect());
        // Processes that the former filter dropped are published again when they are next sampled.
        for (&pid, entry) in &self.processes {
            match &entry.published {
                Some(published) => {
                    let _ = self.tables.set_process(pid, &published.process);
                }
                None => self.tables.remove_process(pid),
            }
        }
    }

    /// Returns the processes that are asked for and have not exited; `None` if all are.
    #[cfg(feature = "live")]
    pub(crate) fn filter(&self) -> Option<impl Iterator<Item = u32> + '_> {
        self.wanted.as_ref().map(|wanted| wanted.iter().copied())
    }

    /// Whether the ticks of a process are asked for. Lets the kernel side leave them out if not.
    pub fn passes_filter(&mut self, pid: u32) -> bool {
        let wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&pid));
        if !wanted {
            let process = Process { filter: filter::DROP, ..Process::default() };
            // Where there is no room the ticks go on coming, and are left out here.
            let _ = self.tables.set_process(pid, &process);
        }
        wanted
    }

    /// Learns the mappings of all processes that run, so that what they fork is known too.
    pub fn scan(&mut self) {
        for pid in self.running() {
            self.scan_process(pid);
        }
    }

    /// The processes that run: whoever has other things to do may [`scan_process`](Registry::scan_process) them one by one.
    pub fn running(&self) -> Vec<u32> {
        self.system.processes()
    }

    /// Learns the mappings of a process, if they aren't known yet.
    pub fn scan_process(&mut self, pid: u32) {
        self.ensure_mappings(pid, 0);
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

    /// Looks at the mappings of a process again: an address turned up that lies in none that is known.
    pub fn reread_mappings(&mut self, pid: u32, now: u64) {
        let Ok(maps) = self.system.mappings(pid) else { return };
        let entry = self.processes.entry(pid).or_default();
        if same_layout(&entry.regions, &maps) {
            return;
        }
        entry.regions = Arc::new(maps.into_iter().map(Region::new).collect());
        self.republish(pid, now);
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
            let Some(entry) = self.processes.get_mut(&pid).filter(|entry| entry.ended == Some(ended)) else {
                continue;
            };
            if self.system.mappings(pid).is_ok_and(|maps| !maps.is_empty()) {
                // Other threads run on: of their end no event tells.
                entry.ended = Some(now);
                self.leaving.push_back((now, pid));
            } else {
                self.forget(pid, now);
                if let Some(wanted) = &mut self.wanted {
                    wanted.remove(&pid);
                }
            }
        }
    }

    /// Lets go of the tables of files that no process has mapped for a while, and of the memory of those that were let
    /// go before.
    pub fn free_unused(&mut self, now: u64) {
        let mut mapped: HashSet<ModuleId> = HashSet::new();
        for entry in self.processes.values().filter(|entry| entry.published.is_some()) {
            mapped.extend(entry.regions.iter().filter_map(|region| Some(region.file?.module)));
        }
        self.modules.retain(&mut self.allocator, now, |id, entry| {
            mapped.contains(&id) || now.saturating_sub(entry.used) < KEEP
        });
        for bytes in self.allocator.free_ranges(now) {
            self.tables.unused(bytes);
        }
        // A region may name a module that is gone; it is looked up anew when the process is published again.
        let modules = &self.modules;
        for entry in self.processes.values_mut().filter(|entry| entry.published.is_none()) {
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

    fn ensure_mappings(&mut self, pid: u32, now: u64) {
        let known = self.processes.get(&pid).is_some_and(|entry| !entry.regions.is_empty());
        if !known {
            self.reread_mappings(pid, now);
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
        let inherited = self.processes.get(&parent).map(|entry| Entry {
            regions: entry.regions.clone(),
            published: entry.published.clone(),
            interpreters: entry.interpreters.fork(parent),
            jit: entry.jit.fork(),
            ..Entry::default()
        });
        let entry = inherited.unwrap_or_default();
        // The kernel side let the child be known as its parent was at that moment. Meanwhile the parent may be known
        // otherwise, and the child may have ended.
        match &entry.published {
            Some(published) => self.tables.replace_process(pid, &published.process),
            None if is_wanted => self.tables.remove_process(pid),
            None => {}
        }
        self.processes.insert(pid, entry);
    }

    fn map(&mut self, pid: u32, map: &MapEvent, now: u64) {
        let Registry { processes, modules, system, .. } = self;
        let entry = processes.entry(pid).or_default();
        // Either it was seen already when its mappings were looked at, or it was unmapped since, of which no event tells.
        let is_seen = entry.regions.iter().any(|region| is_same(&region.map, map));
        if !is_seen {
            process::insert(Arc::make_mut(&mut entry.regions), map.clone());
        }
        let is_renewed = !entry.interpreters.are_none()
            && modules.resolve(pid, map, &**system).is_some_and(|file| entry.interpreters.renew(file));
        if !is_seen || is_renewed {
            self.republish(pid, now);
        }
    }

    fn forget(&mut self, pid: u32, now: u64) {
        if self.withdraw(pid, now) {
            self.tables.remove_process(pid);
        }
        self.processes.remove(&pid);
    }

    /// Life events were lost: every process is looked at again when it is next sampled.
    fn rescan(&mut self, now: u64) {
        let known: Vec<u32> = self.processes.keys().copied().collect();
        for &pid in &known {
            self.forget(pid, now);
        }
        self.scan();
        for pid in known {
            if let Some(entry) = self.processes.get_mut(&pid) {
                entry.rediscovered = true;
            }
        }
    }
}

fn same_layout(regions: &[Region], maps: &[MapEvent]) -> bool {
    regions.len() == maps.len() && regions.iter().zip(maps).all(|(a, b)| is_same(&a.map, b))
}

/// Whether two looks at a process saw one mapping; the two ways to look name its file differently.
fn is_same(a: &MapEvent, b: &MapEvent) -> bool {
    (a.start, a.end, a.offset, &a.path) == (b.start, b.end, b.offset, &b.path)
}
