//! The processes of the machine, and their state in the kernel maps.
//!
//! ```text
//!   life events ──► regions of each process ──► modules ──► tables ──► kernel side
//!                                                 (on demand: when a walk asks)
//! ```
//!
//! Nothing is done before it is needed. A process is published to the kernel side when it is first sampled, a table is
//! built when a walk first stands in its file: most files that are mapped never have a frame on a stack.
//!
//! # Bounds
//!
//! Any program can send life events at full speed. One event costs O(log n), memory has [`Limits`]:
//!
//! | event | work at once | work later |
//! | --- | --- | --- |
//! | mapping | one chunk of regions | published once, at the end of a batch with a sample of the process |
//! | fork | one pointer, one kernel map update | a copy of one chunk when parent or child maps something |
//! | exec, exit | the process is dropped | |
//! | events lost | a time stamp | the mappings of a process are read again when it is next sampled |
//!
//! `/proc/PID/maps` is read for a process with unknown mappings, after a sample in an unknown mapping, and after lost
//! events: at most every 50 ms a process at first, at most every 3.2 s if it goes on.

mod arena;

mod builder;

mod compile;

mod derive;

mod describe;

mod encode;

mod epochs;

mod frames;

mod languages;

mod leave;

mod limits;

mod mappings;

mod modules;

mod namer;

mod names;

mod pace;

mod publish;

mod published;

mod publisher;

mod shared;

mod tables;

mod until;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

#[cfg(feature = "live")]
pub(crate) use self::builder::BuildQueue;
use self::builder::Builder;
use self::derive::Deriver;
use self::epochs::Epochs;
pub use self::limits::Limits;
pub(crate) use self::limits::stacks_on;
use self::limits::{MAX_MAPPINGS, ReadLimit};
use self::modules::Modules;
use self::namer::Namer;
use self::names::Names;
#[cfg(feature = "live")]
pub(crate) use self::pace::Pace;
use self::published::Published;
use self::publisher::Publisher;
use self::until::IsOver;
use crate::jit::{JitNames, JitStats};
use crate::language::{InterpreterStats, Interpreters, Journal};
use crate::process::{Description, Module, ModuleId, Pids, RegionCount, Regions, System};
use crate::sample::{Life, LifeEvent};
use crate::tables::Tables;
use crate::unwind::UnwindCompiler;

/// Maximum size of what may be the stack above a stack pointer, in bytes.
const MAX_STACK: u64 = 16 << 20;

/// Time between the end of a process's first thread and the check for others, in nanoseconds. Doubles with each check.
const LINGER: u64 = 1_000_000_000;

/// Time without a sample after which a process is idle, in nanoseconds.
const IDLE: u64 = 1_000_000_000;

/// The processes of the machine, their files, and their state in the kernel maps.
pub struct Registry {
    system: Box<dyn System>,
    publisher: Publisher,
    compiler: Option<Arc<dyn UnwindCompiler>>,
    /// Compiles the tables of large files in another thread.
    builder: Option<Builder>,
    /// Derives rules in another thread.
    deriver: Option<Deriver>,
    /// `true` if a file has derived rules.
    has_derived: bool,
    modules: Modules,
    namer: Namer,
    processes: HashMap<u32, Entry>,
    /// Processes whose first thread ended, with the time of that or of the last check for other threads.
    leaving: VecDeque<(u64, u32)>,
    /// The processes to sample, with those that they fork; `None` for all.
    selected: Option<HashSet<u32>>,
    limits: Limits,
    names: Names,
    /// Descriptions that were read when the batch began.
    described: HashMap<u32, Description>,
    region_count: RegionCount,
    /// Processes to look at when the batch ends.
    due: Vec<u32>,
    /// Time of the last lost life event: what was known before is to be verified.
    lost: u64,
    /// The value of `lost` up to which processes that are gone were dropped.
    swept: u64,
    /// Time when idle processes were last withdrawn.
    withdrawn: u64,
    /// Returns `true` once no tables are to be built any more.
    is_over: IsOver,
    stats: RegistryStats,
}

/// Counters of a [`Registry`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryStats {
    /// Unwind tables that were built.
    pub tables: u64,
    /// Rows in them that no rule expresses.
    pub unsupported_rows: u64,
    /// Tables that were replaced by ones with rules that were derived from instructions.
    pub derived_tables: u64,
    /// Bytes of the arena in use.
    pub table_bytes: u64,
    /// Files without a table, by reason.
    pub without_table: BTreeMap<&'static str, u64>,
    /// Processes in the registry.
    pub processes: u64,
    /// Executable mappings in the registry, those shared by forked processes once.
    pub mappings: u64,
    /// Stacks that the kernel side walked by mappings which the process no longer had. They are left out.
    pub outdated_walks: u64,
    /// Processes that exceeded their share of the [`Limits`].
    pub exceeding: u64,
    /// Counters of interpreters.
    pub interpreters: InterpreterStats,
    /// Counters of perf maps and jitdump files.
    pub jit: JitStats,
    /// Reads of memory and openings of files that did not return in time.
    pub abandoned: u64,
}

