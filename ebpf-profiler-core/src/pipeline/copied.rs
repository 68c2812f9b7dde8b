//! Sets of labels that the kernel side copied, each decoded once.
//!
//! Two programs have the same words for different labels, if these have constants or are thread contexts: so sets are kept by file
//! or process context, and words.

use hashbrown::HashMap;

use super::PipelineStats;
use crate::process::Mapped;
use crate::profile::Labels;
use crate::registry::Registry;
use crate::sample::TickRecord;

/// Maximum number of sets that are kept.
const MAX_SETS: usize = 16_384;

/// Maximum number of constants that are kept.
const MAX_CONSTANTS: usize = 4_096;

/// The sets that were decoded, and the constants that were read.
#[derive(Default)]
pub(super) struct CopiedSets {
    sets: HashMap<Source, HashMap<Box<[u64]>, Decoded>>,
    /// Number of sets.
    count: usize,
    constants: HashMap<(Mapped, u64, usize), Vec<u8>>,
}

/// The context that gives the words of a set their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    File(Option<Mapped>),
    /// The number of a process context.
    Context(u64),
}

/// A decoded set, and 1 if labels are left out of it, else 0.
type Decoded = (Labels, u64);

impl CopiedSets {
    /// Returns the labels of a sample, none without room for them; `None` if its thread had labels that are missing.
    pub(super) fn labels(
        &mut self,
        tick: &TickRecord<'_>,
        has_room: bool,
        registry: &mut Registry,
        stats: &mut PipelineStats,
    ) -> Option<Labels> {
        let copied = &tick.labels;
        if copied.are_unreadable() {
            return None;
        }
        if copied.words.is_empty() {
            stats.cut_labels += u64::from(copied.are_cut());
            let is_unknown = tick.epoch == 0 && registry.has_labels(tick.pid);
            return (!is_unknown).then(Labels::default);
        }
        if !has_room {
            return None;
        }
        let (labels, cut) = match copied.are_context() {
            true => self.of_context(tick, registry)?,
            false => self.of_pairs(tick, registry)?,
        };
        stats.cut_labels += cut | u64::from(copied.are_cut());
        Some(labels)
    }

    /// Returns the labels of pairs.
    fn of_pairs(&mut self, tick: &TickRecord<'_>, registry: &Registry) -> Option<Decoded> {
        let file = registry.label_file(tick);
        if let Some(known) = self.known(Source::File(file), tick) {
            return Some(known);
        }
        let constant = &mut |address, size| self.constant(registry, file?, address, size);
        let decoded = (tick.labels.decode(constant)?, 0);
        self.insert(Source::File(file), tick, &decoded);
        Some(decoded)
    }

    /// Returns the labels of a thread context.
    fn of_context(&mut self, tick: &TickRecord<'_>, registry: &mut Registry) -> Option<Decoded> {
        // A forked process has published none yet.
        let Some((mut number, mut keys)) = registry.context_keys(tick.pid) else {
            return Some(Decoded::default());
        };
        if let Some(known) = self.known(Source::Context(number), tick) {
            return Some(known);
        }
        let mut context = tick.labels.decode_context(&keys)?;
        if context.has_unknown_keys {
            registry.refresh_context(tick.pid, tick.time);
            (number, keys) = registry.context_keys(tick.pid)?;
            context = tick.labels.decode_context(&keys)?;
        }
        let decoded = (context.labels, context.is_cut.into());
        // Otherwise the key is asked for again.
        if !context.has_unknown_keys {
            self.insert(Source::Context(number), tick, &decoded);
        }
        Some(decoded)
    }

    fn known(&self, source: Source, tick: &TickRecord<'_>) -> Option<Decoded> {
        self.sets.get(&source)?.get(tick.labels.words).cloned()
    }

    fn insert(&mut self, source: Source, tick: &TickRecord<'_>, decoded: &Decoded) {
        if self.count >= MAX_SETS {
            self.sets.clear();
            self.count = 0;
        }
        self.count += 1;
        self.sets.entry(source).or_default().insert(tick.labels.words.into(), decoded.clone());
    }

    /// Returns a constant of the file.
    fn constant(&mut self, registry: &Registry, file: Mapped, address: u64, size: usize) -> Option<Vec<u8>> {
        let key = (file, address, size);
        if let Some(bytes) = self.constants.get(&key) {
            return Some(bytes.clone());
        }
        let bytes = registry.read_constant(file, address, size)?;
        if self.constants.len() >= MAX_CONSTANTS {
            self.constants.clear();
        }
        self.constants.insert(key, bytes.clone());
        Some(bytes)
    }
}
