//! The three threads, and what passes between them.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebpf_programs::abi::reason::Counter;

use super::interval::Interval;
use super::{clock, priority};
use crate::pipeline::{PendingProfile, Pipeline, PipelineStats};
use crate::profile::Profile;
use crate::replay::{KernelOnly, Recorder};
use crate::sample::{Batch, Counts, Source};
use crate::sink::Sink;
use crate::symbol::Symbolizer;

/// How long the drain thread waits at most before it looks at the ring.
///
/// What can't wait (a tick of a process that isn't known yet, a ring that fills) wakes it.
const WAIT: Duration = Duration::from_millis(250);

/// Batches at most on their way from the drain thread to the pipeline thread.
const BATCHES: usize = 4;

/// Bytes at most in a batch that waits for the pipeline; beyond it the ring fills, and then ticks are lost.
const BATCH_BYTES: usize = 32 << 20;

/// Errors of sinks that are kept at most.
const MOST_ERRORS: usize = 100;

/// Where a profile goes: back to who asked, or to the sinks.
type Reply = Option<Sender<Profile>>;

/// What the drain thread is asked to do.
pub(super) enum Command {
    /// End the profile that is being collected and answer with it.
    Snapshot(Sender<Profile>),
    /// Stop the clocks, answer with the profile that was being collected, and end.
    Finish(Sender<Profile>),
    /// Stop the clocks, flush and end.
    Stop,
}

/// What goes from the drain thread to the pipeline thread.
enum Message {
    Batch(Batch),
    Flush(Reply, Counts),
}

/// What the threads let others see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    commands: Mutex<VecDeque<Command>>,
    state: Mutex<State>,
}

/// What became of the profiler so far.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) counts: Counts,
    pub(super) pipeline: PipelineStats,
    pub(super) sink_errors: Vec<String>,
    /// Why the source broke, if it did.
    pub(super) broken: Option<String>,
}

impl State {
    /// Bounded, for a sink that refuses a profile every few seconds for months.
    fn sink_failed(&mut self, error: String) {
        if self.sink_errors.len() == MOST_ERRORS {
            self.sink_errors.remove(0);
        }
        self.sink_errors.push(error);
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::Snapshot(_) => "Snapshot",
            Command::Finish(_) => "Finish",
            Command::Stop => "Stop",
        })
    }
}

impl Shared {
    /// Leaves a command for the drain thread.
    pub(super) fn push(&self, command: Command) {
        lock(&self.commands).push_back(command);
    }

    /// What became of the profiler so far.
    pub(super) fn state(&self) -> State {
        lock(&self.state).clone()
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
    }
}

/// A thread that panicked while it held the lock left a value that is still whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that the threads are made of.
pub(super) struct Parts {
    pub(super) source: Box<dyn Source>,
    pub(super) pipeline: Pipeline,
    pub(super) symbolizer: Box<dyn Symbolizer>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
    /// How often the sinks get a profile; never before the end without one.
    pub(super) interval: Option<Interval>,
    /// What is told everything that the pipeline is given.
    pub(super) recorder: Option<Recorder>,
}

