//! The pipeline thread: unwinds and aggregates.
//!
//! On a busy machine work is done in the order of the samples that wait for it:
//!
//! | priority | work | samples that wait for it |
//! | --- | --- | --- |
//! | 1 | emptying the kernel's buffers (a separate thread, nice -10) | all: a full buffer drops them |
//! | 2 | batches with raw samples (nice -10 meanwhile): mappings and tables of their processes | the next ones of these processes |
//! | 2 | other batches while more of them wait (nice -10 meanwhile) | those in the kernel's buffers, which fill |
//! | 3 | other batches | none |
//! | 4 | publishing changed processes, at the end of a batch with a sample of them | those in new mappings |
//! | 5 | reading the mappings of processes without samples, while there is no batch | the first ones of their children |
//! | 6 | names (a separate thread) | none |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use super::super::options;
use super::{Change, Ends, Flush, Job, Message, NamesMessage, Shared};
use crate::live::machine::clock;
use crate::live::machine::priority::{self, Raised};
use crate::live::machine::reservation::Reserved;
use crate::pipeline::Pipeline;
use crate::process::Pids;
use crate::profile::SamplingPeriod;
use crate::replay::Recorder;
use crate::sample::{Batch, Counts};

/// Jobs of the names thread beyond which a profile goes on instead of being finished at its interval.
const MAX_JOBS: usize = 2;

/// Maximum number of intervals in one profile. A longer profile is dropped: its memory grows with every sample.
const MAX_MERGED: u64 = 60;

/// Maximum size in bytes of a batch whose memory is used again.
const MAX_USED: usize = 1 << 20;

/// Interval between two checks of the processes that were asked for.
const CHECK: Duration = Duration::from_millis(250);

/// Time without any of these processes after which sampling ends. The event of a fork just before an exit arrives
/// earlier.
const END_DELAY: Duration = Duration::from_secs(1);

/// Turns batches into profiles.
pub(super) struct PipelineThread {
    pipeline: Pipeline,
    used: SyncSender<Batch>,
    jobs: Sender<NamesMessage>,
    recorder: Option<Recorder>,
    is_alive: Box<dyn Fn(u32) -> bool + Send>,
    shared: Arc<Shared>,
    period: Duration,
    pids: Pids,
    /// Batches that came after the end, which are taken together.
    rest: Batch,
    /// Samples lost up to the last finished profile.
    lost: [u64; Counts::LOSSES.len()],
    /// Sampling periods since the last finished profile.
    periods: Vec<SamplingPeriod>,
    /// Samples taken since the last finished profile.
    taken: u64,
    /// Intervals that passed since the last finished profile.
    merged: u64,
    checked: Instant,
    /// Time since which none of the processes that were asked for runs.
    exited: Option<Instant>,
    has_ended: bool,
}

impl PipelineThread {
    pub(super) fn new(
        pipeline: Pipeline,
        used: SyncSender<Batch>,
        jobs: Sender<NamesMessage>,
        recorder: Option<Recorder>,
        is_alive: Box<dyn Fn(u32) -> bool + Send>,
        (period, pids): (Duration, Pids),
        shared: Arc<Shared>,
    ) -> PipelineThread {
        PipelineThread {
            pipeline,
            period,
            pids,
            used,
            jobs,
            recorder,
            is_alive,
            shared,
            rest: Batch::default(),
            lost: [0; Counts::LOSSES.len()],
            periods: Vec::new(),
            taken: 0,
            merged: 0,
            checked: Instant::now(),
            exited: None,
            has_ended: false,
        }
    }

    /// Applies a change to the profile that begins.
    fn change(&mut self, change: &Change) {
        let Change { frequency, pids, .. } = change;
        if let Some(frequency) = *frequency {
            self.period = options::period(frequency);
            // The profile has no samples yet.
            self.pipeline.set_period(self.period);
        }
        if let Some(pids) = pids {
            self.pids.clone_from(pids);
            self.pipeline.registry().set_filter(pids);
            self.exited = None;
            if std::mem::take(&mut self.has_ended) {
                self.shared.update(|state| state.has_ended = state.broken.is_some());
            }
        }
        if (frequency.is_some() || pids.is_some())
            && let Some(recorder) = &self.recorder
        {
            recorder.settings(self.period, &self.pids);
        }
    }

    pub(super) fn run(mut self, reserved: Option<&Reserved>, messages: &Receiver<Message>) {
        let shared = self.shared.clone();
        self.pipeline.registry().build_until(move || shared.has_learned());
        let shared = self.shared.clone();
        self.pipeline.registry().read_ahead(move || shared.waiting.count() as u64);
        let mut running = self.pipeline.registry().running();
        // Held until no message waits.
        let mut raised = None;
        while let Some(message) = self.next(messages, &mut running, &mut raised, reserved) {
            if self.shared.ending.has_begun() {
                priority::raise();
            }
            match message {
                Message::Batch(batch) => self.take(batch, &mut raised),
                Message::Flush(flush) => self.flush(flush),
            }
        }
    }

