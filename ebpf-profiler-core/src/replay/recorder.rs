//! Writes a recording while the profiler runs.
//!
//! ```text
//!   pipeline thread ──┐
//!   naming thread ────┴─► buffer ──► channel (bounded) ──► recording thread ──► file
//! ```
//!
//! Who records never waits for the disk. When the disk falls behind by more than the channel holds, or fails,
//! the recording ends there, with a sentence in [`RecordStats`]; the profiler goes on.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ebpf_programs::abi;

use super::encode::{Encoder, nanoseconds};
use super::record::{MAGIC, MAX_RECORD, Start, VERSION, kind};
use super::wanted::Wanted;
use crate::files;
use crate::pipeline::Clock;
use crate::sample::{Batch, Counts};
use crate::symbol::Symbol;

/// Bytes that go to the disk together.
const CHUNK: usize = 256 << 10;

/// Chunks at most on their way to the disk: 96 MiB, three times the largest batch.
const CHUNKS: usize = 384;

/// How long the end of a recording waits for the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes down what a [`Pipeline`](crate::pipeline::Pipeline) is given and what it asks.
///
/// It is a handle: clones write to the same recording.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ebpf_profiler_core::pipeline::Clock;
/// use ebpf_profiler_core::replay::{RecordOptions, Recorder, Replay};
/// use ebpf_profiler_core::sample::{Batch, Counts};
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

/// What a replay must know of the profiler that is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOptions {
    /// How the clock of events and the time of day hang together.
    pub clock: Clock,
    /// The time between two ticks of a CPU.
    pub period: Duration,
    /// When the profiler began; now, unless something else is said.
    pub start: SystemTime,
    /// The most bytes of tables that it keeps; 1 GiB, unless something else is said.
    pub table_memory: u64,
    /// The processes that are asked for; all where there is none.
    pub pids: Vec<u32>,
}

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStats {
    /// Bytes that were written.
    pub bytes: u64,
    /// Events and answers that were left out because the recording had ended before.
    pub left_out: u64,
    /// Why it ended before the profiler did.
    ///
    /// What came before can be replayed, unless it was the disk that failed.
    pub error: Option<String>,
}

#[derive(Debug)]
struct State {
    buffer: Vec<u8>,
    /// None when the recording has ended.
    chunks: Option<SyncSender<Vec<u8>>>,
    /// Answers when the recording thread has ended.
    ended: Option<Receiver<()>>,
    /// Addresses of the kernel whose names are written.
    named: HashSet<u64>,
    has_image: bool,
    wanted: Wanted,
    stats: RecordStats,
}

impl RecordOptions {
    /// Of the whole machine, from now on.
    pub fn new(clock: Clock, period: Duration) -> RecordOptions {
        RecordOptions { clock, period, start: SystemTime::now(), table_memory: 1 << 30, pids: Vec::new() }
    }

    fn start(&self) -> Start {
        Start {
            clock: self.clock.offset,
            period: nanoseconds(self.period),
            time: since_1970(self.start),
            memory: self.table_memory,
            pids: self.pids.clone(),
        }
    }
}

impl Recorder {
    /// Starts a recording in a new file with mode `0600`, which replaces a regular file of that name.
    ///
    /// A pipe or a character device is written to.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or a thread cannot be started. A symbolic link of another user, a file of
    /// another user in a folder such as `/tmp`, and a pipe without a reader are refused.
    pub fn create(path: impl AsRef<Path>, options: &RecordOptions) -> io::Result<Recorder> {
        Recorder::new(files::create_private(path.as_ref())?, options)
    }

    /// Begins a recording.
    ///
    /// # Errors
    ///
    /// When a thread can't be started.
    pub fn new(out: impl Write + Send + 'static, options: &RecordOptions) -> io::Result<Recorder> {
        let (chunks, chunks_out) = sync_channel(CHUNKS);
        let (ended_in, ended) = channel();
        let mut state = State {
            buffer: Vec::new(),
            chunks: Some(chunks),
            ended: Some(ended),
            named: HashSet::new(),
            has_image: false,
            wanted: Wanted::new(&options.pids),
            stats: RecordStats::default(),
        };
        state.begin(&options.start());
        let recorder = Recorder { state: Arc::new(Mutex::new(state)) };
        let shared = recorder.clone();
        std::thread::Builder::new().name("ebpf-record".to_owned()).spawn(move || {
            shared.write(out, &chunks_out);
            // Whoever waited may have given up.
            let _ = ended_in.send(());
        })?;
        Ok(recorder)
    }

