//! Encoded profiles, decoded by code generated from the original schema and checked against its
//! rules and the requirements of consumers.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod consumers;
mod content;
#[cfg(feature = "http")]
mod divided;
mod fake;
mod off_cpu;
mod order;
#[cfg(feature = "pprof")]
mod pprof;
mod round_trip;
mod rules;
mod values;
