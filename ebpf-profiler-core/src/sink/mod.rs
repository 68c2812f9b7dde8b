//! Output of finished profiles.
//!
//! ```text
//!   html         an interactive flame graph in one file
//!   svg          a static flame graph, for documents
//!   folded       one line per stack, for other tools
//!   firefox      for the Firefox Profiler: events in time
//!   speedscope   for speedscope
//!   table        the hottest functions, for a terminal
//!   format       one of those, or of another crate, by the ending of a path
//!   file         a file that holds the latest profile, or each
//! ```
//!
//! Pictures are drawn from a [`Tree`](crate::profile::Tree).

mod file;
pub mod firefox;
pub mod folded;
mod format;
mod function;
mod html;
mod json;
mod palette;
pub mod speedscope;
mod svg;
mod table;

use std::error::Error;
use std::time::Instant;

use crate::profile::Profile;
use crate::text::{Number, clean};

pub use file::{File, WriteError};
pub use format::Format;
pub use html::Html;
pub use svg::Svg;
pub use table::Table;

/// Error of a sink; the profiler counts it and continues.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// Takes finished profiles. A closure works too.
///
/// Profiles are cheap to clone, so a sink can send one through a channel:
/// `sender.send(profile.clone())`.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{profile::Profile, sink::Sink};
///
/// fn takes(sink: impl Sink) {}
/// takes(|profile: &Profile| {
///     for sample in profile.samples() {
///         println!("{:>6} {}", sample.count(), sample.trace().leaf());
///     }
///     Ok(())
/// });
/// ```
pub trait Sink: Send {
    /// Takes one profile.
    ///
    /// # Errors
    ///
    /// Fails if the profile cannot be taken. It is not offered again.
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError>;

    /// Delivers what the sink still holds. Called once, at the end, by the default
    /// [`flush_until`](Sink::flush_until).
    ///
    /// # Errors
    ///
    /// Fails if it cannot be delivered.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Flushes as [`flush`](Sink::flush) does, and returns by `deadline`; a profiler calls this.
    /// Unless it is implemented it calls `flush`. What cannot be delivered in time is dropped
    /// and counted by the sink; a profiler does not wait for a sink beyond the deadline.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be delivered.
    fn flush_until(&mut self, deadline: Instant) -> Result<(), SinkError> {
        let _ = deadline;
        self.flush()
    }
}

impl<F> Sink for F
where
    F: FnMut(&Profile) -> Result<(), SinkError> + Send,
{
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        self(profile)
    }
}

/// Returns the default title of a flame graph.
fn title(profile: &Profile) -> String {
    match profile.processes() {
        [] => "nothing".into(),
        [process] => match process.executable.rsplit('/').next() {
            Some(name) if !name.is_empty() => clean(name).into_owned(),
            _ => format!("process {}", process.pid),
        },
        processes => format!("{} processes", Number(processes.len() as u64)),
    }
}
