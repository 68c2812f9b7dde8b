#![cfg_attr(all(feature = "http", feature = "pprof"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "http", feature = "pprof")),
    doc = "OpenTelemetry profiles and pprof from ebpf-profiler."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod kernel;
mod marker;
mod resource;
mod semantic;

mod identity;
mod table;

mod buffer;
mod wire;

mod encode;

#[cfg(any(all(feature = "http", feature = "gzip"), feature = "pprof"))]
mod gzip;
#[cfg(feature = "pprof")]
mod pprof;

#[cfg(feature = "http")]
mod export;

pub use encode::{Encoder, encode};
#[cfg(all(fuzzing, feature = "http"))]
#[doc(hidden)]
pub use export::fuzzing;
#[cfg(feature = "http")]
pub use export::{Compression, ExportError, Exporter, ParseCompressionError, Protocol, Settings, Stats};
pub use identity::htlhash;
#[cfg(feature = "pprof")]
pub use pprof::{pprof, register_formats};
pub use resource::Resource;
