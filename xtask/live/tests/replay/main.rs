//! Recordings of real programs, replayed without privileges.
//!
//! ```text
//! cargo test -p live-suite --test replay                                         this process, unwound from a copy of its stack
//! cargo build --release -p examples
//! sudo -E cargo test --release -p live-suite --test replay -- --ignored          a workload, live and replayed
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod held;

mod live;
#[cfg(target_arch = "x86_64")]
mod own_stack;
