//! Further handles of a running profiler.

use std::fmt;

use super::control::{Changed, Changes, Settings};
use super::health::Health;
use super::options;
use super::threads::{Change, Command, Remote};
use crate::live::error::{ChangeError, OptionError, StopError};
use crate::live::trigger::filter::Filter;
use crate::process::Pids;
use crate::profile::Profile;
use crate::replay::Recorder;

/// A handle by which other threads control a running [`Profiler`](crate::live::Profiler), from
/// [`Profiler::handle`](crate::live::Profiler::handle).
///
/// Clones control the same profiler. A handle doesn't keep it running: once it has ended, the
/// calls fail with [`StopError::Ended`], and [`health`](Handle::health) and
/// [`settings`](Handle::settings) return what was last.
///
/// # Examples
///
/// A run that another thread ends before its time:
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::Profiler;
/// use std::{thread, time::Duration};
///
/// let profiler = Profiler::builder().unwind(ebpf_profiler_unwind::tables()).start()?;
/// let handle = profiler.handle();
/// thread::spawn(move || {
///     let _ = std::io::stdin().read_line(&mut String::new());
///     handle.stop()
/// });
/// let profile = profiler.run_for(Duration::from_secs(60))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    remote: Remote,
    recorder: Option<Recorder>,
    includes_self: bool,
}

impl Handle {
    pub(super) fn new(remote: Remote, recorder: Option<Recorder>, includes_self: bool) -> Handle {
        Handle { remote, recorder, includes_self }
    }

    /// Takes the samples collected since the start or since the last profile, as
    /// [`Profiler::take_profile`](crate::live::Profiler::take_profile) does.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed, with [`StopError::Ended`] after
    /// the end, and with [`StopError::NotReady`] after
    /// [`Builder::reply_deadline`](crate::live::Builder::reply_deadline).
    pub fn take_profile(&self) -> Result<Profile, StopError> {
        self.remote.take(Command::TakeProfile)
    }

    /// Applies changes, as [`Profiler::reconfigure`](crate::live::Profiler::reconfigure) does.
    ///
    /// # Errors
    ///
    /// Fails with [`ChangeError::Option`] if a new value is invalid; the profiler is unchanged
    /// then. Fails with [`ChangeError::Stop`] as [`take_profile`](Handle::take_profile) does.
    pub fn reconfigure(&self, changes: &Changes) -> Result<Changed, ChangeError> {
        let mut skipped = Vec::new();
        if let Some(hertz) = changes.hertz {
            options::check_frequency(hertz)?;
        }
        let pids = match &changes.pids {
            Some(pids) => Some(options::running_pids(pids, self.includes_self, &mut skipped)?),
            None => None,
        };
        let compile = |filter: &Filter| Ok((filter.compile()?, filter.clone()));
        let filter = changes.filter.as_ref().map(compile).transpose().map_err(OptionError::Filter)?;
        let change = Change { frequency: changes.hertz, pids, filter, is_paused: changes.is_paused };
        Ok(Changed { profile: self.remote.change(change)?, skipped })
    }

    /// Returns what is set.
    pub fn settings(&self) -> Settings {
        self.remote.settings()
    }

    /// Returns the counters, as [`Profiler::health`](crate::live::Profiler::health) does.
    pub fn health(&self) -> Health {
        let recording = self.recorder.as_ref().map(Recorder::stats);
        let remote = &self.remote;
        let health = remote.state().health(recording, remote.reservation(), remote.enrichment());
        Health { broker: remote.broker(), ..health }
    }

    /// Returns `true` while samples can still come, as
    /// [`Profiler::is_running`](crate::live::Profiler::is_running) does.
    pub fn is_running(&self) -> bool {
        self.remote.is_running()
    }

    /// Stops the profiler, flushes the sinks, and returns the counters.
    ///
    /// A [`run_for`](crate::live::Profiler::run_for) or [`finish`](crate::live::Profiler::finish) of the
    /// profiler returns the last profile then. Further calls do nothing. In a thread of the
    /// profiler itself, such as a sink's, it doesn't wait for the end.
    ///
    /// # Errors
    ///
    /// Fails with [`StopError::Broken`] if the event stream failed. A panic is an error of the
    /// profiler's own [`stop`](crate::live::Profiler::stop) or [`finish`](crate::live::Profiler::finish).
    pub fn stop(&self) -> Result<Health, StopError> {
        self.remote.stop()?;
        Ok(self.health())
    }

    pub(super) fn set_pids(&self, pids: Pids) -> Result<Changed, ChangeError> {
        self.reconfigure(&Changes::new().pids(pids))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("settings", &self.settings()).finish_non_exhaustive()
    }
}