#[derive(Default)]
struct Entry {
    regions: Regions,
    /// `true` if `regions` are all executable mappings: read from the system, or followed from an exec or a fork on.
    is_complete: bool,
    /// `true` if there are mappings that `regions` has no room for.
    exceeds: bool,
    /// The state in the kernel maps.
    published: Option<Arc<Published>>,
    epochs: Epochs,
    /// `true` if `regions` changed after that was published.
    is_changed: bool,
    /// `true` if it is among [`Registry::due`].
    is_due: bool,
    /// Time from which on it may be published again.
    next_publish: u64,
    /// Time as of which `regions` were complete.
    verified: u64,
    read_limit: ReadLimit,
    /// For the search for interpreters that were unloaded.
    unload_limit: ReadLimit,
    /// Time when files that could not be opened are tried again, and the number of attempts.
    unopened: Option<(u64, u32)>,
    /// Number of file names that the process brought.
    names: usize,
    /// Number of raw samples taken while a runtime was awaited.
    awaited: u32,
    /// Time of the last sample.
    sampled: u64,
    /// Time of the last exec.
    executed: Option<u64>,
    interpreters: Interpreters,
    jit: JitNames,
    description: Option<Description>,
    /// Time when that was read.
    described: u64,
    /// Its parent, if it has executed no program since the fork.
    forked_by: Option<u32>,
    /// Time when its first thread ended, or of the last check for other threads after that.
    ended: Option<u64>,
    /// Time until the next such check.
    linger: u64,
}

impl Registry {
    /// Returns an empty registry whose tables and mappings take at most `bytes` of the arena.
    pub fn new(
        system: Box<dyn System>,
        tables: Box<dyn Tables>,
        compiler: Option<Box<dyn UnwindCompiler>>,
        bytes: u64,
    ) -> Registry {
        Registry {
            system,
            publisher: Publisher::new(tables, bytes),
            compiler: compiler.map(Arc::from),
            builder: None,
            deriver: None,
            has_derived: false,
            modules: Modules::default(),
            namer: Namer::default(),
            processes: HashMap::new(),
            leaving: VecDeque::new(),
            described: HashMap::new(),
            selected: None,
            limits: Limits::default(),
            names: Names::default(),
            region_count: RegionCount::default(),
            due: Vec::new(),
            lost: 0,
            swept: 0,
            withdrawn: 0,
            is_over: Arc::new(|| false),
            stats: RegistryStats::default(),
        }
    }

    /// Returns the bounds.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the bounds of the state that is kept about processes.
    pub fn set_limits(&mut self, limits: Limits) {
        let mappings = limits.mappings.min(MAX_MAPPINGS);
        self.limits = Limits { mappings, ..limits };
    }

    /// Builds tables only until `is_over` returns `true`.
    #[cfg(feature = "live")]
    pub(crate) fn build_until(&mut self, is_over: impl Fn() -> bool + Send + Sync + 'static) {
        self.is_over = Arc::new(is_over);
    }

    /// Asks `waiting` how many batches were read and not taken yet, where they are read ahead.
    #[cfg(feature = "live")]
    pub(crate) fn read_ahead(&mut self, waiting: impl Fn() -> u64 + Send + 'static) {
        self.publisher.read_ahead(waiting);
    }

