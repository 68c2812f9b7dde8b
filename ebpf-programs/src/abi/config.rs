//! What user space tells the kernel side before it starts.

/// The settings, one map value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// [`super::VERSION`].
    pub version: u32,
    /// Not 0: only the processes in the map `WANTED` are sampled.
    pub filtered: u32,
    /// User space is woken when this many bytes wait in the ring.
    pub wake_at: u32,
    /// Our own process id, whose ticks are left out where it isn't 0.
    pub exclude: u32,
}

const _: () = assert!(size_of::<Config>() == 16);
