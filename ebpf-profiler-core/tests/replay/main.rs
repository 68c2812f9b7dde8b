//! Recordings of a machine that was thought up, and what a replay makes of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod disk;
mod files;
mod round_trip;
mod world;
