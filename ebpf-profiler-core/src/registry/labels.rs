//! Paths to the labels that processes set for the work of their threads.

use super::Registry;
use super::epochs::is_before;
use crate::elf::Elf;
use crate::language::{LabelPath, LabelSource, Reason, Target, loaded_files, read_process};
use crate::process::{Mapped, Region};
use crate::sample::TickRecord;

/// Initial delay between attempts to find the path, in nanoseconds; doubles after every eighth attempt.
const ATTACH_DELAY: u64 = 4_000_000;

/// Maximum number of attempts (about 8 s).
const MAX_ATTEMPTS: u32 = 64;

/// The labels of one process.
#[derive(Clone, Default)]
pub(super) struct ProcessLabels {
    /// The path, and the file whose code sets them.
    found: Option<(LabelPath, Mapped)>,
    /// Epoch of the first published state with the path; 0 if there is none.
    since: u32,
    /// Time of the last attempt, if another one may have another result.
    waiting: Option<u64>,
    attempts: u32,
}

impl ProcessLabels {
    /// Returns the path to the labels of a thread.
    pub(super) fn path(&self) -> Option<&LabelPath> {
        self.found.as_ref().map(|(path, _)| path)
    }

    /// Records that a state with the path is published.
    pub(super) fn published(&mut self, epoch: u32) {
        if self.found.is_some() && self.since == 0 {
            self.since = epoch;
        }
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

    /// Returns the file whose code set the labels of a sample; `None` if it is not known any more.
    pub(crate) fn label_file(&self, tick: &TickRecord<'_>) -> Option<Mapped> {
        let ProcessLabels { found, since, .. } = &self.processes.get(tick.pid)?.labels;
        let (_, file) = found.as_ref()?;
        (*since != 0 && !is_before(tick.epoch, *since)).then_some(*file)
    }

    /// Reads a constant of a file that a process has mapped.
    pub(crate) fn read_constant(&self, file: Mapped, address: u64, size: usize) -> Option<Vec<u8>> {
        let opener = self.modules.get(file.module)?.module.opener.as_ref()?;
        let elf = Elf::open(opener.open().ok()?).ok()?;
        let mut bytes = vec![0; size];
        elf.read(file.bias.in_file(address), &mut bytes).ok()?;
        Some(bytes)
    }

    /// Finds the path to the labels of a process, that of the first file that has one.
    pub(super) fn discover_labels(&mut self, pid: u32, now: u64) {
        self.update_context(pid, now);
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
        let has_thread_contexts = entry.context.has_thread_contexts();
        let (mut found, mut waiting) = (None, None);
        for (file, module) in files {
            let target = Target::new(&memory, file.bias, loaded.clone());
            for (name, runtime) in &module.labels {
                match runtime.attach(&target) {
                    // What the program publishes is preferred to labels of a library in it. Without a process context there are no keys;
                    // with one, this is tried again.
                    Ok(path) if path.is_of_contexts() && !has_thread_contexts => {}
                    Ok(path) if path.is_of_contexts() => _ = found.insert((path, file)),
                    Ok(path) => _ = found.get_or_insert((path, file)),
                    Err(Reason::Unsupported) if entry.labels.attempts == 0 => {
                        *stats.label_refusals.entry((name, Reason::Unsupported)).or_default() += 1;
                    }
                    Err(Reason::Unsupported) => {}
                    Err(_) => waiting = Some(now),
                }
            }
        }
        stats.label_paths += u64::from(found.is_some());
        entry.labels.waiting = waiting.filter(|_| found.is_none());
        entry.labels.found = found;
        entry.labels.attempts += 1;
    }
}
