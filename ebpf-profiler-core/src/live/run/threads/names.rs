//! The names thread: symbolizes finished profiles and hands them out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use super::early::{EarlyNames, WithEarlyNames};
use super::{Ending, Job, NamesMessage, Queue, Shared, Stage, lock};
use crate::live::machine::priority;
use crate::live::machine::reservation::Reserved;
use crate::pipeline::LeftModule;
use crate::process::Module;
use crate::replay::KernelOnly;
use crate::symbol::{Symbol, SymbolStats, Symbolizer};

/// Symbolizes profiles.
pub(super) struct Names {
    symbolizer: Box<dyn Symbolizer>,
    queues: Vec<Arc<Queue>>,
    is_recorded: bool,
    shared: Arc<Shared>,
    early: EarlyNames,
}

impl Names {
    pub(super) fn new(
        symbolizer: Box<dyn Symbolizer>,
        queues: Vec<Arc<Queue>>,
        is_recorded: bool,
        shared: Arc<Shared>,
    ) -> Names {
        Names { symbolizer, queues, is_recorded, shared, early: EarlyNames::default() }
    }

    pub(super) fn run(mut self, reserved: Option<&Reserved>, messages: &Receiver<NamesMessage>) {
        let set_busy = |is_busy| reserved.into_iter().for_each(|reserved| reserved.set_busy(is_busy));
        set_busy(false);
        while let Ok(message) = messages.recv() {
            set_busy(true);
            if self.shared.ending.has_begun() {
                priority::raise();
            }
            match message {
                NamesMessage::Profile(job) => {
                    self.take(*job);
                    self.early.clear();
                    self.shared.jobs.fetch_sub(1, Ordering::Relaxed);
                }
                NamesMessage::Left(modules) => self.name_early(modules),
            }
            set_busy(false);
        }
    }

    /// Reads the names of files that may be deleted soon.
    fn name_early(&mut self, modules: Vec<LeftModule>) {
        let Names { symbolizer, shared, early, .. } = self;
        let mut symbolizer = Bounded { symbolizer: &mut **symbolizer, ending: &shared.ending, skipped: 0 };
        for module in modules {
            early.add(module, &mut symbolizer);
        }
        // Addresses that are skipped here are named or counted with the profile.
    }

    fn take(&mut self, job: Job) {
        let taken = job.taken;
        let Names { symbolizer, queues, shared, early, .. } = self;
        let mut bounded = Bounded { symbolizer: &mut **symbolizer, ending: &shared.ending, skipped: 0 };
        let mut symbolizer = WithEarlyNames { early, symbolizer: &mut bounded };
        if job.reply.is_none() && queues.is_empty() {
            shared.finish_samples(taken);
            if self.is_recorded {
                job.profile.symbolize(&mut KernelOnly(&mut symbolizer));
            }
        } else {
            if job.reply.is_some() && shared.ending.has_begun() {
                *lock(&shared.unnamed) = Some((job.profile.clone(), taken));
            }
            let profile = job.profile.symbolize(&mut symbolizer);
            let profile = match &shared.enricher {
                Some(enricher) => enricher.apply(profile, shared.ending.left(Stage::Names)),
                None => profile,
            };
            lock(&shared.unnamed).take();
            shared.finish_samples(taken);
            // Nothing was sampled in a pause.
            for queue in queues.iter().filter(|_| !job.is_pause) {
                if let Some(dropped) = queue.push(profile.clone()) {
                    shared.update(|state| state.sinks.count_dropped(&[dropped]));
                }
            }
            if let Some(reply) = job.reply {
                // The receiver may have passed its deadline.
                if reply.send(profile).is_err() {
                    shared.update(|state| state.deadline.replies += 1);
                }
            }
        }
        let (skipped, stats) = (bounded.skipped, bounded.stats());
        shared.update(|state| {
            state.deadline.addresses += skipped;
            state.symbols = stats;
        });
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.end();
        }
        self.shared.end();
        if let Some(enricher) = &self.shared.enricher {
            enricher.end();
        }
    }
}

/// Leaves addresses without a name once the deadline has passed.
struct Bounded<'a> {
    symbolizer: &'a mut dyn Symbolizer,
    ending: &'a Ending,
    /// Addresses that were left without a name.
    skipped: u64,
}

impl Bounded<'_> {
    /// Returns the symbolizer before the deadline, else counts `addresses`.
    fn before_deadline(&mut self, addresses: &[u64]) -> Option<&mut dyn Symbolizer> {
        if self.ending.is_past(Stage::Names) {
            self.skipped += addresses.len() as u64;
            return None;
        }
        Some(&mut *self.symbolizer)
    }
}

impl Symbolizer for Bounded<'_> {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        if let Some(symbolizer) = self.before_deadline(addresses) {
            symbolizer.native(module, addresses, name);
        }
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        if let Some(symbolizer) = self.before_deadline(addresses) {
            symbolizer.kernel(addresses, name);
        }
    }

    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        if !self.ending.is_past(Stage::Names) {
            self.symbolizer.starts(module, addresses, begin);
        }
    }

    fn calls(&mut self, module: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        if !self.ending.is_past(Stage::Names) {
            self.symbolizer.calls(module, addresses, doubt);
        }
    }

    fn stats(&self) -> SymbolStats {
        self.symbolizer.stats()
    }
}
