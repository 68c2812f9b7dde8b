//! The ledger of losses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::text::Number;

/// Events that never became samples, by cause: all that is missing in a profile, or in all profiles
/// of a profiler.
///
/// Events that a filter or a budget leaves out are not lost.
///
/// # Examples
///
/// ```
/// # use std::time::{Duration, SystemTime};
/// # use ebpf_profiler_core::{profile::ProfileBuilder, symbol::NoSymbols};
/// let mut builder = ProfileBuilder::new(Duration::from_millis(50));
/// builder.record_loss("samples lost because the ring was full", 3);
/// # let profile = builder.finish(SystemTime::now(), Duration::from_secs(5), |_| None, &mut NoSymbols);
/// let losses: Vec<(&str, u64)> = profile.losses().collect();
/// assert_eq!(losses, [("samples lost because the ring was full", 3)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<Cow<'static, str>, u64>);

impl Losses {
    /// Cause of samples that waited when the [deadline](crate::live::Builder::deadline) passed.
    #[cfg(feature = "live")]
    pub(crate) const DEADLINE: &'static str = "not in a profile before the deadline";

    /// Returns the number of lost events.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the causes with their numbers of events, none of them 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.0.iter().map(|(cause, count)| (&**cause, *count))
    }

    /// Returns `true` if nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, cause: impl Into<Cow<'static, str>>, count: u64) {
        if count > 0 {
            let sum = self.0.entry(cause.into()).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    pub(crate) fn add_all(&mut self, other: &Losses) {
        other.0.iter().for_each(|(cause, count)| self.add(cause.clone(), *count));
    }
}

/// Displays the causes: `3 samples lost because the ring was full; 1 not in a profile before the
/// deadline`.
impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (cause, count)) in self.iter().enumerate() {
            write!(f, "{}{} {cause}", if index > 0 { "; " } else { "" }, Number(count))?;
        }
        Ok(())
    }
}
