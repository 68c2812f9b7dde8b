//! Where finished profiles go.
//!
//! ```text
//!   html     an interactive flame graph in one file
//!   svg      a flame graph that stands still, for documents
//!   folded   one line a stack, for other tools
//!   table    the hottest functions, for a terminal
//!   file     any of the first three, by the ending of a path
//! ```
//!
//! Pictures are drawn from a [`Tree`](crate::profile::Tree).

mod file;
pub mod folded;
mod html;
mod palette;
mod svg;
mod table;

use std::error::Error;
use std::time::Instant;

use crate::profile::Profile;
use crate::text::{Number, clean};

pub use file::{File, Format, WriteError};
pub use html::Html;
pub use svg::Svg;
pub use table::Table;

/// What a sink answers with when it can't take a profile; the pipeline reports it and goes on.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// Takes finished profiles. A closure works too.
///
/// Profiles are cheap to clone, so a sink can send one through a channel: `sender.send(profile.clone())`.
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
    /// When it can't be taken; it is not offered again.
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError>;

    /// Brings what is still held where it belongs; called once, at the end.
    ///
    /// # Errors
    ///
    /// When that can't be done.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Flushes as [`flush`](Sink::flush) does, and returns by `deadline`; a profiler calls this. Unless it is implemented
    /// it calls `flush`. What cannot be delivered in time is dropped and counted by the sink; a profiler does not wait
    /// for a sink beyond the deadline.
    ///
    /// # Errors
    ///
    /// When that can't be done.
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

/// What stands above a picture unless someone chose a title.
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
