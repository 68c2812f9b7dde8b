//! The handle of a running profiler.

use std::fmt;
use std::time::Duration;

use super::builder::Builder;
use super::control::{Changed, Changes, Settings};
use super::handle::Handle;
use super::health::Health;
use super::threads::Threads;
use crate::label::Recording;
use crate::live::error::{ChangeError, StopError};
use crate::live::trigger::OwnPrograms;
use crate::live::trigger::filter::Filter;
use crate::process::Pids;
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
/// | [`reconfigure`](Profiler::reconfigure), [`set_frequency`](Profiler::set_frequency), [`set_pids`](Profiler::set_pids), [`set_filter`](Profiler::set_filter) | yes | yes | yes | changed |
/// | [`pause`](Profiler::pause) | yes | yes | yes | after [`resume`](Profiler::resume) |
/// | [`run_for`](Profiler::run_for), [`finish`](Profiler::finish) | yes | yes | yes | no |
/// | [`stop`](Profiler::stop), drop | yes | | yes | no |
///
/// # Deadline
///
/// `finish`, `stop` and drop return after [`Builder::deadline`] at the latest, 5 s by default. Work that is not
/// done by then is dropped and counted in [`Health::deadline`] and [`Health::sinks`]. Calls that return the profile of a
/// profiler that goes on wait for it at most for [`Builder::reply_deadline`], 60 s by default.
///
/// # Threads
///
/// All methods but those that end it take `&self`, so a profiler can be shared. [`Profiler::handle`] returns a handle
/// for threads that outlive it.
///
/// # Minimum kernel version
///
/// 5.10, with type information (`/sys/kernel/btf/vmlinux`).
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
    handle: Handle,
    /// Labels of this program, if it is included.
    _labels: Option<Recording>,
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
        let handle = Handle::new(threads.remote().clone(), recorder, labels.is_some());
        Profiler { threads, handle, _labels: labels, own }
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
        self.threads.remote().wait(duration);
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

    /// Returns a handle for other threads, which can be cloned.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Takes the samples collected since the start or since the last profile.
    ///
    /// The sinks get this profile too, so that the profiles of a sink together hold all samples. The next profile
    /// begins here. Blocks until the profile is symbolized, at most for [`Builder::reply_deadline`].
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed, with [`StopError::Ended`] if a [`Handle`] stopped the
    /// profiler, and with [`StopError::NotReady`] at the deadline.
    pub fn take_profile(&self) -> Result<Profile, StopError> {
        self.handle.take_profile()
    }

    /// Applies changes, all of them or none.
    ///
    /// Ends the current profile once, so that each profile has one period, and returns it. The sinks get it too. Of
    /// the processes those that have exited are skipped: [`Changed::skipped`]. [`settings`](Profiler::settings)
    /// returns what applies.
    ///
    /// # Errors
    ///
    /// Fails with [`ChangeError::Option`] if a frequency is not from 1 to 10,000, a filter cannot be applied, or the processes
    /// contain this program and it is not [included](Builder::include_self); the profiler is unchanged then. Fails with
    /// [`ChangeError::Stop`] as [`take_profile`](Profiler::take_profile) does; after [`StopError::NotReady`] the changes
    /// still apply once the profiler gets to them.
    pub fn reconfigure(&self, changes: &Changes) -> Result<Changed, ChangeError> {
        self.handle.reconfigure(changes)
    }

    /// Changes the frequency to `hertz` samples per second and CPU. Returns the profile that ends.
    ///
    /// # Errors
    ///
    /// Fails as [`reconfigure`](Profiler::reconfigure) does.
    pub fn set_frequency(&self, hertz: u32) -> Result<Profile, ChangeError> {
        self.change(&Changes::new().frequency(hertz))
    }

    /// Changes the processes that are sampled, with what they fork from now on. An empty set samples nobody,
    /// [`Pids::All`] everybody.
    ///
    /// Returns the profile that ends, and the ids of processes that have exited, which are skipped.
    ///
    /// # Errors
    ///
    /// Fails as [`reconfigure`](Profiler::reconfigure) does.
    pub fn set_pids(&self, pids: impl Into<Pids>) -> Result<Changed, ChangeError> {
        self.handle.set_pids(pids.into())
    }

    /// Changes the conditions of samples to those of `filter`. Returns the profile that ends.
    ///
    /// # Errors
    ///
    /// Fails as [`reconfigure`](Profiler::reconfigure) does.
    pub fn set_filter(&self, filter: &Filter) -> Result<Profile, ChangeError> {
        self.change(&Changes::new().filter(filter.clone()))
    }

    /// Stops sampling until [`resume`](Profiler::resume). Returns the profile that ends.
    ///
    /// Processes and their mappings are still followed, and intervals finish no profile.
    ///
    /// # Errors
    ///
    /// Fails as [`reconfigure`](Profiler::reconfigure) does.
    pub fn pause(&self) -> Result<Profile, ChangeError> {
        self.change(&Changes::new().pause())
    }

    /// Samples again after [`pause`](Profiler::pause). The next profile begins here.
    ///
    /// # Errors
    ///
    /// Fails as [`reconfigure`](Profiler::reconfigure) does.
    pub fn resume(&self) -> Result<(), ChangeError> {
        self.change(&Changes::new().resume()).map(drop)
    }

    fn change(&self, changes: &Changes) -> Result<Profile, ChangeError> {
        self.reconfigure(changes).map(|changed| changed.profile)
    }

    /// Returns what is set, after all changes up to now.
    pub fn settings(&self) -> Settings {
        self.handle.settings()
    }

    /// Returns the counters: those of the kernel side are at most 250 ms old, those of the pipeline as of the last finished
    /// profile.
    pub fn health(&self) -> Health {
        self.handle.health()
    }

    /// Returns `true` while samples can still come.
    ///
    /// Returns `false` once the event stream has failed, a [`Handle`] has stopped the profiler, or all processes that
    /// were set and their descendants have exited; an empty set waits for a change.
    /// [`finish`](Profiler::finish) or [`stop`](Profiler::stop) is the next call then.
    pub fn is_running(&self) -> bool {
        self.handle.is_running()
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
