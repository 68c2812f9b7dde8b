//! Descriptions of processes, read as soon as their samples arrive.
//!
//! A container may live for 50 ms, and the pipeline thread may be behind for longer. The drain thread
//! is woken by the first sample of an unknown process and has priority, so it reads what `/proc` says
//! of processes with samples, and sends it with the batch.

use hashbrown::HashSet;

use crate::process::Description;
use crate::sample::{Batch, Life};

/// Maximum number of processes that are remembered as described.
const MAX_KNOWN: usize = 65_536;

/// Maximum number of descriptions that are read after one look at the kernel's buffers: some 3 ms.
const MAX_READ: usize = 64;

/// Reads the description of a process, without what needs its memory.
pub(in super::super) type Describe = fn(u32) -> Description;

/// Reads the descriptions of processes with samples, once for each program that they execute.
pub(super) struct EarlyDescriptions {
    describe: Describe,
    known: HashSet<u32>,
    /// Number of life events and of samples of the batch that were looked at.
    seen: (usize, usize),
}

impl EarlyDescriptions {
    pub(super) fn new(describe: Describe) -> EarlyDescriptions {
        EarlyDescriptions { describe, known: HashSet::new(), seen: (0, 0) }
    }

    /// Adds the descriptions of processes whose first samples the batch has.
    pub(super) fn add(&mut self, batch: &mut Batch) {
        for event in batch.life().get(self.seen.0..).unwrap_or_default() {
            if matches!(event.life, Life::Executed | Life::Exited | Life::Forked { .. }) {
                self.known.remove(&event.pid);
            }
        }
        let (known, mut last) = (&mut self.known, None);
        // Most samples of a CPU are of the process of the one before.
        let is_next = |pid: &u32| last.replace(*pid) != Some(*pid);
        let mut pids: Vec<u32> =
            batch.pids().skip(self.seen.1).filter(is_next).filter(|pid| known.insert(*pid)).collect();
        self.resume(batch);
        // The pipeline thread describes the others.
        pids.truncate(MAX_READ);
        for pid in pids {
            let description = (self.describe)(pid);
            if description != Description::default() {
                batch.push_description(pid, description);
            }
        }
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
    }

    /// Continues with a batch whose events were looked at.
    pub(super) fn resume(&mut self, batch: &Batch) {
        self.seen = (batch.life().len(), batch.ticks().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::LifeEvent;
    use crate::testing::FakeTick;

    fn describe(pid: u32) -> Description {
        match pid {
            9 => Description::default(),
            _ => Description { created: pid.into(), ..Description::default() },
        }
    }

    fn described(early: &mut EarlyDescriptions, batch: &mut Batch) -> Vec<u32> {
        early.add(batch);
        (0..100).filter(|&pid| batch.take_description(pid).is_some()).collect()
    }

    fn push(batch: &mut Batch, pid: u32) {
        batch.push_tick(&FakeTick::walked(1, pid, "cat", &[]).bytes());
    }

    #[test]
    fn processes_are_described_once_for_each_program() {
        let (mut early, mut batch) = (EarlyDescriptions::new(describe), Batch::default());
        [7, 8, 7, 9].iter().for_each(|&pid| push(&mut batch, pid));
        assert_eq!(described(&mut early, &mut batch), [7, 8]);
        push(&mut batch, 7);
        assert_eq!(described(&mut early, &mut batch), []);
        batch.push_life(LifeEvent { time: 1, pid: 7, life: Life::Executed });
        push(&mut batch, 7);
        assert_eq!(described(&mut early, &mut batch), [7]);
        // An event that was looked at is none of the next sample.
        push(&mut batch, 7);
        assert_eq!(described(&mut early, &mut batch), []);
        let mut next = Batch::default();
        early.resume(&next);
        push(&mut next, 7);
        next.push_life(LifeEvent { time: 2, pid: 8, life: Life::Exited });
        push(&mut next, 8);
        assert_eq!(described(&mut early, &mut next), [8]);
    }

    #[test]
    fn number_of_reads_is_bounded() {
        let (mut early, mut batch) = (EarlyDescriptions::new(describe), Batch::default());
        (10..1_000).for_each(|pid| push(&mut batch, pid));
        early.add(&mut batch);
        assert_eq!((10..1_000).filter(|&pid| batch.take_description(pid).is_some()).count(), MAX_READ);
    }
}
