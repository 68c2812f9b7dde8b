//! Which file is mapped where in a process.
//!
//! The executable mappings of a process are one sorted array of [`Mapping`] in the [arena](super::arena); the
//! map `PROCESSES` leads from a process id to it.

/// What the kernel side knows of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The place of its mappings in the arena.
    pub mappings: u32,
    /// How many there are.
    pub count: u32,
    /// How many raw ticks the kernel side may still send for want of a mapping, until user space speaks again.
    pub raw_budget: u32,
    /// One of [`filter`].
    pub filter: u32,
    /// The place of its [interpreters](super::interpreter) in the arena; meaningful where a mapping names one.
    pub interpreters: u32,
}

/// Whether the ticks of a process are asked for.
pub mod filter {
    /// They are.
    pub const KEEP: u32 = 0;
    /// They are counted and left out.
    pub const DROP: u32 = 1;
}

/// One executable mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// What is added (wrapping) to an address of the process to make it a virtual address of the ELF file.
    pub bias: u64,
    /// The place of the file's table in the arena; meaningful for [`kind::TABLE`] only.
    pub table: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// Which of the process's interpreters the file holds, counted from 1; 0 for none.
    pub interpreter: u16,
}

/// What is known of the code in a mapping.
pub mod kind {
    /// Its unwind table isn't there yet: the tick goes up raw.
    pub const PENDING: u16 = 0;
    /// It has an unwind table.
    pub const TABLE: u16 = 1;
    /// There is no unwind data for it, and won't be: code made at run time, or a file without any.
    pub const BARE: u16 = 2;
}

const _: () = {
    assert!(size_of::<Process>() == 20);
    assert!(size_of::<Mapping>() == 32);
};
