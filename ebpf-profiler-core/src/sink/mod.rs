//! Where finished profiles go.

use std::error::Error;

use crate::profile::Profile;

/// What a sink answers with when it can't take a profile; the pipeline reports it and goes on.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// Takes finished profiles. A closure works too.
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
}

impl<F> Sink for F
where
    F: FnMut(&Profile) -> Result<(), SinkError> + Send,
{
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        self(profile)
    }
}
