//! What we write is read by others: decoded by code made from the original schema, then held against the
//! rules of the schema and the habits of those who take it.
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
