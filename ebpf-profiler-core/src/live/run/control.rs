//! Settings of a running profiler, and changes of them.

use std::time::Duration;

use super::budget::Budget;
use crate::live::error::OptionError;
use crate::live::trigger::Trigger;
use crate::live::trigger::filter::Filter;
use crate::process::Pids;
use crate::profile::Profile;

/// Changes of a running profiler, for [`Profiler::reconfigure`](crate::live::Profiler::reconfigure). What
/// is not mentioned stays as it is.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::{Changes, Filter, Pids}};
///
/// let builder = Profiler::builder().unwind(ebpf_profiler_unwind::tables());
/// let profiler = builder.pids(Pids::none()).start()?;
/// // Later, when there is something to profile:
/// let changes = Changes::new().pids([4711, 4712]).frequency(97).filter(Filter::new().user_code());
/// let changed = profiler.reconfigure(&changes)?;
/// for skipped in &changed.skipped {
///     eprintln!("{skipped}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "changes nothing before `reconfigure`"]
pub struct Changes {
    pub(super) hertz: Option<u32>,
    pub(super) pids: Option<Pids>,
    pub(super) filter: Option<Filter>,
    pub(super) is_paused: Option<bool>,
}

impl Changes {
    /// Returns no changes.
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Changes the frequency to `hertz` samples per second and CPU, from 1 to 10,000.
    pub fn frequency(self, hertz: u32) -> Changes {
        Changes { hertz: Some(hertz), ..self }
    }

    /// Changes the processes that are sampled, with what they fork from now on.
    pub fn pids(self, pids: impl Into<Pids>) -> Changes {
        Changes { pids: Some(pids.into()), ..self }
    }

    /// Changes the conditions of samples.
    pub fn filter(self, filter: Filter) -> Changes {
        Changes { filter: Some(filter), ..self }
    }

    /// Stops sampling until [`resume`](Changes::resume).
    pub fn pause(self) -> Changes {
        Changes { is_paused: Some(true), ..self }
    }

    /// Samples again after [`pause`](Changes::pause).
    pub fn resume(self) -> Changes {
        Changes { is_paused: Some(false), ..self }
    }
}

/// The outcome of a change of a running profiler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Changed {
    /// The profile that ended with the former settings. The sinks get it too.
    pub profile: Profile,
    /// The ids that were skipped, each with the reason: [`OptionError::NoProcess`] for a process
    /// that has exited, [`OptionError::Thread`] for a thread.
    pub skipped: Vec<OptionError>,
}

/// Settings of a running profiler: what its [`Builder`](crate::live::Builder) set, and later changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Samples per second and CPU. Under a [`Budget`] fewer may be taken:
    /// [`Health::budget`](crate::live::Health::budget).
    pub frequency: u32,
    /// The processes that were set, whether they still run or not. Their descendants are sampled,
    /// too.
    pub pids: Pids,
    /// Conditions of samples.
    pub filter: Filter,
    /// `true` between [`pause`](crate::live::Profiler::pause) and [`resume`](crate::live::Profiler::resume).
    pub is_paused: bool,
    /// The events that are sampled.
    pub triggers: Vec<Trigger>,
    /// Interval between the profiles for the sinks.
    pub interval: Option<Duration>,
    /// Limit of the cost.
    pub budget: Option<Budget>,
    /// Longest time that the end takes.
    pub deadline: Duration,
    /// Longest time that a call waits for its profile.
    pub reply_deadline: Duration,
}

impl Settings {
    #[cfg(test)]
    pub(super) fn of_test() -> Settings {
        Settings {
            frequency: 100,
            pids: Pids::All,
            filter: Filter::new(),
            is_paused: false,
            triggers: Vec::new(),
            interval: None,
            budget: None,
            deadline: Duration::from_secs(60),
            reply_deadline: Duration::from_secs(60),
        }
    }

    /// Returns the time between two samples of a CPU.
    pub(super) fn period(&self) -> Duration {
        super::options::period(self.frequency)
    }
}
