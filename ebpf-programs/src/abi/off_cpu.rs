//! Off-CPU time: settings, and the state of waiting threads.

/// The value of the map `OFF_CPU`. User space writes it, the kernel side reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Start of sampling, in nanoseconds of `CLOCK_MONOTONIC`: a wait that began earlier counts from here.
    pub start: u64,
    /// Shorter waits are dropped, in nanoseconds.
    pub threshold: u64,
    /// A wait is sampled with this probability, in units of 2⁻³².
    pub probability: u64,
    /// Weight of a sampled wait, in units of 2⁻¹⁶: the inverse of the probability.
    pub weight: u64,
    /// Addresses of the code that enters an interrupt requested by a CPU of itself; equal if unknown. Frames up to it are not
    /// part of the stack that went to sleep.
    pub interrupt: [u64; 2],
    /// Byte offset of `start_time` in the kernel's `task_struct`.
    pub start_time_offset: u32,
    /// Number of the kind of samples.
    pub event: u32,
    /// Not 0 once there was no room for the state of a thread. Written by the kernel side.
    pub is_full: u64,
    /// Not 0 if the time that a thread was ready to run is of the next kind of samples.
    pub by_state: u64,
    /// Number of the kind of samples of wakers; 0 if there is none. It is not the first kind.
    pub wakers: u64,
}

/// The value of the map `WOKEN`, one for each possible CPU: the thread that the CPU switches to, until its sample is taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// Thread id; 0 if no sample is due.
    pub tid: u32,
    /// Number of frames of the interrupt, plus 1; 0 if unknown. Written by the kernel side.
    pub skip: u32,
    /// Value of the sample in nanoseconds.
    pub value: u64,
    /// Of that, the time that the thread was ready to run.
    pub ready: u64,
}

/// Threads of one remainder of thread id by [`SETS`], in one cache line: a value of the map `SWITCHED`, by that remainder.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchedSet {
    /// Thread ids; 0 for a free place.
    pub tids: [u32; WAYS],
    /// Not used.
    pub reserved: u32,
    /// State of each.
    pub states: [Switched; WAYS],
}

/// Number of threads in a set.
pub const WAYS: usize = 3;

/// Number of sets.
pub const SETS: u32 = 1 << 15;

/// State of a thread that was switched off its CPU, in nanoseconds of `CLOCK_MONOTONIC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// Time of the last switch from or to a CPU, with the bit [`OUTSIDE`].
    pub at: u64,
    /// Time since when it is ready to run; 0 while it is blocked, [`RUNS`] once it is back on a CPU.
    pub ready: u64,
}

/// Value of [`Switched::ready`] for a thread that runs.
pub const RUNS: u64 = u64::MAX;

/// Bit of [`Switched::at`] that is set if the filter rejects the control groups of the thread.
pub const OUTSIDE: u64 = 1 << 63;

const _: () =
    assert!(size_of::<OffCpu>() == 80 && size_of::<Woken>() == 24 && size_of::<SwitchedSet>() == 64);
