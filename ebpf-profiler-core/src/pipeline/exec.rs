//! Samples within `execve`, after the old memory is gone.
//!
//! ```text
//!   old program ──┬── sample: registers of the old program, none of its memory ──┬── exec event ──► new program
//!                 └ the kernel frees the old memory, up to some milliseconds     ┘
//! ```
//!
//! Such a sample looks like one with an unreadable stack until the exec event is there. Where the
//! batch ends in between, the sample is held until the next one.

use hashbrown::{HashMap, HashSet};

use super::owned::OwnedTick;
use crate::sample::{Batch, Body, Life, TickRecord};
use crate::trace::Stop;

/// Time at most between such a sample and the exec event, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;

/// Samples that are held at most.
const MAX_HELD_SAMPLES: usize = 64;

/// The exec events of a batch, and the samples that wait for the next one.
#[derive(Default)]
pub(super) struct Execs {
    /// Time of the last exec of a process.
    times: HashMap<u32, u64>,
    /// Processes that begin, execute another program or end.
    changing: HashSet<u32>,
    held: Vec<OwnedTick>,
}

impl Execs {
    /// Reads the exec events of a batch.
    pub(super) fn read(&mut self, batch: &Batch) {
        self.times.clear();
        let is_other = |life: &Life| matches!(life, Life::Executed | Life::Exited | Life::Forked { .. });
        let changing = batch.life().iter().filter(|event| is_other(&event.life)).map(|event| event.pid);
        self.changing = changing.collect();
        for event in batch.life().iter().filter(|event| event.life == Life::Executed) {
            let time = self.times.entry(event.pid).or_default();
            *time = event.time.max(*time);
        }
    }

    /// Returns `true` if the process of a sample without readable stack executes another program
    /// right behind it.
    pub(super) fn is_before_exec(&self, tick: &TickRecord<'_>) -> bool {
        let is_soon = |&at: &u64| tick.time <= at && at - tick.time < WINDOW;
        has_no_memory(tick) && self.times.get(&tick.pid).is_some_and(is_soon)
    }

    /// Returns `true` if a process executes another program, or ends, in this batch.
    pub(super) fn concern(&self, pid: u32) -> bool {
        self.changing.contains(&pid)
    }

    /// Holds a sample that may be one before an exec of which the event is not there yet.
    pub(super) fn hold(&mut self, tick: &TickRecord<'_>) -> bool {
        let is_walked = matches!(tick.body, Body::Walked { .. });
        if !is_walked
            || !has_no_memory(tick)
            || self.is_before_exec(tick)
            || self.held.len() >= MAX_HELD_SAMPLES
        {
            return false;
        }
        self.held.extend(OwnedTick::of(tick));
        true
    }

    /// Takes the samples that were held.
    pub(super) fn take_held(&mut self) -> Vec<OwnedTick> {
        std::mem::take(&mut self.held)
    }
}

/// Returns `true` if the kernel interrupted itself in a thread of which nothing but the registers
/// could be read.
fn has_no_memory(tick: &TickRecord<'_>) -> bool {
    let nothing_read = match tick.body {
        Body::Walked { leaf, omitted, .. } => {
            leaf.len() <= 1 && omitted == 0 && matches!(tick.stop, Stop::Unreadable | Stop::Unmapped)
        }
        Body::Raw { stack, .. } => stack.is_empty(),
        Body::End { .. } => false,
    };
    nothing_read && !tick.kernel.is_empty()
}
