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
//! # Owners
//!
//! | object | owns | files |
//! | --- | --- | --- |
//! | `Processes` | life, mappings, descriptions, bounds | `processes`, `mappings`, `describe`, `limits` |
//! | `Modules` | the mapped files, each once | `modules`, `names`, `table` |
//! | `Publisher` | what the kernel side has of processes and tables | `publisher`, `arena`, `encode`, `published`, `epochs` |
//! | `Namer` | names of scripts and of JIT-compiled code | `namer` |
//!
//! The [`Registry`] takes each event and each sample through these in turn. Files are shared by the other three, so it lends them.
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

mod contexts;

mod derive;

mod describe;

mod encode;

mod epochs;

mod frames;

mod labels;

mod languages;

mod leave;

mod limits;

mod mappings;

mod modules;

mod namer;

mod names;

mod pace;

mod processes;

mod publish;

mod published;

mod publisher;

mod shared;

mod table;

mod tables;

mod until;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

#[cfg(feature = "live")]
pub(crate) use self::builder::BuildQueue;
use self::builder::Builder;
use self::contexts::Contexts;
use self::derive::Deriver;
pub use self::limits::Limits;
pub(crate) use self::limits::stacks_on;
use self::mappings::Files;
use self::modules::Modules;
use self::namer::Namer;
#[cfg(feature = "live")]
pub(crate) use self::pace::Pace;
use self::processes::Processes;
use self::publisher::Publisher;
use self::until::IsOver;
use crate::jit::JitStats;
use crate::language::{InterpreterStats, Journal, Reason};
use crate::process::{Description, Module, ModuleId, Pids, System};
use crate::sample::{Life, LifeEvent};
use crate::tables::Tables;
use crate::unwind::UnwindCompiler;

/// Time without a sample after which a process is idle, in nanoseconds.
const IDLE_TIME: u64 = 1_000_000_000;

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
    processes: Processes,
    contexts: Contexts,
    /// Time when idle processes were last withdrawn.
    idle_withdrawn: u64,
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
    /// Processes whose threads can have [labels](crate::live::Builder::process_labels).
    pub label_paths: u64,
    /// Processes with labels that are not found, by the name of the source and the reason.
    pub label_refusals: BTreeMap<(&'static str, Reason), u64>,
    /// [Contexts](crate::live::Builder::process_contexts) that were read, each time that a process published one.
    pub contexts: u64,
    /// Attempts to read a context that failed, by reason.
    pub context_failures: BTreeMap<&'static str, u64>,
    /// Counters of perf maps and jitdump files.
    pub jit: JitStats,
    /// Reads of memory and openings of files that did not return in time.
    pub abandoned: u64,
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
            processes: Processes::default(),
            contexts: Contexts::default(),
            idle_withdrawn: 0,
            is_over: Arc::new(|| false),
            stats: RegistryStats::default(),
        }
    }

    /// Sets the bounds of the state that is kept about processes.
    pub fn set_limits(&mut self, limits: Limits) {
        self.processes.set_limits(limits);
    }

    /// Returns the processes.
    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Builds tables, and searches for runtimes, only until `is_over` returns `true`.
    #[cfg(feature = "live")]
    pub(crate) fn build_until(&mut self, is_over: impl Fn() -> bool + Send + Sync + 'static) {
        self.is_over = Arc::new(is_over);
        self.modules.search_until(self.is_over.clone());
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
        self.processes.select(pids);
        self.publisher.drop_no_samples();
        for (&pid, entry) in &self.processes.entries {
            match &entry.published {
                Some(published) => {
                    let _ = self.publisher.set_process(pid, &published.process);
                }
                None => self.publisher.remove_process(pid),
            }
        }
    }

    /// Returns `true` if samples of a process are requested. Otherwise makes the kernel side drop them.
    pub fn passes_filter(&mut self, pid: u32) -> bool {
        let is_selected = self.processes.is_selected(pid);
        // Without room the samples still arrive, and are dropped here.
        if !is_selected {
            self.publisher.drop_samples(pid);
        }
        is_selected
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
            self.system.forget(event.pid);
        }
        match &event.life {
            Life::Forked { parent } => self.fork(event.pid, *parent),
            Life::Executed => {
                self.forget(event.pid);
                self.processes.execute(event.pid, event.time);
            }
            Life::Mapped(map) => {
                let (processes, mut files) = self.mapping();
                processes.map(event.pid, map, event.time, &mut files);
            }
            Life::Exited => self.processes.end(event.pid, event.time),
            // What is published stays: the kernel side itself drops a process that executes or ends.
            Life::Lost { .. } => self.processes.lost = self.processes.lost.max(event.time),
        }
    }

    /// Reads the mappings of a process again, after a sample in an unknown mapping.
    pub fn reread_mappings(&mut self, pid: u32, now: u64) {
        let (processes, mut files) = self.mapping();
        if !processes.exceeds(pid) && processes.read_mappings(pid, now, &mut files) {
            processes.mark_due(pid);
        }
    }

    /// Reads the description of a process with samples in the batch that begins, unless it is known
    /// and stays the same: see [`Processes::describe_early`].
    pub(crate) fn describe_early(
        &mut self,
        pid: u32,
        changes: bool,
        read: impl FnOnce() -> Option<Description>,
    ) {
        self.processes.describe_early(pid, &*self.system, changes, read);
    }

    /// Forgets what was read early: the batch ends.
    pub(crate) fn end_early(&mut self) {
        self.processes.end_early();
    }

    /// Returns the description of a process at a time.
    pub fn describe(&mut self, pid: u32, now: u64) -> &Description {
        let is_over = self.is_over();
        self.processes.describe(pid, now, &*self.system, is_over)
    }

    /// Returns the processes, and the files with which their mappings are compared.
    fn mapping(&mut self) -> (&mut Processes, Files<'_>) {
        let Registry { processes, modules, publisher, system, .. } = self;
        let (limit, since) = (processes.limits().modules, publisher.next_epoch());
        (processes, Files { modules, limit, arena: &mut publisher.arena, system: &**system, since })
    }

    /// Reads the mappings of a process, unless they are known.
    fn ensure_mappings(&mut self, pid: u32, now: u64) {
        let (processes, mut files) = self.mapping();
        processes.ensure_mappings(pid, now, &mut files);
    }

    /// Reads the mappings of a process again if life events were lost since they were complete.
    /// Returns `true` if they differ from what was known.
    fn verify(&mut self, pid: u32, now: u64) -> bool {
        let (processes, mut files) = self.mapping();
        processes.verify(pid, now, &mut files)
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
            processes: self.processes.entries.len() as u64,
            mappings: self.processes.region_count.get() as u64,
            exceeding: self.processes.exceeding,
            interpreters: self.namer.interpreters.clone(),
            jit: self.namer.jit.clone(),
            abandoned: self.system.abandoned(),
            ..self.stats.clone()
        }
    }

    fn fork(&mut self, pid: u32, parent: u32) {
        self.forget(pid);
        let is_selected = self.processes.is_selected(parent);
        let entry = self.processes.fork(pid, parent);
        // The kernel side gave the child the state of its parent at that moment. Meanwhile that of the parent may be
        // another, and the child may have ended.
        match &entry.published {
            Some(published) => self.publisher.replace_process(pid, &published.process),
            None if is_selected => self.publisher.remove_process(pid),
            None => {}
        }
    }
}
