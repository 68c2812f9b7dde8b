//! What a record says, once it is read; [`super`] shows the bytes.

use crate::elf::{Arch, Segment};
use crate::language::{NamedCall, ScriptCall};
use crate::process::Description;
use crate::sample::{Counts, LifeEvent, MapEvent};
use crate::symbol::Symbol;

/// The first bytes of a recording.
pub(super) const MAGIC: [u8; 8] = *b"EBPFTICK";

/// Changes whenever the meaning of a record changes.
pub(super) const VERSION: u32 = 1;

/// The most bytes that a record's body can have.
pub(super) const MAX_RECORD: usize = 16 << 20;

/// The most segments of code that are kept of a file.
pub(super) const MAX_SEGMENTS: usize = 64;

/// Kinds of record.
pub(super) mod kind {
    pub(in super::super) const START: u32 = 1;
    pub(in super::super) const TICK: u32 = 2;
    pub(in super::super) const LIFE: u32 = 3;
    pub(in super::super) const BATCH: u32 = 4;
    pub(in super::super) const FLUSH: u32 = 5;
    pub(in super::super) const END: u32 = 6;
    pub(in super::super) const PROCESSES: u32 = 16;
    pub(in super::super) const MAPPINGS: u32 = 17;
    pub(in super::super) const DESCRIPTION: u32 = 18;
    pub(in super::super) const FILE: u32 = 19;
    pub(in super::super) const MEMORY: u32 = 20;
    pub(in super::super) const IMAGE: u32 = 21;
    pub(in super::super) const KERNEL: u32 = 22;
    pub(in super::super) const SCRIPT: u32 = 23;
    pub(in super::super) const PREPARED: u32 = 24;
}

/// What can happen to a process.
pub(super) mod life {
    pub(in super::super) const FORKED: u32 = 1;
    pub(in super::super) const EXECUTED: u32 = 2;
    pub(in super::super) const MAPPED: u32 = 3;
    pub(in super::super) const EXITED: u32 = 4;
    pub(in super::super) const LOST: u32 = 5;
}

/// How a file is known.
pub(super) mod file_id {
    pub(in super::super) const ANONYMOUS: u32 = 0;
    pub(in super::super) const INODE: u32 = 1;
    pub(in super::super) const BUILD_ID: u32 = 2;
}

/// How a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Added (wrapping) to the time of an event it gives nanoseconds since 1970.
    pub(super) clock: u64,
    /// Nanoseconds between two ticks of a CPU.
    pub(super) period: u64,
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    /// The most bytes of tables that were kept.
    pub(super) memory: u64,
    /// The processes that were asked for; all where there is none.
    pub(super) pids: Vec<u32>,
}

/// What the pipeline does, in its order.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'r> {
    /// The bytes of a record of the ring.
    Tick(&'r [u8]),
    Life(LifeEvent),
    /// What came since the last one is taken together.
    Batch,
    /// A profile ends.
    Flush(Flush),
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
    /// Whether the profiler went on without it.
    pub(super) is_early: bool,
}

/// What was asked while the pipeline ran.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Processes,
    Mappings(u32),
    Description(u32),
    File(u32, MapEvent),
    Memory(u32, u64, u32),
}

/// What the answer was; none where it was refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Processes(Vec<u32>),
    Mappings(Option<Vec<MapEvent>>),
    Description(Description),
    File(Option<Facts>),
    Memory(Option<Vec<u8>>),
}

/// What is kept of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its length in bytes.
    pub(super) size: u64,
    /// None of a file that isn't ELF.
    pub(super) code: Option<Code>,
}

/// What is kept of an ELF file: enough to know it again, and to tell addresses in it where it isn't there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) arch: Arch,
    /// Empty where it has none.
    pub(super) build_id: Vec<u8>,
    /// Of its contents, where it has no build id; 0 otherwise.
    pub(super) fingerprint: u64,
    /// The segments that are executed.
    pub(super) segments: Vec<Segment>,
}

/// Anything that is known from outside of the stream of events.
#[derive(Debug)]
pub(super) enum Known {
    Answer(Question, Answer),
    /// The code that the kernel lends to every process.
    Image(Vec<u8>),
    /// The functions at an address of the kernel.
    Kernel(u64, Vec<Symbol>),
    /// What a call in a script was named.
    Script(ScriptCall, NamedCall),
    /// A process that the kernel side could walk from its first tick on.
    Prepared(u32),
}
