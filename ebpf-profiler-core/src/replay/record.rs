//! Decoded records. Their bytes are documented in [`super`].

use crate::elf::{Arch, Segment};
use crate::language::{NamedCall, SampleId, ScriptCall};
use crate::process::{Description, Pids};
use crate::profile::SampleKind;
use crate::sample::{Counts, LifeEvent, MapEvent};
use crate::symbol::Symbol;

/// The first bytes of a recording.
pub(super) const MAGIC: [u8; 8] = *b"EBPFTICK";

/// Version of the format, incremented when the meaning of a record changes.
pub(super) const VERSION: u32 = 5;

/// Oldest version that can be read. Version 2 has samples of CPU time only, without kind and value;
/// version 3 lacks the inodes of files that others than root may write, version 4 the generations
/// of inodes.
pub(super) const OLDEST: u32 = 2;

/// Maximum size of a record's body, in bytes.
pub(super) const MAX_RECORD: usize = 16 << 20;

/// Maximum number of executable segments kept per file.
pub(super) const MAX_SEGMENTS: usize = 64;

/// Record kinds.
pub(super) mod kind {
    pub(in super::super) const START: u32 = 1;
    pub(in super::super) const TICK: u32 = 2;
    pub(in super::super) const LIFE: u32 = 3;
    pub(in super::super) const BATCH: u32 = 4;
    pub(in super::super) const FLUSH: u32 = 5;
    pub(in super::super) const END: u32 = 6;
    pub(in super::super) const SETTINGS: u32 = 7;
    pub(in super::super) const PROCESSES: u32 = 16;
    pub(in super::super) const MAPPINGS: u32 = 17;
    pub(in super::super) const DESCRIPTION: u32 = 18;
    pub(in super::super) const FILE: u32 = 19;
    pub(in super::super) const MEMORY: u32 = 20;
    pub(in super::super) const IMAGE: u32 = 21;
    pub(in super::super) const KERNEL: u32 = 22;
    pub(in super::super) const SCRIPT: u32 = 23;
    pub(in super::super) const PREPARED: u32 = 24;
    pub(in super::super) const OUTDATED: u32 = 25;
}

/// Kinds of life event.
pub(super) mod life {
    pub(in super::super) const FORKED: u32 = 1;
    pub(in super::super) const EXECUTED: u32 = 2;
    pub(in super::super) const MAPPED: u32 = 3;
    pub(in super::super) const EXITED: u32 = 4;
    pub(in super::super) const LOST: u32 = 5;
}

/// Kinds of file identity.
pub(super) mod file_id {
    pub(in super::super) const ANONYMOUS: u32 = 0;
    pub(in super::super) const INODE: u32 = 1;
    pub(in super::super) const BUILD_ID: u32 = 2;
    pub(in super::super) const INODE_GENERATION: u32 = 3;
}

/// Settings that can change while a profiler runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Sampling period of each CPU, in nanoseconds.
    pub(super) period: u64,
    /// Processes that are profiled.
    pub(super) pids: Pids,
}

/// Start record: the profiler's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Offset that is added (wrapping) to an event's time for nanoseconds since 1970.
    pub(super) clock: u64,
    /// Sampling period of each CPU, in nanoseconds.
    pub(super) period: u64,
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    /// Capacity for unwind tables, in bytes.
    pub(super) memory: u64,
    /// Processes that were profiled.
    pub(super) pids: Pids,
    /// Kinds of samples; that of CPU time has the period above.
    pub(super) kinds: Vec<SampleKind>,
}

/// A record of the event stream, in the order in which the pipeline took them.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// A sample: its time, and the words of its ring record.
    Tick(u64, Vec<u64>),
    Life(LifeEvent),
    /// End of a batch: the pipeline took the events since the previous one together.
    Batch,
    /// End of a profile.
    Flush(Flush),
    /// Settings of the following samples.
    Settings(Settings),
    End(End),
}

/// The end of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flush {
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    pub(super) counts: Counts,
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    /// `true` if the profiler continued without the recording.
    pub(super) is_early: bool,
}

/// A question that the pipeline asked the [`System`](crate::process::System).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Processes,
    Mappings(u32),
    Description(u32),
    File(u32, MapEvent),
    Memory(u32, u64, u32),
}

/// The system's answer; `None` for an error.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Processes(Vec<u32>),
    Mappings(Option<Vec<MapEvent>>),
    Description(Description),
    File(Option<Facts>),
    Memory(Option<Vec<u8>>),
}

/// Recorded facts of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Size in bytes.
    pub(super) size: u64,
    /// `None` if it is no ELF file.
    pub(super) code: Option<Code>,
    /// Device and inode if another user than root could write the file.
    pub(super) foreign: Option<(u64, u64)>,
}

/// Recorded facts of an ELF file: they identify it and convert addresses where it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) arch: Arch,
    /// Build id; empty without one.
    pub(super) build_id: Vec<u8>,
    /// Hash of the contents of a file without build id; otherwise 0.
    pub(super) fingerprint: u64,
    /// Executable segments.
    pub(super) segments: Vec<Segment>,
}

/// A record beside the event stream.
#[derive(Debug)]
pub(super) enum Entry {
    Answer(Question, Answer),
    /// Contents of the vDSO.
    Image(Vec<u8>),
    /// Functions at a kernel address.
    Kernel(u64, Vec<Symbol>),
    /// Name of a script frame.
    Script(ScriptCall, NamedCall),
    /// Process whose mappings were published to the kernel maps before its first sample.
    Prepared(u32),
    /// Sample whose walk used outdated mappings.
    Outdated(SampleId),
}
