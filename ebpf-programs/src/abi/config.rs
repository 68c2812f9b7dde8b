//! What user space tells the kernel side before it starts, and when it has written a table.

/// The settings, one map value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// [`super::VERSION`].
    pub version: u32,
    /// User space is woken when this many bytes wait in the ring.
    pub wakeup_bytes: u32,
    /// The process id whose ticks are left out, where it isn't 0: our own.
    pub excluded_pid: u32,
    /// Where in the kernel's `task_struct` a thread's pointer to its own data is saved; 0 where that isn't known.
    pub fsbase_offset: u32,
    /// Where its thread id is there; 0 where that isn't known.
    pub pid_offset: u32,
    /// Where its process id is there.
    pub tgid_offset: u32,
    /// Another number each time that a table was written, never 0: what is remembered of tables from before holds no more.
    pub table_generation: u32,
}

const _: () = assert!(size_of::<Config>() == 28);