    /// Returns the next message. While there is none, reads the mappings of running processes, which their children
    /// inherit.
    fn next(
        &mut self,
        messages: &Receiver<Message>,
        running: &mut Vec<u32>,
        raised: &mut Option<Raised>,
        reserved: Option<&Reserved>,
    ) -> Option<Message> {
        let set_busy = |is_busy| reserved.into_iter().for_each(|reserved| reserved.set_busy(is_busy));
        set_busy(true);
        loop {
            self.check_processes();
            match messages.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => *raised = None,
            }
            if let Some(pid) = running.pop() {
                self.pipeline.registry().scan_process(pid);
                continue;
            }
            set_busy(false);
            let is_filtered = self.pipeline.registry().processes().selected().is_some();
            let wait = if is_filtered { CHECK } else { Duration::MAX };
            let message = messages.recv_timeout(wait);
            set_busy(true);
            match message {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends sampling once all processes that were asked for have exited.
    fn check_processes(&mut self) {
        // An empty set waits for a change.
        if self.has_ended || self.pids.is_none() || self.checked.elapsed() < CHECK {
            return;
        }
        self.checked = Instant::now();
        let Some(mut wanted) = self.pipeline.registry().processes().selected() else { return };
        if wanted.any(|pid| (self.is_alive)(pid)) {
            self.exited = None;
        } else if self.exited.get_or_insert(self.checked).elapsed() >= END_DELAY {
            self.has_ended = true;
            self.shared.end();
        }
    }

    fn take(&mut self, mut batch: Batch, raised: &mut Option<Raised>) {
        // Recorded before the pipeline takes it, so that the answers to its questions follow it.
        if let Some(recorder) = &self.recorder {
            recorder.batch(&batch);
        }
        // Further samples of these processes stay incomplete until their tables are there.
        // While further batches wait, events do so in the kernel's buffers.
        let (size, more_wait) = (batch.size(), self.shared.waiting.begin());
        self.taken += batch.samples();
        if more_wait || batch.has_raw() {
            raised.get_or_insert_with(priority::raised);
        }
        if self.shared.ending.has_begun() {
            self.rest.append(&mut batch);
            return self.shared.waiting.finish(size);
        }
        let ending = &self.shared.ending;
        self.pipeline.take_by(&mut batch, &|| ending.urgency());
        let left = self.pipeline.take_left();
        if !left.is_empty() {
            let _ = self.jobs.send(NamesMessage::Left(left));
        }
        self.shared.waiting.finish(size);
        if size <= MAX_USED {
            batch.clear();
            let _ = self.used.try_send(batch);
        }
    }

    /// Takes the batches that came after the end.
    fn take_rest(&mut self) {
        let ending = &self.shared.ending;
        if !self.rest.is_empty() {
            self.pipeline.take_by(&mut self.rest, &|| ending.urgency());
            self.rest = Batch::default();
        }
    }

    fn flush(&mut self, flush: Flush) {
        self.take_rest();
        if self.shared.ending.has_begun() {
            self.pipeline.await_tables();
        }
        let Flush { reply, counts, periods, change, ends } = flush;
        self.periods.extend(periods);
        let is_behind = self.shared.jobs.load(Ordering::Relaxed) >= MAX_JOBS;
        if ends == Ends::Interval && is_behind && self.merged < MAX_MERGED {
            self.merged += 1;
            self.shared.update(|state| state.sinks.merged += 1);
            return;
        }
        if let Some(recorder) = &self.recorder {
            recorder.flush(&counts);
        }
        let mut profile = self.pipeline.finish();
        profile.set_boot_id(crate::symbol::boot_id());
        profile.set_sampling_periods(std::mem::take(&mut self.periods));
        self.shared.update(|state| state.losses.add_all(profile.losses()));
        let lost = counts.losses();
        for (index, counter) in Counts::LOSSES.iter().enumerate() {
            profile.record_loss(counter.text(), lost[index].saturating_sub(self.lost[index]));
        }
        self.lost = lost;
        // The time of day may have been set.
        self.pipeline.set_clock(clock::offset());
        if let Some(change) = &change {
            // Sampling was interrupted, and so ends may be missing.
            self.pipeline.drop_held();
            self.change(change);
        }
        let (stats, taken) = (self.pipeline.stats(), std::mem::take(&mut self.taken));
        self.shared.update(|state| state.pipeline = stats);
        if std::mem::take(&mut self.merged) >= MAX_MERGED && is_behind {
            self.shared.update(|state| {
                state.sinks.dropped += 1;
                state.sinks.dropped_samples += profile.count();
            });
            self.shared.finish_samples(taken);
            return;
        }
        self.shared.jobs.fetch_add(1, Ordering::Relaxed);
        let job = Job { profile, taken, reply, is_pause: ends == Ends::Pause };
        let _ = self.jobs.send(NamesMessage::Profile(Box::new(job)));
    }
}

impl Drop for PipelineThread {
    fn drop(&mut self) {
        self.shared.waiting.close();
        self.shared.end();
    }
}
