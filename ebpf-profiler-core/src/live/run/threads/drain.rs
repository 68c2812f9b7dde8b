//! The drain thread: empties the kernel's buffers.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::super::control::Settings;
use super::budget::{BudgetKeeper, KeptBudget};
use super::described::{Describe, EarlyDescriptions};
use super::{Change, Command, Ends, Flush, Interval, Message, Reply, Shared, Stage, lock};
use crate::live::error::OptionError;
use crate::live::machine::priority;
use crate::live::trigger::filter::FilterError;
use crate::profile::Profile;
use crate::sample::{Batch, Counts, Source, SourceError};

/// Longest wait between two looks at the kernel's buffers.
///
/// Urgent records (a process that is not published yet, a ring that fills) wake the thread earlier.
const WAIT: Duration = Duration::from_millis(250);

/// Wait between two attempts to send a batch while the pipeline is behind.
const RETRY: Duration = Duration::from_millis(2);

/// Wait before a look at the kernel's buffers while the pipeline is behind.
const BEHIND: Duration = Duration::from_millis(20);

/// Maximum size in bytes of the batch that grows while no further one may wait for the pipeline.
/// Beyond it samples that are still to be unwound are reduced; if these are few, the ring fills, and
/// samples are lost.
const BATCH_BYTES: usize = 4 << 20;

/// Maximum number of bytes of stacks of a process that are read at the end while the pipeline is behind.
/// Memory for all of them takes seconds of the end where CPU time is scarce.
const LATE_BYTES: usize = 64 << 10;

/// Empties the kernel's buffers into batches, and ends profiles.
pub(super) struct Drain {
    source: Box<dyn Source>,
    batch: Batch,
    batches: SyncSender<Message>,
    used: Receiver<Batch>,
    interval: Option<Interval>,
    shared: Arc<Shared>,
    settings: Settings,
    budget: Option<BudgetKeeper>,
    described: EarlyDescriptions,
    /// Time at which the counters of the kernel side were read.
    counted: Instant,
    /// The source has ended or failed.
    has_ended: bool,
    /// The pipeline thread has ended.
    is_disconnected: bool,
    closing: Closing,
}

/// Rejects commands from the end of the thread on.
struct Closing(Arc<Shared>);

impl Drain {
    pub(super) fn new(
        (source, describe): (Box<dyn Source>, Describe),
        batches: SyncSender<Message>,
        used: Receiver<Batch>,
        interval: Option<Interval>,
        settings: Settings,
        shared: Arc<Shared>,
        budget: Option<KeptBudget>,
    ) -> Drain {
        let budget = budget.map(BudgetKeeper::new);
        Drain {
            source,
            batch: Batch::default(),
            batches,
            used,
            interval,
            closing: Closing(shared.clone()),
            shared,
            settings,
            budget,
            described: EarlyDescriptions::new(describe),
            counted: Instant::now(),
            has_ended: false,
            is_disconnected: false,
        }
    }

    pub(super) fn run(mut self) {
        priority::raise();
        let reply = self.run_commands();
        self.source.stop();
        // No sample is taken any more: this is the rest.
        self.drain(Duration::ZERO);
        self.flush(reply, None, Ends::Profile);
        // The others end meanwhile: the kernel may take longer than they have.
        let Drain { mut source, mut batch, shared, batches, closing, has_ended, .. } = self;
        drop((batches, closing));
        source.detach();
        batch.clear();
        if !has_ended && source.next(Duration::ZERO, &mut batch).is_ok() {
            // Of programs that were interrupted when sampling stopped.
            shared.record_loss(batch.samples());
            shared.update(|state| state.counts = source.counts());
        }
    }

    /// Ends the current profile, and changes the settings of the next one.
    ///
    /// The clocks stand still in between, so that no profile has samples of two periods.
    fn change(&mut self, change: Box<Change>, reply: Sender<Profile>, refuse: &Sender<OptionError>) {
        if !self.settings.is_paused {
            self.set_clocks(None);
        }
        self.drain(Duration::ZERO);
        let was_paused = self.settings.is_paused;
        if let Err(error) = self.apply(&change) {
            let _ = refuse.send(error);
            return self.start_clocks();
        }
        lock(&self.shared.settings).clone_from(&self.settings);
        // Before the caller has its profile: what it does next is sampled. These samples are drained after
        // the flush.
        self.start_clocks();
        let is_pause = was_paused && !self.settings.is_paused;
        self.flush(Some(reply), Some(change), if is_pause { Ends::Pause } else { Ends::Profile });
    }

    /// Applies a change as a whole, or not at all.
    fn apply(&mut self, change: &Change) -> Result<(), OptionError> {
        let Change { frequency, pids, filter, is_paused } = change;
        // First, as it can fail.
        if let Some((compiled, filter)) = filter {
            let failed = |error| OptionError::Filter(FilterError::not_applied(error));
            self.source.set_filter(compiled).map_err(failed)?;
            self.settings.filter.clone_from(filter);
        }
        if let Some(pids) = pids {
            self.source.set_pids(pids);
            self.settings.pids.clone_from(pids);
        }
        self.settings.frequency = frequency.unwrap_or(self.settings.frequency);
        self.settings.is_paused = is_paused.unwrap_or(self.settings.is_paused);
        Ok(())
    }

    fn start_clocks(&mut self) {
        if !self.settings.is_paused {
            self.set_clocks(Some(self.settings.period()));
        }
    }

    fn set_clocks(&mut self, period: Option<Duration>) {
        if !self.has_ended
            && let Err(error) = self.source.set_period(period)
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: SourceError) {
        self.has_ended = true;
        self.shared.update(|state| state.broken = Some(Arc::new(error)));
        self.shared.end();
    }

