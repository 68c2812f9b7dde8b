//! Processes and their executable mappings.
//!
//! The executable mappings of a process are one array of [`Mapping`] in the [arena](super::arena), sorted by address.
//! The map `PROCESSES` leads from a process id to it.

/// Published state of a process, a value of the map `PROCESSES`. User space writes it; the kernel side reads it and
/// decrements [`raw_budget`](Process::raw_budget).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Arena offset of its mappings.
    pub mappings: u32,
    /// Number of its mappings, at most 16,384.
    pub count: u32,
    /// Number of raw samples that the kernel side may still send for addresses in no mapping, and for those in memory of a
    /// runtime that it cannot walk yet. Set by user space at each update, decremented by the kernel side.
    pub raw_budget: u32,
    /// One of [`filter`].
    pub filter: u32,
    /// Arena offset of its [interpreter descriptions](super::interpreter); valid only if a mapping has an
    /// [`interpreter`](Mapping::interpreter).
    pub interpreters: u32,
    /// Version of the names of its script functions. User space increments it when it drops names; then the kernel side reports all
    /// functions at once again.
    pub names: u32,
    /// Number of this state among all that were ever published, from 1: the kernel side copies it to the
    /// [head](super::record::Head::epoch) of each record. 0 where there is nothing to walk by.
    pub epoch: u32,
    /// Arena offset of its [label path](super::labels) plus 1; 0 for none.
    pub labels: u32,
}

/// Filters for the samples of a process.
pub mod filter {
    /// Samples are recorded.
    pub const KEEP: u32 = 0;
    /// Samples of the process are dropped and counted as [`Counter::Filtered`](super::super::reason::Counter::Filtered).
    pub const DROP: u32 = 1;
}

/// One executable mapping. User space writes it, the kernel side reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Load bias: added (wrapping) to an address of the process, it gives the virtual address in the ELF file.
    pub bias: u64,
    /// Arena offset of the file's unwind table; valid only for [`kind::TABLE`].
    pub table: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// Index of the process's interpreter that the file contains, or whose memory it is, counted from 1 to
    /// [`MAX`](super::interpreter::MAX); 0 for none.
    pub interpreter: u16,
}

impl Mapping {
    /// Returns `true` if the code in it has no unwind data.
    #[inline(always)]
    pub const fn is_without_data(&self) -> bool {
        self.kind >= kind::BARE
    }
}

/// Kinds of mappings, by their unwind data.
pub mod kind {
    /// The unwind table is not published yet: a walk that reaches the mapping stops, and its sample is sent raw, as registers and
    /// a copy of the stack.
    pub const PENDING: u16 = 0;
    /// The mapping has an unwind table.
    pub const TABLE: u16 = 1;
    /// The mapping has no unwind data and never will: code generated at run time, or a file without any.
    pub const BARE: u16 = 2;
    /// The mapping belongs to the runtime with the number [`interpreter`](super::Mapping::interpreter), whose
    /// [walker](super::super::interpreter::walker) unwinds all frames in it.
    pub const RUNTIME: u16 = 3;
    /// The mapping has no file, and the process has a runtime that is not attached yet, to which it may belong. A walk that
    /// reaches it stops as at [`PENDING`] while the process has a [raw budget](super::Process::raw_budget); then it goes on as
    /// in [`BARE`].
    pub const AWAITED: u16 = 4;
}

const _: () = {
    assert!(size_of::<Process>() == 32);
    assert!(size_of::<Mapping>() == 32);
};
