//! Writes a recording while the profiler runs.
//!
//! ```text
//!   pipeline thread ──┐
//!   naming thread ────┴─► buffer ──► channel (bounded) ──► recording thread ──► file
//! ```
//!
//! The profiler never waits for the disk. If the disk fails, or falls behind by more than the
//! channel holds, the recording ends with an error in [`RecordStats`] and the profiler continues.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::encode::{Encoder, nanoseconds, since_1970};
use super::process_filter::ProcessFilter;
use super::record::{MAGIC, MAX_RECORD, Start, VERSION, kind};
use crate::files;
use crate::pipeline::Clock;
use crate::process::Pids;
use crate::profile::SampleKind;
use crate::sample::{Batch, Counts};
use crate::symbol::Symbol;

/// Size of one write in bytes.
const CHUNK: usize = 256 << 10;

/// Capacity of the channel in chunks: 96 MiB, three times the largest batch.
const CHUNKS: usize = 384;

/// Maximum time between two writes: what a program that is killed loses.
const INTERVAL: Duration = Duration::from_secs(1);

/// Deadline for the last writes.
const DEADLINE: Duration = Duration::from_secs(10);

/// Records what a [`Pipeline`](crate::pipeline::Pipeline) takes and asks.
///
/// Clones write to the same recording.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ebpf_profiler_core::internal::pipeline::Clock;
/// use ebpf_profiler_core::internal::replay::{RecordOptions, Recorder};
/// use ebpf_profiler_core::replay::Replay;
/// use ebpf_profiler_core::internal::sample::{Batch, Counts};
///
/// let path = std::env::temp_dir().join(format!("recorder-{}.ticks", std::process::id()));
/// let recorder = Recorder::create(&path, &RecordOptions::new(Clock::default(), Duration::from_millis(10)))?;
/// recorder.batch(&Batch::default());
/// recorder.flush(&Counts::default());
/// assert_eq!(recorder.finish().error, None);
///
/// let profile = Replay::open(&path)?.profile()?;
/// assert_eq!(profile.count(), 0);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
}

/// Configuration of the profiler that is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOptions {
    /// Conversion from the clock of events to the time of day.
    pub clock: Clock,
    /// Sampling period of each CPU.
    pub period: Duration,
    /// Start time; defaults to now.
    pub start: SystemTime,
    /// Capacity for unwind tables in bytes; defaults to 1 GiB.
    pub table_memory: u64,
    /// Processes that are profiled.
    pub pids: Pids,
    /// Kinds of samples; CPU time alone by default.
    pub kinds: Vec<SampleKind>,
}

/// Counters of a recording, and the error that ended it early; in
/// [`Health::recording`](crate::live::Health::recording).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Bytes written.
    pub bytes: u64,
    /// Events and answers dropped after the recording had ended.
    pub left_out: u64,
    /// Error that ended the recording before the profiler. What was written before can be replayed.
    pub error: Option<String>,
}

#[derive(Debug)]
struct State {
    buffer: Vec<u8>,
    /// Channel to the recording thread; `None` once the recording has ended.
    chunks: Option<SyncSender<Vec<u8>>>,
    /// Receives a message when the recording thread ends.
    ended: Option<Receiver<()>>,
    /// Kernel addresses whose names are recorded.
    named: HashSet<u64>,
    has_image: bool,
    filter: ProcessFilter,
    /// Time of the last write.
    written: Instant,
    stats: RecordStats,
}

impl RecordOptions {
    /// Returns the configuration for all processes, starting now.
    pub fn new(clock: Clock, period: Duration) -> RecordOptions {
        RecordOptions {
            clock,
            period,
            start: SystemTime::now(),
            table_memory: 1 << 30,
            pids: Pids::All,
            kinds: vec![SampleKind::cpu(period)],
        }
    }

    fn start(&self) -> Start {
        Start {
            clock: self.clock.offset,
            period: nanoseconds(self.period),
            time: since_1970(self.start),
            memory: self.table_memory,
            pids: self.pids.clone(),
            kinds: self.kinds.clone(),
        }
    }
}

impl Recorder {
    /// Starts a recording in a new file with mode `0600`, which replaces a regular file of that
    /// name.
    ///
    /// A pipe or a character device is written to.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or a thread cannot be started. A symbolic link of
    /// another user, a file of another user in a folder such as `/tmp`, and a pipe without a
    /// reader are refused.
    pub fn create(path: impl AsRef<Path>, options: &RecordOptions) -> io::Result<Recorder> {
        Recorder::new(files::create_private(path.as_ref())?, options)
    }

    /// Starts a recording into any output.
    ///
    /// # Errors
    ///
    /// Fails if a thread cannot be started.
    pub fn new(out: impl Write + Send + 'static, options: &RecordOptions) -> io::Result<Recorder> {
        let (chunks, chunks_out) = sync_channel(CHUNKS);
        let (ended_in, ended) = channel();
        let mut state = State {
            buffer: Vec::new(),
            chunks: Some(chunks),
            ended: Some(ended),
            named: HashSet::new(),
            has_image: false,
            filter: ProcessFilter::new(&options.pids),
            written: Instant::now(),
            stats: RecordStats::default(),
        };
        state.begin(&options.start());
        state.hand_over();
        let recorder = Recorder { state: Arc::new(Mutex::new(state)) };
        let shared = recorder.clone();
        std::thread::Builder::new().name("ebpf-record".to_owned()).spawn(move || {
            shared.write(out, &chunks_out);
            // The receiver may have given up.
            let _ = ended_in.send(());
        })?;
        Ok(recorder)
    }

