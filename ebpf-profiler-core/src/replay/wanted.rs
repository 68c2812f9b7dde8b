//! Which processes a recording is about, where it isn't about all: the stacks of others are nobody's business.
//!
//! Of a stranger's tick the head is kept, without a name. Its time counts: by the time of the latest event the
//! pipeline lets go of what ended, and a replay must do so at the same moment.

use std::borrow::Cow;

use ebpf_programs::abi::record::{Head, kind};
use hashbrown::HashMap;

use crate::sample::{Batch, Life, LifeEvent};

/// The processes that were asked for, and what they fork: at least those that the pipeline wants.
#[derive(Debug)]
pub(super) struct Wanted {
    /// With the time of their end; none where all are wanted.
    pids: Option<HashMap<u32, Option<u64>>>,
}

/// How many processes are remembered before those that ended are looked for.
const MANY: usize = 4096;

/// How long a process is remembered after its end, in nanoseconds: longer than any pipeline does.
const LINGER: u64 = 60_000_000_000;

const HEAD_WORDS: usize = size_of::<Head>() / 8;

impl Wanted {
    pub(super) fn new(pids: &[u32]) -> Wanted {
        Wanted { pids: (!pids.is_empty()).then(|| pids.iter().map(|&pid| (pid, None)).collect()) }
    }

    /// Follows the life of processes through a batch.
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
        if pids.len() > MANY {
            pids.retain(|_, ended| ended.is_none_or(|ended| latest.saturating_sub(ended) < LINGER));
        }
    }

    /// What is written down of a tick.
    pub(super) fn cut<'w>(&self, words: &'w [u64]) -> Cow<'w, [u64]> {
        let Some(pids) = &self.pids else { return words.into() };
        match words.get(..HEAD_WORDS) {
            Some(head) if !pids.contains_key(&(head[1] as u32)) => stranger(head).into(),
            _ => words.into(),
        }
    }
}

/// A tick without frames, of a thread without name.
fn stranger(head: &[u64]) -> Vec<u64> {
    const CPU: u64 = 0xffff_ffff;
    vec![head[0], head[1], head[2] & CPU | u64::from(kind::WALKED) << 32, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::TickRecord;
    use crate::testing::FakeTick;

    fn follow(wanted: &mut Wanted, life: &[(u64, u32, Life)]) -> Vec<u32> {
        let mut batch = Batch::default();
        for (time, pid, life) in life {
            batch.push_life(LifeEvent { time: *time, pid: *pid, life: life.clone() });
        }
        wanted.follow(&batch);
        (1..20).filter(|&pid| whole(wanted, pid)).collect()
    }

    /// Whether a tick of the process is written down as it is.
    fn whole(wanted: &Wanted, pid: u32) -> bool {
        let mut batch = Batch::default();
        batch.push_tick(&FakeTick::walked(3, pid, "secret", &[1, 2]).kernel(&[3]).bytes());
        let words = batch.ticks().next().unwrap();
        let cut = wanted.cut(words);
        let tick = TickRecord::decode(&cut).unwrap();
        assert_eq!((tick.time, tick.pid), (3, pid));
        assert!(
            *cut == *words || (tick.kernel.is_empty() && tick.comm == [0; 16] && cut.len() == HEAD_WORDS)
        );
        *cut == *words
    }

    #[test]
    fn what_is_forked_is_wanted_also_for_a_while_after_its_end() {
        let mut wanted = Wanted::new(&[5]);
        let forked = |parent| Life::Forked { parent };
        // Not in the order of time; 9 is a stranger's child.
        let life = [(3, 7, forked(6)), (2, 6, forked(5)), (2, 9, forked(8)), (4, 6, Life::Exited)];
        assert_eq!(follow(&mut wanted, &life), [5, 6, 7]);
        let many: Vec<_> = (100..100 + MANY as u32).map(|pid| (5, pid, forked(5))).collect();
        assert_eq!(follow(&mut wanted, &many), [5, 6, 7]);
        assert_eq!(follow(&mut wanted, &[(LINGER + 5, 7, Life::Exited)]), [5, 7]);
    }

    #[test]
    fn without_any_all_are_wanted() {
        assert_eq!(follow(&mut Wanted::new(&[]), &[(1, 6, Life::Exited)]).len(), 19);
    }
}
