//! OpenTelemetry profiles and pprof from ebpf-profiler.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod kernel;
mod marker;
mod resource;
pub mod semantic;

mod identity;
mod table;
mod wire;

mod encode;

#[cfg(feature = "pprof")]
mod pprof;

pub use encode::{Encoder, encode};
pub use identity::htlhash;
#[cfg(feature = "pprof")]
pub use pprof::pprof;
pub use resource::Resource;
