//! Interpreters in processes, and the functions of their scripts.

use std::time::{Duration, Instant};

use super::Registry;
use super::processes::Entry;
use crate::language::{Caller, Context, Interpreters, Language, Script};
use crate::process::Region;
use crate::trace::{Found, Frame, FrameWord, ScriptId};

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
        if let Some(pids) = self.namer.journal.recall_prepared() {
            return pids.into_iter().for_each(|pid| _ = self.publish(pid, now));
        }
        if !self.modules.has_languages()
            && !self.modules.have_label_sources()
            && self.processes.selected().is_none()
        {
            return;
        }
        let is_selected = |pid: &u32| self.processes.is_selected(*pid);
        let pids: Vec<u32> = self.running().into_iter().filter(is_selected).collect();
        let end = Instant::now() + MAX_PREPARE;
        for pid in pids {
            if Instant::now() > end {
                break;
            }
            self.ensure_mappings(pid, now);
            self.resolve(pid, now);
            let is_wanted = self.processes.selected().is_some() || self.runs_scripts(pid);
            if is_wanted && self.publish(pid, now).is_some() {
                self.namer.journal.record_prepared(pid);
                self.build_tables(pid, now, Some(end));
            }
        }
    }

    fn runs_scripts(&self, pid: u32) -> bool {
        let holds_runtime = |region: &Region| {
            region
                .file
                .and_then(|file| self.modules.get(file.module))
                .is_some_and(|file| !file.runtimes.is_empty() || !file.labels.is_empty())
        };
        self.processes.get(pid).is_some_and(|entry| entry.regions.iter().any(holds_runtime))
    }

    /// Appends the frames of a call in a script. `following` are the words after it.
    pub(super) fn append_call(
        &mut self,
        pid: u32,
        (call, detail): (FrameWord, FrameWord),
        following: &[u64],
        now: u64,
        frames: &mut Vec<Frame>,
    ) {
        let Some((interpreters, mut context)) = self.interpreters_of(pid, now) else { return };
        let caller = Caller::of(detail, following);
        let foreign = interpreters.frames((call, detail), caller, &mut context, frames);
        // A perf map may name what the runtime doesn't know.
        if let Some(address) = foreign
            && let Some(Frame::Script { found, .. }) = frames.last().copied()
            && let named @ Frame::Script { .. } = self.jit_frame(pid, address, found, now)
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
        if self.processes.get_mut(pid).is_some_and(lacks_room) {
            let (processes, mut files) = self.mapping();
            if processes.read_mappings_now(pid, now, &mut files) {
                self.resolve(pid, now);
            }
        }
        if let Some((interpreters, mut context)) = self.interpreters_of(pid, now) {
            interpreters.discover(&mut context);
        }
    }

    /// Returns the interpreters of a process, and the context in which they read it.
    fn interpreters_of(&mut self, pid: u32, now: u64) -> Option<(&mut Interpreters, Context<'_>)> {
        let Registry { processes, modules, system, namer, .. } = self;
        let entry = processes.get_mut(pid)?;
        Some(namer.interpreters_of((pid, entry), modules, &**system, now))
    }

    /// Returns the frame of an address that lies in no ELF file.
    pub(super) fn jit_frame(&mut self, pid: u32, address: u64, found: Found, now: u64) -> Frame {
        let Registry { processes, system, namer, .. } = self;
        match processes.get_mut(pid) {
            Some(entry) => namer.jit_frame((pid, entry), &**system, address, found, now),
            None => Frame::Anonymous { address, found },
        }
    }

    /// Attaches to the runtimes to which memory of a process may belong. Returns `true` if its
    /// state is to be republished.
    pub(crate) fn attach_awaited(&mut self, pid: u32, now: u64) -> bool {
        let Some((interpreters, mut context)) = self.interpreters_of(pid, now) else { return false };
        let is_other = interpreters.attach_awaited(&mut context);
        if let Some(entry) = self.processes.get_mut(pid) {
            entry.is_changed |= is_other;
        }
        is_other
    }

    /// Rechecks the interpreters of a process after a loop without calls or with implausible ones:
    /// an interpreter may be ready by now, or replaced.
    pub(super) fn recheck_runtimes(&mut self, pid: u32, now: u64) {
        let Some((interpreters, mut context)) = self.interpreters_of(pid, now) else { return };
        if (interpreters.are_waiting(now) || interpreters.recheck(&mut context))
            && let Some(entry) = self.processes.get_mut(pid)
        {
            entry.is_changed = true;
            if entry.published.is_some() && self.republish(pid, now).is_none() {
                self.processes.mark_due(pid);
            }
        }
    }

    /// Returns the function of a script, if it is cached.
    pub fn script(&self, id: ScriptId) -> Option<&Script> {
        self.namer.script(id)
    }

    /// Returns the function and the line of a frame that was named after its walk.
    pub(crate) fn late_script(&self, id: ScriptId) -> Option<(ScriptId, u32)> {
        self.namer.late_script(id)
    }

    /// Clears the cached functions of scripts if there are more than 262,144. Those that still run
    /// are named again.
    pub fn limit_scripts(&mut self) {
        if self.namer.limit_scripts() {
            self.processes.forget_names();
        }
    }
}

/// Maximum time of `prepare`; the remaining processes are published when they are sampled.
const MAX_PREPARE: Duration = Duration::from_secs(1);