    /// Returns `true` once nothing further is to be learned of processes.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// Takes the names of script functions from `journal` where it has them, and writes the others there.
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.namer.journal = journal;
    }

    /// Samples these processes and what they fork from now on.
    pub fn set_filter(&mut self, pids: &Pids) {
        self.selected = pids.only().map(|pids| pids.iter().copied().collect());
        self.publisher.drop_no_samples();
        for (&pid, entry) in &self.processes {
            match &entry.published {
                Some(published) => {
                    let _ = self.publisher.set_process(pid, &published.process);
                }
                None => self.publisher.remove_process(pid),
            }
        }
    }

    /// Returns the processes that are asked for and have not exited; `None` if all are.
    #[cfg(feature = "live")]
    pub(crate) fn filter(&self) -> Option<impl Iterator<Item = u32> + '_> {
        self.selected.as_ref().map(|selected| selected.iter().copied())
    }

    /// Returns `true` if samples of a process are requested. Otherwise makes the kernel side drop them.
    pub fn passes_filter(&mut self, pid: u32) -> bool {
        let is_selected = self.is_selected(pid);
        // Without room the samples still arrive, and are dropped here.
        if !is_selected {
            self.publisher.drop_samples(pid);
        }
        is_selected
    }

    fn is_selected(&self, pid: u32) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(&pid))
    }

    /// Reads the mappings of all running processes, so that what they fork is known from its first sample on.
    pub fn scan(&mut self) {
        for pid in self.running() {
            self.scan_process(pid);
        }
    }

    /// Returns the running processes, for callers that [`scan`](Registry::scan_process) them one by one.
    pub fn running(&self) -> Vec<u32> {
        self.system.processes()
    }

    /// Reads the mappings of a process, unless they are known.
    pub fn scan_process(&mut self, pid: u32) {
        self.ensure_mappings(pid, 0);
    }

    /// Applies a life event.
    pub fn apply(&mut self, event: &LifeEvent) {
        self.enforce_limits(event.time);
        if matches!(event.life, Life::Executed | Life::Exited) {
            self.publisher.forget_dropped(event.pid);
        }
        match &event.life {
            Life::Forked { parent } => self.fork(event.pid, *parent),
            Life::Executed => {
                self.forget(event.pid);
                let time = event.time;
                let entry =
                    Entry { is_complete: true, executed: Some(time), verified: time, ..Entry::default() };
                self.processes.insert(event.pid, entry);
            }
            Life::Mapped(map) => self.map(event.pid, map, event.time),
            Life::Exited => {
                if let Some(entry) = self.processes.get_mut(&event.pid) {
                    entry.ended = Some(event.time);
                    entry.linger = LINGER;
                    self.leaving.push_back((event.time.saturating_add(LINGER), event.pid));
                }
            }
            // What is published stays: the kernel side itself drops a process that executes or ends.
            Life::Lost { .. } => self.lost = self.lost.max(event.time),
        }
    }

    /// Returns the end of what may be the stack around `address`: 16 MiB above, or the next code.
    pub(crate) fn stack_end(&self, pid: u32, address: u64) -> u64 {
        let next = self.processes.get(&pid).and_then(|entry| entry.regions.start_above(address));
        address.saturating_add(MAX_STACK).min(next.unwrap_or(u64::MAX))
    }

    /// Returns the arena, for walks in user space.
    pub fn tables(&self) -> &dyn Tables {
        &*self.publisher.arena.tables
    }

    /// Returns the machine.
    pub fn system(&self) -> &dyn System {
        &*self.system
    }

    /// Takes the modules that occurred in frames since the previous call.
    pub fn take_modules(&mut self) -> HashMap<ModuleId, Module> {
        self.modules.take_seen()
    }

    /// Takes the modules that no published process maps any more, once each time that this happens.
    #[cfg(feature = "live")]
    pub(crate) fn take_left_modules(&mut self) -> Vec<(ModuleId, Module)> {
        self.modules.take_left()
    }

    /// Keeps modules for the next profile, though they may not occur in frames of it.
    pub fn keep_modules(&mut self, ids: impl Iterator<Item = ModuleId>) {
        self.modules.keep(ids);
    }

    /// Returns `true` if a process has memory.
    pub fn has_memory(&self, pid: u32) -> bool {
        self.system.mappings(pid).is_ok_and(|maps| !maps.is_empty())
    }

    /// Returns the counters.
    pub fn stats(&self) -> RegistryStats {
        RegistryStats {
            table_bytes: self.publisher.arena.used(),
            processes: self.processes.len() as u64,
            mappings: self.region_count.get() as u64,
            interpreters: self.namer.interpreters.clone(),
            jit: self.namer.jit.clone(),
            abandoned: self.system.abandoned(),
            ..self.stats.clone()
        }
    }

    fn fork(&mut self, pid: u32, parent: u32) {
        self.forget(pid);
        if let Some(selected) = &mut self.selected {
            // The id may have been that of a selected process.
            if selected.contains(&parent) {
                selected.insert(pid)
            } else {
                selected.remove(&pid)
            };
        }
        let is_selected = self.is_selected(pid);
        let inherited = self.processes.get(&parent).map(|entry| Entry {
            regions: entry.regions.clone(),
            is_complete: entry.is_complete,
            exceeds: entry.exceeds,
            published: entry.published.clone(),
            epochs: entry.epochs.clone(),
            is_changed: entry.is_changed,
            next_publish: entry.next_publish,
            verified: entry.verified,
            names: entry.names,
            unopened: entry.unopened,
            interpreters: entry.interpreters.fork(parent),
            jit: entry.jit.fork(),
            ..Entry::default()
        });
        let entry = Entry { forked_by: Some(parent), ..inherited.unwrap_or_default() };
        // The kernel side gave the child the state of its parent at that moment. Meanwhile that of the parent may be
        // another, and the child may have ended.
        match &entry.published {
            Some(published) => self.publisher.replace_process(pid, &published.process),
            None if is_selected => self.publisher.remove_process(pid),
            None => {}
        }
        self.processes.insert(pid, entry);
    }
}
