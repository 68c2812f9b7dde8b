//! Programs and files of other users that attack the profiler: each test runs one for seconds.
//!
//! ```text
//!   files.rs       outputs that are links, pipes and files of other users
//!   recordings.rs  recordings that end early, and their access
//!   names.rs       names and stacks of maximum length
//!   endings.rs     signals and outputs that fail
//!   processes.rs   life events at full speed
//!   opens.rs       pipes, links and served files that programs name; memory that never comes
//!   nonsense.rs    programs that claim to be runtimes
//!   slow.rs        stacks that take long to walk
//!   large.rs       files whose tables take long to compile
//!   chaos.rs       all of these beside one another for ten minutes
//! ```
//!
//! Needs root: `cargo build --package examples`, then
//! `cargo test -p live-suite --test hostile -- --ignored --test-threads=1`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chaos;

mod endings;

mod files;

mod large;

mod names;

mod opens;

mod processes;

mod recordings;

mod nonsense;

mod scratch;

mod slow;
