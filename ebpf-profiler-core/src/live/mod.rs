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

mod builder;

mod capability;

mod cpu_buffers;

mod cpus;

mod error;

mod health;

mod interval;

mod kernel_names;

mod kernel_tables;

mod kernel_types;

mod kernel_version;

mod loader;

mod memory;

mod mmap;

mod object;

mod options;

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

pub use builder::Builder;
pub use error::{ChangeError, OptionError, StartError, StopError};
pub use health::{DeadlineStats, Health, SinkStats};
pub use profiler::Profiler;
pub use requirements::{Requirement, State, requirements};
pub use system::LiveSystem;
pub use usage::Usage;

/// `true` if the kernel side is compiled for the target of this build; only x86_64 is for now.
///
/// Elsewhere [`Builder::start`] fails with [`StartError::Architecture`]. A program that needs the profiler can reject
/// such a target at compile time:
///
/// ```
/// const { assert!(ebpf_profiler_core::live::IS_SUPPORTED, "there is no profiler for this architecture") };
/// ```
pub const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));
