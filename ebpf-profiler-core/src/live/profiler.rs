//! The handle of a running profiler.

use std::fmt;
use std::time::Duration;

use super::builder::Builder;
use super::error::{ChangeError, OptionError, StopError};
use super::filter::Filter;
use super::health::Health;
use super::options;
use super::threads::{Change, Command, Threads};
use super::trigger::OwnPrograms;
use crate::label::Recording;
use crate::profile::Profile;
use crate::replay::Recorder;

/// A profiler of the running machine.
///
/// It runs in its own threads from [`Builder::start`] on, until it is stopped or dropped. Every profile that it
/// finishes reaches every sink:
///
/// | call | ends the profile | returns it | sinks get it | sampling goes on |
/// | --- | --- | --- | --- | --- |
/// | ([`Builder::every`]) | yes | | yes | yes |
/// | [`take_profile`](Profiler::take_profile) | yes | yes | yes | yes |
/// | [`set_frequency`](Profiler::set_frequency), [`set_pids`](Profiler::set_pids), [`set_filter`](Profiler::set_filter) | yes | yes | yes | changed |
/// | [`pause`](Profiler::pause) | yes | yes | yes | after [`resume`](Profiler::resume) |
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
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, profile::Profile};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .unwind(ebpf_profiler_unwind::tables())
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
    /// Labels of this program, if it is included.
    labels: Option<Recording>,
    own: OwnPrograms,
}

impl Profiler {
    /// Returns a builder with the defaults: the whole machine without this program, 19 samples per second and CPU.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) fn new(
        threads: Threads,
        recorder: Option<Recorder>,
        labels: Option<Recording>,
        own: OwnPrograms,
    ) -> Profiler {
        Profiler { threads, recorder, labels, own }
    }

    /// Returns the maps by which eBPF programs of the embedder's own trigger samples.
    pub fn own_programs(&self) -> &OwnPrograms {
        &self.own
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
    /// The clocks are stopped first, so that every sample taken is in the profile or counted. Frames that are not
    /// symbolized at the deadline have no names; [`Health::deadline`] counts them.
    ///
    /// The calling thread has a niceness of -10 meanwhile if that is permitted, and a part of the
    /// [reservation](Builder::reserve) if there is one.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed, with [`StopError::Deadline`] if samples were still
    /// being unwound at the deadline, and with [`StopError::Panicked`] if a thread of the profiler panicked.
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

    /// Changes the frequency to `hertz` samples per second and CPU.
    ///
    /// Ends the current profile, so that each profile has one period. Returns that profile, which the sinks get too.
    ///
    /// # Errors
    ///
    /// Fails if `hertz` is not from 1 to 10,000; the profiler is unchanged then. Fails with [`ChangeError::Stop`] if the
    /// event stream failed.
    pub fn set_frequency(&self, hertz: u32) -> Result<Profile, ChangeError> {
        options::check_frequency(hertz)?;
        self.change(Change::Period(options::period(hertz)))
    }

    /// Changes the processes that are sampled to `pids` and the processes that they fork from now on; to all if `pids`
    /// is empty.
    ///
    /// Ends the current profile and returns it. The sinks get it too.
    ///
    /// # Errors
    ///
    /// Fails if one of `pids` is no running process, or is this program and it is not
    /// [included](Builder::include_self); the profiler is unchanged then. Fails with [`ChangeError::Stop`] if the
    /// event stream failed.
    pub fn set_pids(&self, pids: &[u32]) -> Result<Profile, ChangeError> {
        options::check_changed_pids(pids, self.labels.is_some())?;
        self.change(Change::Pids(pids.to_vec()))
    }

    /// Changes the conditions of samples to those of `filter`.
    ///
    /// Ends the current profile and returns it. The sinks get it too.
    ///
    /// # Errors
    ///
    /// Fails if the filter cannot be applied; the profiler is unchanged then. Fails with [`ChangeError::Stop`] if the event
    /// stream failed.
    pub fn set_filter(&self, filter: &Filter) -> Result<Profile, ChangeError> {
        self.change(Change::Filter(filter.compile().map_err(OptionError::Filter)?))
    }

    /// Stops sampling until [`resume`](Profiler::resume).
    ///
    /// Ends the current profile and returns it. The sinks get it too. Processes and their mappings are still followed, and
    /// intervals finish no profile.
    ///
    /// # Errors
    ///
    /// Fails with [`ChangeError::Stop`] if the event stream failed.
    pub fn pause(&self) -> Result<Profile, ChangeError> {
        self.change(Change::Pause)
    }

    /// Samples again after [`pause`](Profiler::pause). The next profile begins here.
    ///
    /// # Errors
    ///
    /// Fails with [`ChangeError::Stop`] if the event stream failed.
    pub fn resume(&self) -> Result<(), ChangeError> {
        self.change(Change::Resume).map(drop)
    }

    fn change(&self, change: Change) -> Result<Profile, ChangeError> {
        self.threads.change(change)
    }

    /// Returns the counters: those of the kernel side are at most 250 ms old, those of the pipeline as of the last finished
    /// profile.
    pub fn health(&self) -> Health {
        let recording = self.recorder.as_ref().map(Recorder::stats);
        self.threads.state().health(recording, self.threads.reservation())
    }

    /// Returns `true` while samples can still come.
    ///
    /// Returns `false` once the event stream has failed, or all processes of [`Builder::pid`] and their descendants have
    /// exited. [`finish`](Profiler::finish) or [`stop`](Profiler::stop) is the next call then.
    pub fn is_running(&self) -> bool {
        self.threads.is_running()
    }

    /// Stops, flushes the sinks, and returns the counters. The calling thread's priority is that of
    /// [`finish`](Profiler::finish).
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
