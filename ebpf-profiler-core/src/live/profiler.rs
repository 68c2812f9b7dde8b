//! The handle of a running profiler.

use std::fmt;
use std::time::Duration;

use super::builder::Builder;
use super::error::StopError;
use super::health::Health;
use super::threads::{Command, Threads};
use crate::profile::Profile;
use crate::replay::Recorder;

/// A profiler of the running machine.
///
/// It runs in threads of its own from [`Builder::start`] on, until it is stopped or dropped. Every profile that it
/// finishes reaches every sink:
///
/// | call | ends the profile | returns it | sinks get it | sampling goes on |
/// | --- | --- | --- | --- | --- |
/// | ([`Builder::every`]) | yes | | yes | yes |
/// | [`take_profile`](Profiler::take_profile) | yes | yes | yes | yes |
/// | [`run_for`](Profiler::run_for), [`finish`](Profiler::finish) | yes | yes | yes | no |
/// | [`stop`](Profiler::stop), drop | yes | | yes | no |
///
/// # Deadline
///
/// `finish`, `stop` and drop return after [`Builder::deadline`] at the latest, 5 s by default. Work that is not
/// done by then is dropped and counted in [`Health::deadline`] and [`Health::sinks`].
///
/// # Minimum kernel version
///
/// 5.17, with type information (`/sys/kernel/btf/vmlinux`).
///
/// # Examples
///
/// A program that profiles the machine for as long as it runs:
///
/// ```no_run
/// use ebpf_profiler_core::{Profiler, profile::Profile};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .every(Duration::from_secs(5))
///     .sink(|profile: &Profile| Ok(println!("{}", profile.summary())))
///     .start()?;
/// // The program does its work.
/// let health = profiler.stop()?;
/// println!("{} of {} samples lost", health.lost, health.ticks);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a profiler that is dropped stops"]
pub struct Profiler {
    threads: Threads,
    recorder: Option<Recorder>,
}

impl Profiler {
    /// Returns a builder with the defaults: the whole machine without this program, 19 samples per second and CPU.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) fn new(threads: Threads, recorder: Option<Recorder>) -> Profiler {
        Profiler { threads, recorder }
    }

    /// Profiles for `duration`, stops, and returns the profile.
    ///
    /// Returns earlier if [`is_running`](Profiler::is_running) becomes `false`. With [`Builder::every`] the profile
    /// begins at the last interval; the earlier ones went to the sinks.
    ///
    /// # Errors
    ///
    /// Fails as [`finish`](Profiler::finish) does.
    pub fn run_for(self, duration: Duration) -> Result<Profile, StopError> {
        self.threads.wait(duration);
        Ok(self.finish()?.0)
    }

    /// Stops, and returns the last profile and the counters.
    ///
    /// The clocks are stopped first, so that every sample taken is in the profile or counted.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed, with [`StopError::Deadline`] if the profile was
    /// not ready in time, and with [`StopError::Panicked`] if a thread of the profiler panicked.
    pub fn finish(mut self) -> Result<(Profile, Health), StopError> {
        let profile = self.threads.finish()?;
        Ok((profile, self.health()))
    }

    /// Takes the samples collected since the start or since the last profile.
    ///
    /// The sinks get this profile too, so that the profiles of a sink together hold all samples. The next profile
    /// begins here. Blocks until the profile is symbolized.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed.
    pub fn take_profile(&self) -> Result<Profile, StopError> {
        self.threads.take(Command::TakeProfile)
    }

    /// Returns the counters as of the last finished profile.
    pub fn health(&self) -> Health {
        Health::new(self.threads.state(), self.recorder.as_ref().map(Recorder::stats))
    }

    /// Returns `true` while samples can still come.
    ///
    /// Returns `false` once the event stream has failed, or all processes of [`Builder::pid`] and their descendants have
    /// exited. [`finish`](Profiler::finish) or [`stop`](Profiler::stop) is the next call then.
    pub fn is_running(&self) -> bool {
        self.threads.is_running()
    }

    /// Stops, flushes the sinks, and returns the counters.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed, and with [`StopError::Panicked`] if a thread of the
    /// profiler panicked.
    pub fn stop(mut self) -> Result<Health, StopError> {
        self.threads.stop()?;
        Ok(self.health())
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("health", &self.health()).finish_non_exhaustive()
    }
}