    /// Writes down a batch that is about to be taken by the pipeline, but no stacks of processes that weren't
    /// asked for.
    pub fn batch(&self, batch: &Batch) {
        let mut state = self.lock();
        state.wanted.follow(batch);
        for words in batch.ticks() {
            let words = state.wanted.cut(words);
            state.put(|encoder| encoder.tick(&words));
        }
        for event in batch.life() {
            state.record(kind::LIFE, |body| body.life(event));
        }
        state.record(kind::BATCH, |_| ());
    }

    /// Writes down that a profile ends here, and brings what is written to the disk.
    pub fn flush(&self, counts: &Counts) {
        let mut state = self.lock();
        state.record(kind::FLUSH, |body| {
            body.u64(since_1970(SystemTime::now()));
            body.counts(counts);
        });
        state.hand_over();
    }

    /// Writes down what the functions at an address of the kernel are called.
    pub fn kernel(&self, address: u64, functions: &[Symbol]) {
        let mut state = self.lock();
        if state.named.insert(address) {
            state.record(kind::KERNEL, |body| {
                body.u64(address);
                body.symbols(functions);
            });
        }
    }

    /// Ends the recording, when nothing asks or is given any more.
    pub fn finish(&self) -> RecordStats {
        let mut state = self.lock();
        state.hand_over();
        state.chunks = None;
        let ended = state.ended.take();
        drop(state);
        if ended.is_some_and(|ended| ended.recv_timeout(PATIENCE).is_err()) {
            self.lock().fail("the disk did not take the rest in time".to_owned());
        }
        self.stats()
    }

    /// What became of it so far.
    pub fn stats(&self) -> RecordStats {
        self.lock().stats.clone()
    }

    /// Writes down an answer.
    pub(super) fn answer(&self, kind: u32, body: impl FnOnce(&mut Encoder<'_>)) {
        self.lock().record(kind, body);
    }

    /// Writes down the code that the kernel lends to every process, once.
    pub(super) fn image(&self, image: impl FnOnce() -> io::Result<Vec<u8>>) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.has_image, true)
            && let Ok(image) = image()
        {
            state.record(kind::IMAGE, |body| body.bytes(&image));
        }
    }

    /// The recording thread.
    fn write(&self, mut out: impl Write, chunks: &Receiver<Vec<u8>>) {
        let mut write = |chunk: &[u8]| {
            out.write_all(chunk)?;
            self.lock().stats.bytes += chunk.len() as u64;
            out.flush()
        };
        let written = chunks.iter().try_for_each(|chunk| write(&chunk)).and_then(|()| write(&self.end()));
        if let Err(error) = written {
            self.lock().fail(format!("the recording can't be written: {error}"));
        }
    }

    /// The last record: chunks end with a record, so it fits behind any of them.
    fn end(&self) -> Vec<u8> {
        let is_early = self.lock().stats.error.is_some();
        let mut end = Vec::new();
        Encoder(&mut end).record(kind::END, |body| {
            body.u64(since_1970(SystemTime::now()));
            body.u32(is_early.into());
        });
        end
    }

    /// A thread that panicked while it held the lock left whole records.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, start: &Start) {
        self.buffer.extend(MAGIC);
        let mut encoder = Encoder(&mut self.buffer);
        encoder.u32(VERSION);
        encoder.u32(abi::VERSION);
        encoder.record(kind::START, |body| body.start(start));
    }

    fn record(&mut self, kind: u32, body: impl FnOnce(&mut Encoder<'_>)) {
        self.put(|encoder| {
            encoder.record(kind, body);
        });
    }

    /// Writes one record, unless the recording has ended.
    fn put(&mut self, record: impl FnOnce(&mut Encoder<'_>)) {
        if self.chunks.is_none() {
            self.stats.left_out += 1;
            return;
        }
        let before = self.buffer.len();
        record(&mut Encoder(&mut self.buffer));
        if self.buffer.len() - before > MAX_RECORD {
            self.buffer.truncate(before);
            return self.fail("something is too large to be recorded".to_owned());
        }
        if self.buffer.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Hands what is in the buffer to the recording thread.
    fn hand_over(&mut self) {
        let Some(chunks) = self.chunks.as_ref().filter(|_| !self.buffer.is_empty()) else { return };
        match chunks.try_send(std::mem::take(&mut self.buffer)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.fail("the recording can't be written as fast as events come".to_owned());
            }
            // The thread has said why.
            Err(TrySendError::Disconnected(_)) => self.chunks = None,
        }
    }

    /// Ends the recording early; the first reason stays.
    fn fail(&mut self, error: String) {
        self.chunks = None;
        self.buffer = Vec::new();
        self.stats.error.get_or_insert(error);
    }
}

fn since_1970(time: SystemTime) -> u64 {
    nanoseconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}
