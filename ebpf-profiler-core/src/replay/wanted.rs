//! Which processes a recording is about, where it isn't about all: the stacks of others are nobody's business.

use std::collections::HashSet;

use crate::sample::{Batch, Life, LifeEvent};

/// The processes that were asked for, and what they fork.
#[derive(Debug)]
pub(super) struct Wanted {
    /// None where all are.
    pids: Option<HashSet<u32>>,
}

impl Wanted {
    pub(super) fn new(pids: &[u32]) -> Wanted {
        Wanted { pids: (!pids.is_empty()).then(|| pids.iter().copied().collect()) }
    }

    /// Follows the life of processes through a batch; those that were wanted at any time in it.
    pub(super) fn follow(&mut self, batch: &Batch) -> Wanted {
        let Some(pids) = &mut self.pids else { return Wanted { pids: None } };
        let mut ever = pids.clone();
        let mut life: Vec<&LifeEvent> = batch.life().iter().collect();
        life.sort_by_key(|event| event.time);
        for event in life {
            match event.life {
                Life::Forked { parent } if pids.contains(&parent) => {
                    pids.insert(event.pid);
                    ever.insert(event.pid);
                }
                Life::Exited => {
                    pids.remove(&event.pid);
                }
                _ => {}
            }
        }
        Wanted { pids: Some(ever) }
    }

    /// Whether the words of a tick are written down.
    pub(super) fn has_tick(&self, words: &[u64]) -> bool {
        words.get(1).is_none_or(|&ids| self.has(ids as u32))
    }

    /// Whether a life event is written down.
    pub(super) fn has_life(&self, event: &LifeEvent) -> bool {
        matches!(event.life, Life::Lost { .. }) || self.has(event.pid)
    }

    fn has(&self, pid: u32) -> bool {
        self.pids.as_ref().is_none_or(|pids| pids.contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(life: &[(u64, u32, Life)]) -> Batch {
        let mut batch = Batch::default();
        for (time, pid, life) in life {
            batch.push_life(LifeEvent { time: *time, pid: *pid, life: life.clone() });
        }
        batch
    }

    fn found(wanted: &Wanted) -> Vec<u32> {
        (1..20).filter(|&pid| wanted.has_tick(&[0, u64::from(pid) | 77 << 32])).collect()
    }

    #[test]
    fn children_are_wanted_and_the_dead_are_not() {
        let mut wanted = Wanted::new(&[5]);
        let forked = |parent| Life::Forked { parent };
        // Not in the order of time: 6 and 7 are grandchildren's parents, 9 is a stranger's child.
        let now = wanted.follow(&batch(&[
            (3, 7, forked(6)),
            (2, 6, forked(5)),
            (2, 9, forked(8)),
            (4, 6, Life::Exited),
        ]));
        assert_eq!(found(&now), [5, 6, 7]);
        assert_eq!(found(&wanted.follow(&batch(&[(5, 6, forked(8))]))), [5, 7]);
        assert_eq!(found(&wanted.follow(&batch(&[(6, 7, Life::Exited), (7, 7, forked(5))]))), [5, 7]);
        assert_eq!(found(&wanted), [5, 7]);
    }

    #[test]
    fn without_any_all_are_wanted() {
        let mut all = Wanted::new(&[]);
        let now = all.follow(&batch(&[(1, 6, Life::Exited)]));
        assert_eq!(found(&now).len(), 19);
        assert!(now.has_tick(&[]) && now.has_life(&LifeEvent { time: 0, pid: 3, life: Life::Exited }));
    }
}
