//! Names of script functions that outlive the processes they came from.

use super::{NamedCall, ScriptCall};

/// Keeps the names of script functions: a recording writes them, its replay returns them.
///
/// A live profiler reads names from the memory of processes and needs no journal.
pub trait Journal: Send {
    /// Returns the name recorded for `call`; `None` if the process has to be read.
    fn recall(&self, call: &ScriptCall) -> Option<NamedCall> {
        let _ = call;
        None
    }

    /// Records the name that was read for `call`.
    fn record(&self, call: &ScriptCall, named: &NamedCall) {
        let _ = (call, named);
    }

    /// Returns the recorded processes whose tables were complete before their first sample; `None`
    /// if this is no replay.
    fn recall_prepared(&self) -> Option<Vec<u32>> {
        None
    }

    /// Records a process whose tables are complete before its first sample.
    fn record_prepared(&self, pid: u32) {
        let _ = pid;
    }

    /// Returns `true` if a sample was recorded as walked by outdated mappings; `None` if this is no
    /// replay.
    fn recall_outdated(&self, sample: SampleId) -> Option<bool> {
        let _ = sample;
        None
    }

    /// Records a sample whose walk used outdated mappings: the published states of a replay are
    /// others.
    fn record_outdated(&self, sample: SampleId) {
        let _ = sample;
    }
}

/// Identifies a sample of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleId {
    /// Time of the sample, as in its record.
    pub time: u64,
    /// Number of its CPU.
    pub cpu: u32,
    /// Id of its thread.
    pub tid: u32,
}

/// A journal that keeps nothing: names are always read from processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {}
