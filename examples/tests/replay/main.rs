//! Recordings of real programs, replayed without privileges.
//!
//! ```text
//! cargo test -p examples --test replay                                         this process, unwound from a copy of its stack
//! sudo -E cargo test --release -p examples --test replay -- --ignored          a workload, live and replayed
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod held;

mod live;
#[cfg(target_arch = "x86_64")]
mod own_stack;
#[path = "../events/steps.rs"]
mod steps;