    /// Drains until a command ends it. Returns the receiver of the last profile.
    fn run_commands(&mut self) -> Reply {
        let mut next_flush = self.next_flush();
        while !self.is_disconnected {
            let command = if self.has_ended {
                self.wait_for_command()
            } else {
                let left = next_flush.map(|at| at.saturating_duration_since(Instant::now()));
                self.drain(left.map_or(WAIT, |left| WAIT.min(left)));
                lock(&self.shared.commands).waiting.pop_front()
            };
            if self.counted.elapsed() >= WAIT {
                self.count();
                self.keep_budget();
            }
            if next_flush.is_some_and(|at| Instant::now() >= at) {
                next_flush = self.next_flush();
                if !self.settings.is_paused {
                    self.flush(None, None, Ends::Interval);
                }
            }
            match command {
                Some(Command::TakeProfile(reply)) => {
                    self.drain(Duration::ZERO);
                    self.flush(Some(reply), None, Ends::Profile);
                }
                Some(Command::Change(change, reply, refuse)) => self.change(change, reply, &refuse),
                Some(Command::Finish(reply)) => return Some(reply),
                Some(Command::Stop) => return None,
                None => {}
            }
        }
        None
    }

    /// Waits for a command after the source has ended.
    fn wait_for_command(&self) -> Option<Command> {
        let commands = lock(&self.shared.commands);
        let waiting = self.shared.commanded.wait_timeout_while(commands, WAIT, |it| it.waiting.is_empty());
        waiting.unwrap_or_else(PoisonError::into_inner).0.waiting.pop_front()
    }

    fn next_flush(&mut self) -> Option<Instant> {
        self.interval.as_mut().map(|interval| Instant::now() + interval.next())
    }

    /// Moves events from the source to the pipeline; waits up to `wait` for the first.
    fn drain(&mut self, wait: Duration) {
        if !self.has_ended {
            if self.shared.ending.has_begun() && self.shared.waiting.count() > 0 {
                // What came last would be unwound last, after the deadline.
                self.batch.limit(LATE_BYTES);
            }
            if !wait.is_zero() && self.shared.waiting.count() > 1 {
                // Both threads may share little CPU time.
                std::thread::sleep(BEHIND);
            }
            match self.source.next(wait, &mut self.batch) {
                Ok(true) => {}
                Ok(false) => {
                    self.has_ended = true;
                    self.shared.end();
                }
                Err(error) => self.fail(error),
            }
        }
        if self.batch.is_empty() {
            return;
        }
        self.described.add(&mut self.batch);
        if self.shared.waiting.has_room(self.batch.size()) {
            self.send_batch();
        } else if self.batch.size() > BATCH_BYTES {
            // Far behind: what is left of these samples takes a hundredth of the memory.
            self.batch.reduce(BATCH_BYTES / 2);
            if self.batch.size() > BATCH_BYTES {
                self.send_batch();
            }
        }
        self.described.resume(&self.batch);
    }

    /// Sends the batch once there is room for it.
    fn send_batch(&mut self) {
        let fresh = self.used.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, fresh);
        self.send(Message::Batch(batch));
    }

    fn flush(&mut self, reply: Reply, change: Option<Box<Change>>, ends: Ends) {
        if !self.batch.is_empty() {
            self.send_batch();
            self.described.resume(&self.batch);
        }
        let counts = self.count();
        let periods = self.budget.as_mut().map(BudgetKeeper::take_periods).unwrap_or_default();
        self.send(Message::Flush(Flush { reply, counts, periods, change, ends }));
    }

    /// Changes the periods of kinds of samples if the cost requires it.
    fn keep_budget(&mut self) {
        let Some(budget) = &mut self.budget else { return };
        let threads = self.shared.thread_time();
        if self.settings.is_paused || self.has_ended {
            return;
        }
        match budget.keep(&mut *self.source, threads) {
            Ok(stats) => self.shared.update(|state| state.budget = Some(stats)),
            Err(error) => self.fail(error),
        }
    }

    /// Reads the counters of the kernel side and shares them.
    fn count(&mut self) -> Counts {
        let counts = self.source.counts();
        self.counted = Instant::now();
        self.shared.update(|state| state.counts = counts.clone());
        counts
    }

    /// Sends a message, once the pipeline has taken an earlier one. Drops it when the deadline of
    /// the pipeline passes.
    fn send(&mut self, mut message: Message) {
        let (size, samples) = match &message {
            Message::Batch(batch) => (Some(batch.size()), batch.samples()),
            Message::Flush(_) => (None, 0),
        };
        self.shared.unfinished.fetch_add(samples, Ordering::Relaxed);
        loop {
            if size.is_none_or(|size| self.shared.waiting.has_room(size)) {
                // Before the pipeline thread can subtract it.
                size.into_iter().for_each(|size| self.shared.waiting.add(size));
                message = match self.batches.try_send(message) {
                    Ok(()) => return,
                    Err(TrySendError::Disconnected(_)) => {
                        self.is_disconnected = true;
                        return;
                    }
                    Err(TrySendError::Full(message)) => message,
                };
                size.into_iter().for_each(|size| self.shared.waiting.withdraw(size));
            }
            if self.shared.ending.has_begun() {
                self.source.stop();
            }
            let is_late = match message {
                Message::Batch(_) => self.shared.ending.is_past(Stage::Names),
                Message::Flush(_) => self.shared.ending.is_past(Stage::Sinks),
            };
            if is_late {
                self.shared.finish_samples(samples);
                return self.shared.record_loss(samples);
            }
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        // Also if this thread panics: no command waits for ever.
        self.0.close();
    }
}
