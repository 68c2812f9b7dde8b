//! Numbers of threads in a builder.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::process::Description;
use crate::profile::{Labels, Process, ProfileBuilder, Thread, ThreadId};
use crate::registry::Registry;
use crate::sample::TickRecord;

/// Thread id, name and labels.
type Key = (u32, [u8; 16], Labels);

/// Maximum number of threads with labels in a builder, counted once for each set of labels.
const MAX_LABELLED: usize = 16_384;

/// Labels of the threads of one process.
#[derive(Clone, Copy)]
pub(super) struct LabelSource {
    pub(super) pid: u32,
    /// Returns the labels of a thread at a time; `None` if they are no longer known.
    pub(super) labels_at: fn(u32, u64) -> Option<Labels>,
}

/// The threads of a builder.
#[derive(Default)]
pub(super) struct Threads {
    /// By process, then by their identity.
    by_process: HashMap<u32, HashMap<Key, ThreadId>>,
    /// Number of threads with labels.
    labelled: usize,
    /// Called with the process of each new thread.
    seen: Option<Arc<Seen>>,
}

/// Learns of the processes of a profile while it is made.
pub(crate) type Seen = dyn Fn(&Process) + Send + Sync;

impl Threads {
    /// Returns no threads, for the next profile.
    pub(super) fn next(&self) -> Threads {
        Threads { seen: self.seen.clone(), ..Threads::default() }
    }

    /// Calls `seen` with the process of each new thread.
    #[cfg(feature = "live")]
    pub(super) fn set_seen(&mut self, seen: Arc<Seen>) {
        self.seen = Some(seen);
    }

    /// Removes the threads of a process that ended or executed another program.
    pub(super) fn remove(&mut self, pid: u32) {
        self.by_process.remove(&pid);
    }

    /// Returns `true` if the builder takes further threads with labels.
    pub(super) fn has_room(&self) -> bool {
        self.labelled < MAX_LABELLED
    }

    /// Returns the number of a sample's thread in `builder`.
    pub(super) fn number(
        &mut self,
        builder: &mut ProfileBuilder,
        registry: &mut Registry,
        labels: Labels,
        tick: &TickRecord<'_>,
    ) -> ThreadId {
        let key = (tick.tid, tick.comm, labels);
        if let Some(&thread) = self.by_process.get(&tick.pid).and_then(|threads| threads.get(&key)) {
            return thread;
        }
        let description = registry.describe(tick.pid, tick.time);
        let mut process = process(tick.pid, description);
        process.attributes = registry.attributes(tick.pid).to_vec();
        if let Some(seen) = &self.seen {
            seen(&process);
        }
        let process = builder.process(process);
        let labels = key.2.clone();
        self.labelled += usize::from(!labels.is_empty());
        let thread = builder.thread(Thread { labels, ..Thread::new(process, tick.tid, tick.name()) });
        self.by_process.entry(tick.pid).or_default().insert(key, thread);
        thread
    }
}

/// Returns the process of a profile.
fn process(pid: u32, description: &Description) -> Process {
    let Description {
        executable,
        container,
        created,
        parent,
        command_line,
        cgroup,
        pod,
        user,
        namespace_pid,
        environment,
    } = description.clone();
    Process {
        pid,
        created,
        parent,
        command_line,
        executable,
        container,
        pod,
        cgroup,
        user,
        namespace_pid,
        environment,
        attributes: Vec::new(),
    }
}
