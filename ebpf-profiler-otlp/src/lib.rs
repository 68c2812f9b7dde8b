//! OpenTelemetry profiles and pprof from ebpf-profiler.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod marker;
mod resource;
pub mod semantic;

mod identity;
mod table;
mod wire;

mod encode;

pub use encode::{Encoder, encode};
pub use identity::htlhash;
pub use resource::Resource;
