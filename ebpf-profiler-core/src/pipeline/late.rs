//! Samples at the end of a profile, while time is short.
//!
//! ```text
//!   stopped ──► unwound by the kernel side: first      ──► deadline ──► rest: innermost function only
//!               raw: those of busy processes first
//! ```

use hashbrown::HashMap;

use super::Pipeline;
use crate::sample::{Body, TickRecord};
use crate::trace::{FrameWord, Stop};

/// Time that is left for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(feature = "live", test)),
    expect(dead_code, reason = "only a live profiler has a deadline")
)]
pub(crate) enum Urgency {
    /// Sampling goes on.
    None,
    /// Sampling has stopped.
    Ending,
    /// The deadline has passed.
    Over,
}

/// Raw samples that wait for all others.
#[derive(Default)]
pub(super) struct Postponed<'a> {
    ticks: Vec<TickRecord<'a>>,
    of_process: HashMap<u32, u32>,
}

impl<'a> Postponed<'a> {
    pub(super) fn add(&mut self, tick: TickRecord<'a>) {
        *self.of_process.entry(tick.pid).or_default() += 1;
        self.ticks.push(tick);
    }

    /// Returns the samples by process, those of the process with the most first, each in the order
    /// of time.
    pub(super) fn in_order(self) -> Vec<TickRecord<'a>> {
        let Postponed { mut ticks, of_process } = self;
        let count = |pid| of_process.get(&pid).copied().unwrap_or_default();
        ticks.sort_by_key(|tick| (std::cmp::Reverse(count(tick.pid)), tick.pid));
        ticks
    }
}

impl Pipeline {
    /// Returns `true` if a sample can be unwound after all others of its batch: its process is the
    /// same then.
    pub(super) fn can_wait(&self, tick: &TickRecord<'_>) -> bool {
        matches!(tick.body, Body::Raw { .. }) && !tick.is_held && !self.execs.concern(tick.pid)
    }

    /// Adds a sample without unwinding it: its kernel frames and its innermost function.
    pub(super) fn late(&mut self, tick: &TickRecord<'_>) {
        let leaf = match &tick.body {
            Body::Walked { leaf, .. } => leaf.first().copied(),
            Body::Raw { registers, .. } => Some(FrameWord::leaf(registers.pc).0),
            Body::End { .. } => return self.tick(tick),
        };
        self.now = self.now.max(tick.time);
        if !self.registry.passes_filter(tick.pid) {
            self.stats.unwanted += 1;
            return;
        }
        self.frames.clear();
        self.kernel_frames(tick.kernel);
        if tick.stop == Stop::NoUserStack {
            return self.add(tick, Stop::NoUserStack, None);
        }
        self.stats.late += 1;
        let leaf = leaf.filter(|word| FrameWord(*word).is_native());
        self.registry.frames_of_files(tick.pid, leaf.as_slice(), &mut self.frames);
        self.add(tick, Stop::Late, None);
    }
}