/// Starts the threads.
pub(super) fn start(parts: Parts, shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let (batches_in, batches_out) = sync_channel(BATCHES);
    let (used_in, used_out) = sync_channel(BATCHES);
    let (names_in, names_out) = channel();
    let Parts { source, pipeline, symbolizer, sinks, interval, recorder } = parts;
    let drain = Drain {
        source,
        batch: Batch::default(),
        batches: batches_in,
        used: used_out,
        interval,
        shared: shared.clone(),
    };
    let name = Name { symbolizer, sinks, shared: shared.clone(), is_recorded: recorder.is_some() };
    let process =
        Process { pipeline, used: used_in, names: names_in, shared: shared.clone(), lost: 0, recorder };
    Ok(vec![
        spawn("ebpf-drain", move || drain.run())?,
        spawn("ebpf-pipeline", move || process.run(&batches_out))?,
        spawn("ebpf-names", move || name.run(&names_out))?,
    ])
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Empties the kernel's buffers.
struct Drain {
    source: Box<dyn Source>,
    batch: Batch,
    batches: SyncSender<Message>,
    used: Receiver<Batch>,
    interval: Option<Interval>,
    shared: Arc<Shared>,
}

impl Drain {
    fn run(mut self) {
        priority::raise();
        let reply = self.until_stopped();
        self.source.stop();
        // The clocks stand still: what waits now is the rest.
        self.drain(Duration::ZERO);
        self.flush(reply);
    }

    /// Drains until someone wants it to end; who wants the last profile, if not the sinks.
    fn until_stopped(&mut self) -> Reply {
        let mut next_flush = self.next_flush();
        loop {
            let wait = next_flush.map_or(WAIT, |at| WAIT.min(at.saturating_duration_since(Instant::now())));
            if !self.drain(wait) {
                return None;
            }
            if next_flush.is_some_and(|at| Instant::now() >= at) {
                next_flush = self.next_flush();
                self.flush(None);
            }
            let command = lock(&self.shared.commands).pop_front();
            match command {
                Some(Command::Snapshot(reply)) => {
                    self.drain(Duration::ZERO);
                    self.flush(Some(reply));
                }
                Some(Command::Finish(reply)) => return Some(reply),
                Some(Command::Stop) => return None,
                None => {}
            }
        }
    }

    fn next_flush(&mut self) -> Option<Instant> {
        self.interval.as_mut().map(|interval| Instant::now() + interval.next())
    }

    /// Passes on what waits; false when nothing will come any more.
    fn drain(&mut self, wait: Duration) -> bool {
        let more = self.source.next(wait, &mut self.batch).unwrap_or_else(|error| {
            self.shared.update(|state| state.broken = Some(error.to_string()));
            false
        });
        if self.batch.is_empty() {
            return more;
        }
        let fresh = self.used.try_recv().unwrap_or_default();
        let batch = Message::Batch(std::mem::replace(&mut self.batch, fresh));
        match self.batches.try_send(batch) {
            // The pipeline is behind: what comes next goes into the same batch, as long as that has a bound.
            Err(TrySendError::Full(Message::Batch(batch))) if batch.size() < BATCH_BYTES => {
                self.batch = batch
            }
            Err(TrySendError::Full(batch)) => return self.batches.send(batch).is_ok() && more,
            Err(TrySendError::Disconnected(_)) => return false,
            Ok(()) => {}
        }
        more
    }

    fn flush(&mut self, reply: Reply) {
        if !self.batch.is_empty() {
            let _ = self.batches.send(Message::Batch(std::mem::take(&mut self.batch)));
        }
        self.send_flush(reply);
    }

    fn send_flush(&mut self, reply: Reply) {
        // Without a receiver the profiler is ending.
        let _ = self.batches.send(Message::Flush(reply, self.source.counts()));
    }
}

/// Walks and aggregates.
struct Process {
    pipeline: Pipeline,
    used: SyncSender<Batch>,
    names: Sender<(PendingProfile, Reply)>,
    shared: Arc<Shared>,
    lost: u64,
    recorder: Option<Recorder>,
}

impl Process {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut running = self.pipeline.registry().running();
        while let Some(message) = self.next(messages, &mut running) {
            match message {
                Message::Batch(mut batch) => {
                    // Here and not where it is drained, so that the answers to what it asks stand behind it.
                    if let Some(recorder) = &self.recorder {
                        recorder.batch(&batch);
                    }
                    self.pipeline.take(&mut batch);
                    batch.clear();
                    let _ = self.used.try_send(batch);
                }
                Message::Flush(reply, counts) => self.flush(reply, counts),
            }
        }
    }

    /// The next message. As long as there is none, learns of what runs, so that what it forks is known too.
    fn next(&mut self, messages: &Receiver<Message>, running: &mut Vec<u32>) -> Option<Message> {
        loop {
            match messages.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            match running.pop() {
                Some(pid) => self.pipeline.registry().scan_process(pid),
                None => return messages.recv().ok(),
            }
        }
    }

    fn flush(&mut self, reply: Reply, counts: Counts) {
        if let Some(recorder) = &self.recorder {
            recorder.flush(&counts);
        }
        let mut pending = self.pipeline.finish();
        let lost = counts.get(Counter::RingFull);
        pending.record_loss(Counter::RingFull.text(), lost - self.lost);
        self.lost = lost;
        // The time of day may have been set since then.
        self.pipeline.set_clock(clock::now());
        let stats = self.pipeline.stats();
        self.shared.update(|state| (state.counts, state.pipeline) = (counts, stats));
        let _ = self.names.send((pending, reply));
    }
}

/// Gives names and feeds the sinks.
struct Name {
    symbolizer: Box<dyn Symbolizer>,
    sinks: Vec<Box<dyn Sink>>,
    shared: Arc<Shared>,
    is_recorded: bool,
}

impl Name {
    fn run(mut self, profiles: &Receiver<(PendingProfile, Reply)>) {
        while let Ok((pending, reply)) = profiles.recv() {
            match reply {
                Some(reply) => {
                    // Who asked may have gone away.
                    let _ = reply.send(pending.symbolize(&mut *self.symbolizer));
                }
                None if self.sinks.is_empty() => {
                    if self.is_recorded {
                        pending.symbolize(&mut KernelOnly(&mut *self.symbolizer));
                    }
                }
                None => {
                    let profile = pending.symbolize(&mut *self.symbolizer);
                    self.each(|sink| sink.take(&profile));
                }
            }
        }
        self.each(|sink| sink.flush());
    }

    fn each(&mut self, mut act: impl FnMut(&mut dyn Sink) -> Result<(), crate::sink::SinkError>) {
        for sink in &mut self.sinks {
            if let Err(error) = act(&mut **sink) {
                self.shared.update(|state| state.sink_failed(error.to_string()));
            }
        }
    }
}
