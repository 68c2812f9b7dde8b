//! The profiler of the running machine.
//!
//! ```text
//!   kernel ──► drain thread ──► pipeline thread ──► naming thread ──► sinks
//!              buffers, ring,   walk, tables,       symbols
//!              life events      aggregate
//! ```
//!
//! The drain thread only empties the kernel's buffers. The pipeline thread never opens a symbol table. Each sink has a
//! thread. All queues are bounded: 4 batches before the pipeline, 2 profiles before the names, 4 profiles before each
//! sink. When the ring is full, the kernel side counts the samples that it loses; [`Health`] has all counters.
//!
//! # In an async program
//!
//! A profiler has its own threads, so it runs beside any async runtime. Profiles leave a sink through a channel: a
//! clone shares the profile's memory.
//!
//! | call | from async code |
//! | --- | --- |
//! | [`Profiler::health`], [`Profiler::is_running`], [`Profiler::settings`] | directly |
//! | [`Builder::start`] | in `spawn_blocking`: loads the kernel side, some 50 ms |
//! | [`Profiler::take_profile`], [`reconfigure`](Profiler::reconfigure), [`set_frequency`](Profiler::set_frequency), [`set_pids`](Profiler::set_pids), [`set_filter`](Profiler::set_filter), [`pause`](Profiler::pause), [`resume`](Profiler::resume) | in `spawn_blocking`: wait until the profile is symbolized, at most for [`Builder::reply_deadline`] |
//! | [`Profiler::finish`], [`Profiler::stop`], [`Handle::stop`] | in `spawn_blocking`: wait at most for [`Builder::deadline`] |
//! | drop | the same; not in an async task |
//!
//! ```no_run
//! # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
//! use ebpf_profiler_core::{Profiler, profile::Profile};
//! use std::{sync::mpsc::channel, time::Duration};
//!
//! // tokio::sync::mpsc: `sender.blocking_send(profile.clone())`, `receiver.recv().await`.
//! let (sender, receiver) = channel();
//! let profiler = Profiler::builder()
//!     .unwind(ebpf_profiler_unwind::tables())
//!     .every(Duration::from_secs(5))
//!     .sink(move |profile: &Profile| Ok(sender.send(profile.clone())?))
//!     .start()?;
//! println!("{}", receiver.recv()?.summary());
//! profiler.set_frequency(199)?;
//! profiler.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The example `tokio` (`cargo run -p examples --example tokio`) is a whole program. The example `requests` has labels for each
//! request of a server, also across `.await`: see [`label`](crate::label).

mod machine;

mod kernel;

mod trigger;

mod run;

mod error;

pub use error::{ChangeError, OptionError, StartError, StopError};
pub use kernel::fault::KernelFault;
pub use machine::broker::{Broker, BrokerStats};
pub use machine::reservation::{Reservation, ReservationStats, Reserved, ReservedBy};
pub use machine::system::LiveSystem;
pub use machine::usage::Usage;
pub use run::budget::Budget;
pub use run::builder::Builder;
pub use run::control::{Changed, Changes, Settings};
pub use run::enrichment::{Enrichment, EnrichmentStats};
pub use run::handle::Handle;
pub use run::health::{BudgetStats, DeadlineStats, Health, KindBudget, SinkStats};
pub use run::profiler::Profiler;
pub use run::requirements::{Requirement, State, requirements};
pub use trigger::filter::{Filter, FilterError};
pub use trigger::{
    AttachError, BlockLatency, Fentry, Futex, Kprobe, Malloc, OffCpu, OwnPrograms, ProgramType, Tracepoint,
    Trigger, TriggerError, Uprobe, Usdt,
};

pub use crate::process::Pids;
pub use crate::sample::KindCost;

pub(crate) use kernel::names::load as kernel_names;

/// `true` if the kernel side is compiled for the target of this build: Linux on x86_64 or arm64.
///
/// Elsewhere [`Builder::start`] fails with [`StartError::Architecture`]. A program that needs the profiler can reject
/// such a target at compile time:
///
/// ```
/// const { assert!(ebpf_profiler_core::live::IS_SUPPORTED, "there is no profiler for this architecture") };
/// ```
pub const IS_SUPPORTED: bool =
    cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
