//! The profiler of the running machine.
//!
//! ```text
//!   kernel ──► drain thread ──► pipeline thread ──► naming thread ──► sinks
//!              buffers, ring,   walk, tables,       symbols
//!              life events      aggregate
//! ```
//!
//! The drain thread does nothing but empty the kernel's buffers. The pipeline thread never opens a symbol
//! table. What falls behind is bounded: the channel between two threads holds a few batches, and when the ring
//! is full the kernel side counts what it loses.

mod clock;

mod bpf;

mod capability;

mod cpu_buffers;

mod cpus;

mod error;

mod interval;

mod kernel_names;

mod kernel_tables;

mod kernel_types;

mod kernel_version;

mod loader;

mod memory;

mod mmap;

mod object;

mod perf;

mod perf_map;

mod priority;

mod profiler;

mod requirements;

mod ring;

mod settings;

mod sideband;

mod source;

mod system;

mod threads;

mod usage;

pub use error::StartError;
pub use profiler::{Builder, Health, Profiler, StopError};
pub use requirements::{Requirement, State, requirements};
pub use system::LiveSystem;
pub use usage::Usage;
