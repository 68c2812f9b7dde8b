//! Interpreters in processes, and the functions of their scripts.

use std::time::{Duration, Instant};

use super::{Entry, Registry};
use crate::language::{Caller, Context, Language, Script};
use crate::process::{Region, Regions};
use crate::trace::{Frame, ScriptId};

impl Registry {
    /// Adds languages, whose runtimes are searched for in every file that is opened later.
    pub fn add_languages(&mut self, languages: Vec<Box<dyn Language>>) {
        self.modules.add_languages(languages);
    }

    /// Publishes processes before sampling starts: those that run scripts, and the selected ones.
    ///
    /// Interpreter frames can be read only at the moment of a sample, by the kernel side. A
    /// selected process may have its events faster than user space can unwind raw samples.
    /// These processes are published with the tables of all their files. Takes at most 1 s and
    /// the time of one table. A replay publishes those that were in the recording.
    pub fn prepare(&mut self, now: u64) {
        if let Some(pids) = self.journal.recall_prepared() {
            return pids.into_iter().for_each(|pid| _ = self.publish(pid, now));
        }
        if !self.modules.has_languages() && self.selected.is_none() {
            return;
        }
        let is_selected = |pid: &u32| self.is_selected(*pid);
        let pids: Vec<u32> = self.running().into_iter().filter(is_selected).collect();
        let end = Instant::now() + MAX_PREPARE;
        for pid in pids {
            if Instant::now() > end {
                break;
            }
            self.ensure_mappings(pid, now);
            self.resolve(pid, now);
            let is_wanted = self.selected.is_some() || self.runs_scripts(pid);
            if is_wanted && self.publish(pid, now).is_some() {
                self.journal.record_prepared(pid);
                self.build_tables(pid, now, Some(end));
            }
        }
    }

    fn runs_scripts(&self, pid: u32) -> bool {
        let holds_runtime = |region: &Region| {
            region
                .file
                .and_then(|file| self.modules.get(file.module))
                .is_some_and(|file| !file.runtimes.is_empty())
        };
        self.processes.get(&pid).is_some_and(|entry| entry.regions.iter().any(holds_runtime))
    }

    /// Appends the frames of a call in a script. `behind` are the words that follow it.
    pub(super) fn call(
        &mut self,
        pid: u32,
        regions: &Regions,
        (call, detail): (u64, u64),
        behind: &[u64],
        now: u64,
        frames: &mut Vec<Frame>,
    ) {
        let Registry { processes, modules, system, journal, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        let (system, stats) = (&**system, &mut stats.interpreters);
        let mut around =
            Context { pid, now, regions, files: &*modules, system, journal: &**journal, scripts, stats };
        let foreign =
            entry.interpreters.frames(call, detail, Caller::of(detail, behind), &mut around, frames);
        // A perf map may name what the runtime doesn't know.
        if let Some(address) = foreign
            && let Some(Frame::Script { found, .. }) = frames.last().copied()
            && let named @ Frame::Script { .. } = self.jit_frame(pid, regions, address, found, now)
            && let Some(last) = frames.last_mut()
        {
            *last = named;
        }
    }

    /// Discovers the interpreters among the files of a process.
    pub(super) fn discover_runtimes(&mut self, pid: u32, now: u64) {
        let lacks_room = |entry: &mut Entry| {
            entry.interpreters.lack_room(&entry.regions, &self.modules) && entry.unload_limit.allow(now)
        };
        // An unmapping sends no event.
        if self.processes.get_mut(&pid).is_some_and(lacks_room) && self.read_mappings_now(pid, now) {
            self.resolve(pid, now);
        }
        let Registry { processes, modules, system, journal, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        let (system, stats, regions) = (&**system, &mut stats.interpreters, &entry.regions);
        entry.interpreters.meet(&mut Context {
            pid,
            now,
            regions,
            files: &*modules,
            system,
            journal: &**journal,
            scripts,
            stats,
        });
    }

    /// Returns `true` if an address lies in the file of the process's first interpreter.
    pub(crate) fn is_of_first_interpreter(&self, pid: u32, address: u64) -> bool {
        let is_of = |entry: &Entry| {
            let file = entry.regions.find(address)?.file?;
            Some(entry.interpreters.has_first(file))
        };
        self.processes.get(&pid).and_then(is_of) == Some(true)
    }

    /// Returns `true` if a runtime of a process waits to be attached.
    pub(super) fn waits_for_runtime(&self, pid: u32, now: u64) -> bool {
        self.processes.get(&pid).is_some_and(|entry| entry.interpreters.are_waiting(now))
    }

    /// Attaches to the runtimes to which memory of a process may belong. Returns `true` if its
    /// state is to be republished.
    pub(crate) fn attach_awaited(&mut self, pid: u32, now: u64) -> bool {
        let Registry { processes, modules, system, journal, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return false };
        let (system, stats, regions) = (&**system, &mut stats.interpreters, &entry.regions);
        let mut around =
            Context { pid, now, regions, files: &*modules, system, journal: &**journal, scripts, stats };
        let is_other = entry.interpreters.attach_awaited(&mut around);
        entry.is_changed |= is_other;
        is_other
    }

    /// Rechecks the interpreters of a process after a loop without calls or with implausible ones:
    /// an interpreter may be ready by now, or replaced.
    pub(super) fn recheck_runtimes(&mut self, pid: u32, now: u64) {
        let Registry { processes, modules, system, journal, scripts, stats, .. } = self;
        let Some(entry) = processes.get_mut(&pid) else { return };
        let (system, stats, regions) = (&**system, &mut stats.interpreters, &entry.regions);
        let mut around =
            Context { pid, now, regions, files: &*modules, system, journal: &**journal, scripts, stats };
        if entry.interpreters.are_waiting(now) || entry.interpreters.reconsider(&mut around) {
            entry.is_changed = true;
            if entry.published.is_some() && self.republish(pid, now).is_none() {
                self.mark_due(pid);
            }
        }
    }

    /// Returns the function of a script, if it is cached.
    pub fn script(&self, id: ScriptId) -> Option<&Script> {
        self.scripts.get(id).map(|script| &**script)
    }

    /// Returns the function and the line of a frame that was named after its walk.
    pub(crate) fn late_script(&self, id: ScriptId) -> Option<(ScriptId, u32)> {
        self.scripts.late(id)
    }

    /// Clears the cached functions of scripts if there are more than 262,144. Those that still run
    /// are named again.
    pub fn limit_scripts(&mut self) {
        if self.scripts.len() > MAX_SCRIPTS {
            self.scripts.clear();
            for entry in self.processes.values_mut() {
                entry.interpreters.forget_names();
                entry.jit.forget_frames();
            }
        }
    }
}

/// Maximum time of `prepare`; the remaining processes are published when they are sampled.
const MAX_PREPARE: Duration = Duration::from_secs(1);

/// Maximum number of functions of scripts cached between two profiles.
const MAX_SCRIPTS: usize = 1 << 18;
