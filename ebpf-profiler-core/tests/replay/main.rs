//! Recordings of a simulated machine, and their replays.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod disk;
mod files;
mod round_trip;
mod world;
