//! Settings that user space writes for the kernel side.

/// The value of the map `CONFIG`. User space writes it, the kernel side reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// ABI version of user space, [`super::VERSION`].
    pub version: u32,
    /// Number of bytes waiting in the ring at which the kernel side wakes user space.
    pub wakeup_bytes: u32,
    /// Process id whose samples are dropped and counted as `Counter::Filtered`, usually the profiler's own; 0 for none.
    pub excluded_pid: u32,
    /// Byte offset of the thread pointer (`thread.fsbase`) in the kernel's `task_struct`; 0 if unknown.
    pub fsbase_offset: u32,
    /// Byte offset of the thread id (`pid`) in `task_struct`, read when a process forks; 0 if unknown: then children do
    /// not inherit the published state of their parent.
    pub pid_offset: u32,
    /// Byte offset of the process id (`tgid`) in `task_struct`, read when a process forks; 0 if unknown, with the effect
    /// described at [`pid_offset`](Config::pid_offset).
    pub tgid_offset: u32,
    /// Generation of the tables, never 0. User space increments it after each table that it writes, which invalidates
    /// cached rules.
    pub table_generation: u32,
}

/// Number of levels of per-CPU state, if events can interrupt one another: a program that interrupts that many others is not run.
pub const MAX_LEVELS: u32 = 4;

const _: () = assert!(size_of::<Config>() == 28);
