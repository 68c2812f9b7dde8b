//! Kinds of samples.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::text::{Bytes, Number, Seconds};

/// Unit of the values of a [`SampleKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unit {
    /// A number of events.
    #[default]
    Count,
    /// Time in nanoseconds.
    Nanoseconds,
    /// Memory or data in bytes.
    Bytes,
}

impl Unit {
    /// Returns the name of the unit: `count`, `nanoseconds` or `bytes`.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Nanoseconds => "nanoseconds",
            Unit::Bytes => "bytes",
        }
    }
}

/// A kind of samples: the name and unit of their values.
///
/// | kind | name | unit | value of an event |
/// | --- | --- | --- | --- |
/// | [`cpu`](SampleKind::cpu) | `cpu` | count | 1, which stands for a period of CPU time |
/// | [`off_cpu`](SampleKind::off_cpu) | `off-cpu` | nanoseconds | time that the thread did not run |
/// | [`new`](SampleKind::new) | any | any | as its trigger defines |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ebpf_profiler_core::profile::{SampleKind, Unit};
///
/// let kind = SampleKind::cpu(Duration::from_millis(10));
/// assert_eq!(kind.format(300), "300 samples");
/// assert_eq!(SampleKind::off_cpu().format(1_500_000_000), "1.5 s");
/// assert_eq!(SampleKind::new("page-faults", Unit::Count).format(2), "2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SampleKind {
    name: Cow<'static, str>,
    unit: Unit,
    period: Duration,
}

impl SampleKind {
    pub(super) const NONE: SampleKind =
        SampleKind { name: Cow::Borrowed("none"), unit: Unit::Count, period: Duration::ZERO };

    /// Returns the kind of samples of CPU time that are `period` apart on each CPU.
    pub fn cpu(period: Duration) -> SampleKind {
        SampleKind { name: Cow::Borrowed(CPU), unit: Unit::Count, period }
    }

    /// Returns the kind of CPU time whose values are times.
    pub(super) fn cpu_nanoseconds() -> SampleKind {
        SampleKind::new(CPU, Unit::Nanoseconds)
    }

    /// Returns the kind of samples of off-CPU time: time that threads did not run.
    pub fn off_cpu() -> SampleKind {
        SampleKind::new(OFF_CPU, Unit::Nanoseconds)
    }

    /// Returns a kind with a name and a unit.
    pub fn new(name: impl Into<Cow<'static, str>>, unit: Unit) -> SampleKind {
        SampleKind { name: name.into(), unit, period: Duration::ZERO }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the unit of values.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the CPU time that one sample stands for; zero for all kinds but CPU time.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns `true` for CPU time, whose samples are ticks of a clock.
    pub fn is_cpu(&self) -> bool {
        self.name == CPU && self.unit == Unit::Count
    }

    /// Returns `true` for CPU time in ticks or in nanoseconds.
    pub(super) fn is_cpu_time(&self) -> bool {
        self.name == CPU && matches!(self.unit, Unit::Count | Unit::Nanoseconds)
    }

    /// Returns `true` for off-CPU time.
    pub fn is_off_cpu(&self) -> bool {
        self.name == OFF_CPU && self.unit == Unit::Nanoseconds
    }

    /// Returns a value with its unit, for display.
    pub fn format(&self, value: u64) -> String {
        match self.unit {
            Unit::Count if self.is_cpu() => Number(value).of("sample"),
            Unit::Count => Number(value).to_string(),
            Unit::Nanoseconds => Seconds(value).to_string(),
            Unit::Bytes => Bytes(value).to_string(),
        }
    }

    /// Returns the time that a value stands for; `None` if the kind is no time.
    pub(crate) fn time(&self, value: u64) -> Option<Duration> {
        match self.unit {
            Unit::Nanoseconds => Some(Duration::from_nanos(value)),
            _ if self.is_cpu() => {
                let seconds = self.period.as_secs_f64() * value as f64;
                Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            }
            _ => None,
        }
    }

    /// Returns the kind with another period.
    pub(crate) fn with_period(&self, period: Duration) -> SampleKind {
        SampleKind { period, ..self.clone() }
    }
}

impl fmt::Display for SampleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

const CPU: &str = "cpu";
const OFF_CPU: &str = "off-cpu";
