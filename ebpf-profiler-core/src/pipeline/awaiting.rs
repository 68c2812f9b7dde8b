//! Raw samples that wait for a table which another thread compiles.

use super::Pipeline;
use super::owned::OwnedTick;
use crate::sample::{Life, LifeEvent, TickRecord};

/// Maximum memory of these samples, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Time that a sample waits at most, in nanoseconds.
const MAX_WAIT: u64 = 5_000_000_000;

/// Raw samples that wait for a table, in the order of time.
#[derive(Default)]
pub(super) struct Awaiting {
    ticks: Vec<OwnedTick>,
    bytes: usize,
    /// No sample waits: there is no later chance.
    is_shut: bool,
}

impl Awaiting {
    /// Keeps a sample. Returns `false` if there is no room.
    fn add(&mut self, tick: &TickRecord<'_>) -> bool {
        if self.is_shut || self.bytes >= MAX_BYTES {
            return false;
        }
        let Some(tick) = OwnedTick::of(tick) else { return false };
        self.bytes += tick.size();
        self.ticks.push(tick);
        true
    }

    /// Takes the samples for which `is_it` returns `true`.
    fn take(&mut self, mut is_it: impl FnMut(&OwnedTick) -> bool) -> Vec<OwnedTick> {
        let taken: Vec<OwnedTick> = self.ticks.extract_if(.., |tick| is_it(tick)).collect();
        self.bytes -= taken.iter().map(OwnedTick::size).sum::<usize>();
        taken
    }
}

impl Pipeline {
    /// Keeps a raw sample that needs the table of the file at `address` if a thread compiles that.
    pub(super) fn await_table(&mut self, tick: &TickRecord<'_>, address: u64) -> bool {
        self.registry.is_building(tick.pid, address) && self.awaiting.add(tick)
    }

    /// Unwinds the samples whose tables may be there now, and those that have waited for too long.
    pub(super) fn take_awaiting(&mut self) {
        if self.registry.take_built(self.now) {
            let ticks = self.awaiting.take(|_| true);
            ticks.iter().for_each(|tick| self.tick(&tick.record()));
        }
        let now = self.now;
        self.unwind_awaiting(|tick| now.saturating_sub(tick.time()) > MAX_WAIT);
    }

    /// Unwinds the samples of a process as far as that is possible, before another program, or another file at the same
    /// addresses, takes the place of its code.
    pub(super) fn end_awaiting(&mut self, event: &LifeEvent) {
        if self.awaiting.ticks.is_empty() {
            return;
        }
        let is_replaced = match &event.life {
            Life::Executed | Life::Forked { .. } => true,
            Life::Mapped(map) => self.registry.processes().overlaps(event.pid, map.start..map.end),
            _ => false,
        };
        if is_replaced {
            self.unwind_awaiting(|tick| tick.pid() == event.pid);
        }
    }

    /// Waits for the tables that samples need, as long as tables are built.
    #[cfg(feature = "live")]
    pub(crate) fn await_tables(&mut self) {
        while !self.awaiting.ticks.is_empty() && self.registry.await_built(self.now) {
            let ticks = self.awaiting.take(|_| true);
            ticks.iter().for_each(|tick| self.tick(&tick.record()));
        }
    }

    /// Unwinds samples with the tables that there are.
    pub(super) fn unwind_awaiting(&mut self, is_it: impl Fn(&OwnedTick) -> bool) {
        self.awaiting.is_shut = true;
        let ticks = self.awaiting.take(is_it);
        ticks.iter().for_each(|tick| self.tick(&tick.record()));
        self.awaiting.is_shut = false;
    }
}
