//! Paths to the labels that processes set for the work of their threads.

use super::Registry;
use crate::language::{LabelPath, LabelSource, Reason, Target, loaded_files, read_process};
use crate::process::{Mapped, Region};

/// Initial delay between attempts to find the path, in nanoseconds; doubles after every eighth attempt.
const ATTACH_DELAY: u64 = 4_000_000;

/// Maximum number of attempts (about 8 s).
const MAX_ATTEMPTS: u32 = 64;

/// The labels of one process.
#[derive(Clone, Default)]
pub(super) struct ProcessLabels {
    /// The path, and the file whose code sets them.
    found: Option<(LabelPath, Mapped)>,
    /// Time of the last attempt, if another one may have another result.
    waiting: Option<u64>,
    attempts: u32,
}

impl ProcessLabels {
    /// Returns the path to the labels of a thread.
    pub(super) fn path(&self) -> Option<&LabelPath> {
        self.found.as_ref().map(|(path, _)| path)
    }

    /// Returns `true` if another attempt is due.
    pub(super) fn are_waiting(&self, now: u64) -> bool {
        let delay = ATTACH_DELAY << (self.attempts / 8).min(12);
        self.attempts < MAX_ATTEMPTS && self.waiting.is_some_and(|at| now.saturating_sub(at) > delay)
    }
}

impl Registry {
    /// Adds sources of labels, which are searched for in every file that is opened later.
    pub fn add_label_sources(&mut self, sources: Vec<Box<dyn LabelSource>>) {
        self.modules.add_label_sources(sources);
    }

    /// Returns `true` if the threads of a process can have labels.
    pub(crate) fn has_labels(&self, pid: u32) -> bool {
        self.processes.get(pid).is_some_and(|entry| entry.labels.path().is_some())
    }

    /// Finds the path to the labels of a process, that of the first file that has one.
    pub(super) fn discover_labels(&mut self, pid: u32, now: u64) {
        if !self.modules.have_label_sources() {
            return;
        }
        let Registry { processes, modules, system, stats, .. } = self;
        let Some(entry) = processes.get_mut(pid) else { return };
        let is_mapped = |file: Mapped| entry.regions.iter().any(|region| region.file == Some(file));
        if let Some((_, file)) = entry.labels.found {
            if is_mapped(file) {
                return;
            }
            entry.labels = ProcessLabels::default();
        }
        let has_labels = |region: &Region| {
            let file = region.file?;
            modules.get(file.module).filter(|module| !module.labels.is_empty()).map(|module| (file, module))
        };
        let mut files: Vec<_> = entry.regions.iter().filter_map(has_labels).collect();
        files.dedup_by_key(|(file, _)| *file);
        if files.is_empty() || entry.labels.attempts >= MAX_ATTEMPTS {
            return;
        }
        let memory = |address: u64, buffer: &mut [u8]| read_process(&**system, pid, address, buffer);
        let loaded = loaded_files(&entry.regions, &*modules);
        let mut waiting = None;
        for (file, module) in files {
            let target = Target::new(&memory, file.bias, loaded.clone());
            for (name, runtime) in &module.labels {
                match runtime.attach(&target) {
                    Ok(path) => {
                        stats.label_paths += 1;
                        entry.labels.found = Some((path, file));
                        entry.labels.waiting = None;
                        return;
                    }
                    Err(Reason::Unsupported) if entry.labels.attempts == 0 => {
                        *stats.label_refusals.entry((name, Reason::Unsupported)).or_default() += 1;
                    }
                    Err(Reason::Unsupported) => {}
                    Err(_) => waiting = Some(now),
                }
            }
        }
        entry.labels.waiting = waiting;
        entry.labels.attempts += 1;
    }
}
