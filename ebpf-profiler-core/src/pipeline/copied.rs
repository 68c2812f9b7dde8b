//! Sets of labels that the kernel side copied, each decoded once.

use hashbrown::HashMap;

use super::PipelineStats;
use crate::profile::Labels;
use crate::registry::Registry;
use crate::sample::TickRecord;

/// Maximum number of sets that are kept.
const MAX_SETS: usize = 16_384;

/// The sets that were decoded, by their words.
#[derive(Default)]
pub(super) struct CopiedSets {
    sets: HashMap<Box<[u64]>, Labels>,
}

impl CopiedSets {
    /// Returns the labels of a sample, none without room for them; `None` if its thread had labels that are missing.
    pub(super) fn labels(
        &mut self,
        tick: &TickRecord<'_>,
        has_room: bool,
        registry: &Registry,
        stats: &mut PipelineStats,
    ) -> Option<Labels> {
        let copied = &tick.labels;
        if copied.are_unreadable() {
            return None;
        }
        stats.cut_labels += u64::from(copied.are_cut());
        if copied.words.is_empty() {
            let is_unknown = tick.epoch == 0 && registry.has_labels(tick.pid);
            return (!is_unknown).then(Labels::default);
        }
        if !has_room {
            return None;
        }
        if let Some(labels) = self.sets.get(copied.words) {
            return Some(labels.clone());
        }
        let labels = copied.decode()?;
        if self.sets.len() >= MAX_SETS {
            self.sets.clear();
        }
        self.sets.insert(copied.words.into(), labels.clone());
        Some(labels)
    }
}
