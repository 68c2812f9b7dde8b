//! Removes stacks of processes that were not asked for.
//!
//! The head of such a sample is kept, without the thread's name: the pipeline drops ended processes
//! by the time of the latest event, and a replay must do so at the same event.

use std::borrow::Cow;

use ebpf_programs::abi::record::{HEAD_WORDS, kind};
use hashbrown::HashMap;

use crate::process::Pids;
use crate::sample::{Batch, Life, LifeEvent};

/// The processes that were asked for and their descendants: at least those that the pipeline
/// profiles.
#[derive(Debug)]
pub(super) struct ProcessFilter {
    /// Process ids with the time of their exit; `None` if all processes are recorded.
    pids: Option<HashMap<u32, Option<u64>>>,
}

/// Number of processes beyond which exited ones are removed.
const MIN_PURGE_COUNT: usize = 4096;

/// Time that a process is kept after its exit, in nanoseconds: longer than in the pipeline.
const KEEP_TIME: u64 = 60_000_000_000;

impl ProcessFilter {
    pub(super) fn new(pids: &Pids) -> ProcessFilter {
        ProcessFilter { pids: pids.only().map(|pids| pids.iter().map(|&pid| (pid, None)).collect()) }
    }

    /// Applies the life events of a batch.
    pub(super) fn follow(&mut self, batch: &Batch) {
        let Some(pids) = &mut self.pids else { return };
        let mut life: Vec<&LifeEvent> = batch.life().iter().collect();
        life.sort_by_key(|event| event.time);
        let latest = life.last().map_or(0, |event| event.time);
        for event in life {
            match event.life {
                Life::Forked { parent } if pids.contains_key(&parent) => {
                    pids.insert(event.pid, None);
                }
                Life::Exited => {
                    pids.entry(event.pid).and_modify(|ended| *ended = Some(event.time));
                }
                _ => {}
            }
        }
        if pids.len() > MIN_PURGE_COUNT {
            pids.retain(|_, ended| ended.is_none_or(|ended| latest.saturating_sub(ended) < KEEP_TIME));
        }
    }

    /// Returns the words of a sample that are recorded.
    pub(super) fn cut<'w>(&self, words: &'w [u64]) -> Cow<'w, [u64]> {
        let Some(pids) = &self.pids else { return words.into() };
        match words.get(..HEAD_WORDS) {
            // It names no code.
            Some(head) if (head[2] >> 32) as u8 == kind::END => words.into(),
            Some(head) if !pids.contains_key(&(head[1] as u32)) => anonymous(head).into(),
            _ => words.into(),
        }
    }
}

/// Returns a sample without frames, of a thread without name.
fn anonymous(head: &[u64]) -> Vec<u64> {
    const CPU: u64 = 0xffff_ffff;
    let kinds = u64::from(kind::WALKED) << 32 | (HEAD_WORDS as u64) << 56;
    // The kind of the sample and its value stay.
    vec![head[0], head[1], head[2] & CPU | kinds, 0, head[4] & 0xffff_0000, 0, 0, head[7], 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::TickRecord;
    use crate::testing::FakeTick;

    fn follow(filter: &mut ProcessFilter, life: &[(u64, u32, Life)]) -> Vec<u32> {
        let mut batch = Batch::default();
        for (time, pid, life) in life {
            batch.push_life(LifeEvent { time: *time, pid: *pid, life: life.clone() });
        }
        filter.follow(&batch);
        (1..20).filter(|&pid| is_whole(filter, pid)).collect()
    }

    /// Returns `true` if a sample of the process is recorded unchanged.
    fn is_whole(filter: &ProcessFilter, pid: u32) -> bool {
        let mut batch = Batch::default();
        batch.push_tick(&FakeTick::walked(3, pid, "secret", &[1, 2]).kernel(&[3]).bytes());
        let words = batch.ticks().next().unwrap();
        let cut = filter.cut(words);
        let tick = TickRecord::decode(&cut).unwrap();
        assert_eq!((tick.time, tick.pid), (3, pid));
        assert!(
            *cut == *words || (tick.kernel.is_empty() && tick.comm == [0; 16] && cut.len() == HEAD_WORDS)
        );
        *cut == *words
    }

    #[test]
    fn keeps_descendants_until_60_s_after_their_exit() {
        let mut filter = ProcessFilter::new(&Pids::from([5]));
        let forked = |parent| Life::Forked { parent };
        // Not sorted by time; 9 is the child of another process.
        let life = [(3, 7, forked(6)), (2, 6, forked(5)), (2, 9, forked(8)), (4, 6, Life::Exited)];
        assert_eq!(follow(&mut filter, &life), [5, 6, 7]);
        let many: Vec<_> = (100..100 + MIN_PURGE_COUNT as u32).map(|pid| (5, pid, forked(5))).collect();
        assert_eq!(follow(&mut filter, &many), [5, 6, 7]);
        assert_eq!(follow(&mut filter, &[(KEEP_TIME + 5, 7, Life::Exited)]), [5, 7]);
    }

    #[test]
    fn keeps_all_processes_without_a_filter() {
        assert_eq!(follow(&mut ProcessFilter::new(&Pids::All), &[(1, 6, Life::Exited)]).len(), 19);
        assert_eq!(follow(&mut ProcessFilter::new(&Pids::none()), &[(1, 6, Life::Exited)]).len(), 0);
    }
}
