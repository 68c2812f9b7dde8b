//! A profile before its frames are named.

use std::time::{Duration, SystemTime};

use hashbrown::HashMap;

use crate::process::{Module, ModuleId};
#[cfg(feature = "live")]
use crate::profile::{Losses, SamplingPeriod};
use crate::profile::{Profile, ProfileBuilder};
use crate::symbol::Symbolizer;

/// A finished profile whose frames have no names yet.
#[derive(Clone, Debug)]
#[must_use = "it becomes a profile by `symbolize`"]
pub struct PendingProfile {
    pub(super) builder: ProfileBuilder,
    pub(super) modules: HashMap<ModuleId, Module>,
    pub(super) start: SystemTime,
    pub(super) duration: Duration,
}

impl PendingProfile {
    /// Symbolizes all frames and returns the profile.
    pub fn symbolize(self, symbolizer: &mut dyn Symbolizer) -> Profile {
        let PendingProfile { builder, modules, start, duration } = self;
        builder.finish(start, duration, |id| modules.get(&id).cloned(), symbolizer)
    }

    /// Returns the number of samples.
    #[cfg(feature = "live")]
    pub(crate) fn count(&self) -> u64 {
        self.builder.count()
    }

    /// Sets start and end, for events that were recorded earlier.
    pub fn set_time(&mut self, start: SystemTime, end: SystemTime) {
        (self.start, self.duration) = (start, end.duration_since(start).unwrap_or_default());
    }

    /// Sets the boot id of the kernel that was sampled.
    #[cfg(feature = "live")]
    pub(crate) fn set_boot_id(&mut self, boot_id: Box<str>) {
        self.builder.set_boot_id(boot_id);
    }

    /// Sets the periods by which samples were taken.
    #[cfg(feature = "live")]
    pub(crate) fn set_sampling_periods(&mut self, periods: Vec<SamplingPeriod>) {
        self.builder.set_sampling_periods(periods);
    }

    /// Returns the samples that were lost up to now.
    #[cfg(feature = "live")]
    pub(crate) fn losses(&self) -> &Losses {
        self.builder.losses()
    }

    /// Counts samples that were lost.
    pub fn record_loss(&mut self, reason: &'static str, count: u64) {
        self.builder.record_loss(reason, count);
    }
}