    /// Records a batch, before the pipeline takes it. With processes configured, stacks of others
    /// are left out.
    pub fn batch(&self, batch: &Batch) {
        let mut state = self.lock();
        state.filter.follow(batch);
        for words in batch.ticks() {
            let words = state.filter.cut(words);
            state.put(|encoder| encoder.tick(&words));
        }
        for event in batch.life() {
            state.record(kind::LIFE, |body| body.life(event));
        }
        state.record(kind::BATCH, |_| ());
        if state.written.elapsed() >= INTERVAL {
            state.hand_over();
        }
    }

    /// Records the end of a profile and hands the buffer to the recording thread.
    pub fn flush(&self, counts: &Counts) {
        let mut state = self.lock();
        state.record(kind::FLUSH, |body| {
            body.u64(since_1970(SystemTime::now()));
            body.counts(counts);
        });
        state.hand_over();
    }

    /// Records the names of the functions at a kernel address.
    pub fn kernel(&self, address: u64, functions: &[Symbol]) {
        let mut state = self.lock();
        if state.named.insert(address) {
            state.record(kind::KERNEL, |body| {
                body.u64(address);
                body.symbols(functions);
            });
        }
    }

    /// Records a change of settings, after the profile that it ends was flushed.
    #[cfg(feature = "live")]
    pub(crate) fn settings(&self, period: Duration, pids: &Pids) {
        let mut state = self.lock();
        state.filter = ProcessFilter::new(pids);
        state.record(kind::SETTINGS, |body| {
            body.u64(nanoseconds(period));
            body.pids(&pids.to_list());
        });
    }

    /// Ends the recording. Waits at most 10 s for the disk.
    pub fn finish(&self) -> RecordStats {
        self.finish_within(DEADLINE)
    }

    /// Ends the recording; waits for the disk at most for `limit`.
    pub(crate) fn finish_within(&self, limit: Duration) -> RecordStats {
        let mut state = self.lock();
        state.hand_over();
        state.chunks = None;
        let ended = state.ended.take();
        drop(state);
        if ended.is_some_and(|ended| ended.recv_timeout(limit).is_err()) {
            self.lock().fail(format!("the disk did not take the last writes within {limit:?}"));
        }
        self.stats()
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> RecordStats {
        self.lock().stats.clone()
    }

    /// Records an answer.
    pub(super) fn answer(&self, kind: u32, body: impl FnOnce(&mut Encoder<'_>)) {
        self.lock().record(kind, body);
    }

    /// Records the contents of the vDSO, once.
    pub(super) fn image(&self, image: impl FnOnce() -> io::Result<Vec<u8>>) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.has_image, true)
            && let Ok(image) = image()
        {
            state.record(kind::IMAGE, |body| body.bytes(&image));
        }
    }

    /// Runs the recording thread.
    fn write(&self, mut out: impl Write, chunks: &Receiver<Vec<u8>>) {
        let mut write = |chunk: &[u8]| {
            out.write_all(chunk)?;
            self.lock().stats.bytes += chunk.len() as u64;
            out.flush()
        };
        let written = chunks.iter().try_for_each(|chunk| write(&chunk)).and_then(|()| write(&self.end()));
        if let Err(error) = written {
            self.lock().fail(format!("the recording cannot be written: {error}"));
        }
    }

    /// Returns the end record. Each chunk ends with a whole record.
    fn end(&self) -> Vec<u8> {
        let is_early = self.lock().stats.error.is_some();
        let mut end = Vec::new();
        Encoder(&mut end).record(kind::END, |body| {
            body.u64(since_1970(SystemTime::now()));
            body.u32(is_early.into());
        });
        end
    }

    /// Locks the state, which is consistent even after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, start: &Start) {
        self.buffer.extend(MAGIC);
        let mut encoder = Encoder(&mut self.buffer);
        encoder.u32(VERSION);
        encoder.u32(0);
        encoder.record(kind::START, |body| body.start(start));
    }

    fn record(&mut self, kind: u32, body: impl FnOnce(&mut Encoder<'_>)) {
        self.put(|encoder| {
            encoder.record(kind, body);
        });
    }

    /// Appends one record, unless the recording has ended.
    fn put(&mut self, record: impl FnOnce(&mut Encoder<'_>)) {
        if self.chunks.is_none() {
            self.stats.left_out += 1;
            return;
        }
        let before = self.buffer.len();
        record(&mut Encoder(&mut self.buffer));
        if self.buffer.len() - before > MAX_RECORD {
            self.buffer.truncate(before);
            return self.fail("a record exceeds 16 MiB".to_owned());
        }
        if self.buffer.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Hands the buffer to the recording thread.
    fn hand_over(&mut self) {
        self.written = Instant::now();
        let Some(chunks) = self.chunks.as_ref().filter(|_| !self.buffer.is_empty()) else { return };
        match chunks.try_send(std::mem::take(&mut self.buffer)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.fail("the disk is slower than the events".to_owned());
            }
            // The thread has set the error.
            Err(TrySendError::Disconnected(_)) => self.chunks = None,
        }
    }

    /// Ends the recording early and keeps the first error.
    fn fail(&mut self, error: String) {
        self.chunks = None;
        self.buffer = Vec::new();
        self.stats.error.get_or_insert(error);
    }
}
