//! The one type that most embedders touch.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ebpf_programs::abi::arena::{BLOCK, CHUNK_BLOCKS, CHUNKS};
use ebpf_programs::abi::reason::Counter;

use super::clock;
use super::error::StartError;
use super::interval::Interval;
use super::kernel_names::LiveNames;
use super::loader::{self, Loaded};
use super::perf;
use super::priority;
use super::source::{LiveSource, Waker};
use super::system::LiveSystem;
use super::threads::{self, Command, Parts, Shared, State};
use super::usage::Usage;
use crate::language::Language;
use crate::pipeline::{Clock, Pipeline, PipelineStats};
use crate::process::System;
use crate::profile::Profile;
use crate::registry::Registry;
use crate::replay::{RecordOptions, RecordStats, Recorder, RecordingSymbolizer, RecordingSystem};
use crate::sink::Sink;
use crate::symbol::{Symbolizer, Symbols};
use crate::unwind::UnwindCompiler;

/// A profiler of the running machine.
///
/// It runs in threads of its own from [`Builder::start`] on, until it is stopped or dropped.
///
/// # Minimum kernel version
///
/// 5.17, with type information (`/sys/kernel/btf/vmlinux`).
#[must_use = "a profiler that is dropped stops"]
pub struct Profiler {
    shared: Arc<Shared>,
    waker: Waker,
    threads: Vec<JoinHandle<()>>,
    recorder: Option<Recorder>,
}

/// How a [`Profiler`] is to be.
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    hertz: u32,
    ring: u32,
    memory: u64,
    exclude_self: bool,
    pids: Vec<u32>,
    compiler: Option<Box<dyn UnwindCompiler>>,
    languages: Vec<Box<dyn Language>>,
    symbolizer: Option<Box<dyn Symbolizer>>,
    sinks: Vec<Box<dyn Sink>>,
    interval: Option<Duration>,
    jitter: f64,
    recording: Option<PathBuf>,
}

/// How a profiler did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// Ticks that the kernel side took.
    pub ticks: u64,
    /// Of those, the ones of processes that weren't asked for.
    pub filtered: u64,
    /// Of those, the ones that didn't fit into the ring.
    pub lost: u64,
    /// Bytes that went through the ring.
    pub bytes: u64,
    /// How often the kernel side woke this program.
    pub wakeups: u64,
    /// How often the kernel ran the sampling program, where it keeps statistics (`kernel.bpf_stats_enabled`).
    pub runs: u64,
    /// How long that took in all.
    pub run_time: Duration,
    /// What became of the rest.
    pub pipeline: PipelineStats,
    /// What sinks answered that couldn't take a profile, the last hundred times.
    pub sink_errors: Vec<String>,
    /// What became of the recording, where one was asked for.
    pub recording: Option<RecordStats>,
    /// What this program has cost up to now.
    pub usage: Usage,
}

/// Why there is no profile.
#[derive(Debug)]
#[non_exhaustive]
pub enum StopError {
    /// The stream of events broke.
    Broken(String),
    /// A thread of the profiler is gone: a bug.
    Gone,
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::Broken(error) => f.write_str(error),
            StopError::Gone => {
                f.write_str("a thread of the profiler panicked; please report what it printed")
            }
        }
    }
}

impl std::error::Error for StopError {}

impl Profiler {
    /// Whole system, 19 ticks a second, nothing plugged in.
    pub fn builder() -> Builder {
        Builder {
            hertz: 19,
            ring: 4 << 20,
            memory: u64::from(CHUNKS) * u64::from(CHUNK_BLOCKS) * BLOCK as u64,
            exclude_self: true,
            pids: Vec::new(),
            compiler: None,
            languages: Vec::new(),
            symbolizer: None,
            sinks: Vec::new(),
            interval: None,
            jitter: 0.0,
            recording: None,
        }
    }

    /// Runs for a while and stops; what was seen.
    ///
    /// # Errors
    ///
    /// When the stream of events broke on the way.
    pub fn run_for(self, duration: Duration) -> Result<Profile, StopError> {
        std::thread::sleep(duration);
        Ok(self.finish()?.0)
    }

    /// Stops; what was seen since the start or the last snapshot, and how it did.
    ///
    /// The clocks are stopped first, so every tick that was taken is in the account.
    ///
    /// # Errors
    ///
    /// When the stream of events broke on the way.
    pub fn finish(mut self) -> Result<(Profile, Health), StopError> {
        let profile = self.ask(Command::Finish)?;
        self.join()?;
        Ok((profile, self.health()))
    }

    /// What was seen since the start, or since the last time that this was asked.
    ///
    /// # Errors
    ///
    /// When the stream of events broke.
    pub fn snapshot(&self) -> Result<Profile, StopError> {
        self.ask(Command::Snapshot)
    }

    fn ask(&self, command: impl Fn(Sender<Profile>) -> Command) -> Result<Profile, StopError> {
        let (reply, profile) = channel();
        self.shared.push(command(reply));
        self.waker.wake();
        profile.recv().map_err(|_| match self.shared.state().broken {
            Some(error) => StopError::Broken(error),
            None => StopError::Gone,
        })
    }

    /// How it did up to the last profile that was finished.
    pub fn health(&self) -> Health {
        let State { counts, pipeline, sink_errors, .. } = self.shared.state();
        Health {
            ticks: counts.get(Counter::Events),
            filtered: counts.get(Counter::Filtered),
            lost: counts.get(Counter::RingFull),
            bytes: counts.get(Counter::Bytes),
            wakeups: counts.get(Counter::Wakeups),
            runs: counts.runs,
            run_time: counts.run_time,
            pipeline,
            sink_errors,
            recording: self.recorder.as_ref().map(Recorder::stats),
            usage: Usage::now(),
        }
    }

    /// Whether it still profiles: the stream of events can break, and then [`stop`](Profiler::stop) says why.
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops, flushes the sinks, and says how it did.
    ///
    /// # Errors
    ///
    /// When the stream of events broke on the way.
    pub fn stop(mut self) -> Result<Health, StopError> {
        self.end()?;
        match self.shared.state().broken {
            Some(error) => Err(StopError::Broken(error)),
            None => Ok(self.health()),
        }
    }

    fn end(&mut self) -> Result<(), StopError> {
        self.shared.push(Command::Stop);
        self.waker.wake();
        self.join()
    }

    fn join(&mut self) -> Result<(), StopError> {
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        if let Some(recorder) = &self.recorder {
            recorder.finish();
        }
        if joined.iter().any(Result::is_err) { Err(StopError::Gone) } else { Ok(()) }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            // Nobody is left to tell.
            let _ = self.end();
        }
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl Builder {
    /// Ticks a second on each CPU, 1 to 10,000. A prime number doesn't beat in time with what is profiled.
    pub fn frequency(mut self, hertz: u32) -> Builder {
        self.hertz = hertz;
        self
    }

    /// Samples this process and what it forks from now on, and no other. May be called several times.
    pub fn pid(mut self, pid: u32) -> Builder {
        self.pids.push(pid);
        self
    }

    /// Builds unwind tables: `ebpf_profiler_unwind::tables()`. Without it only frame pointers are followed.
    pub fn unwind(mut self, compiler: impl UnwindCompiler + 'static) -> Builder {
        self.compiler = Some(Box::new(compiler));
        self
    }

    /// Names the functions of scripts: `ebpf_profiler_hll::all()`. May be called several times. Without it a script
    /// shows as the native code of its interpreter.
    pub fn languages(mut self, languages: impl IntoIterator<Item = Box<dyn Language>>) -> Builder {
        self.languages.extend(languages);
        self
    }

    /// Gives names. Without it the symbol tables and debug information of this machine do.
    pub fn symbolizer(mut self, symbolizer: impl Symbolizer + 'static) -> Builder {
        self.symbolizer = Some(Box::new(symbolizer));
        self
    }

    /// Hands a profile to the sinks every `interval`, instead of one at the end.
    pub fn every(mut self, interval: Duration) -> Builder {
        self.interval = Some(interval);
        self
    }

    /// Lets each interval be longer or shorter by chance, by up to this share of it.
    ///
    /// With 0.2, machines that were started together don't send to their collector at the same moment forever.
    pub fn jitter(mut self, share: f64) -> Builder {
        // What is no number is no jitter.
        self.jitter = if share > 0.0 { share.min(0.9) } else { 0.0 };
        self
    }

    /// Takes finished profiles. May be called several times.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Builder {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Writes everything that profiles are made of to this file, for a
    /// [`Replay`](crate::replay::Replay) without privileges, on this machine or another.
    ///
    /// A disk that fails or falls behind ends the recording, not the profiler: [`Health::recording`] says so.
    /// Naming what the kernel's functions are called takes up to 100 ms at the end of a profile.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Builder {
        self.recording = Some(path.into());
        self
    }

    /// Samples this program too.
    pub fn include_self(mut self) -> Builder {
        self.exclude_self = false;
        self
    }

    /// The size of the ring in bytes; rounded up to a power of two. 4 MiB if nothing else is said.
    pub fn ring_size(mut self, bytes: u32) -> Builder {
        self.ring = bytes.clamp(64 << 10, 1 << 30).next_power_of_two();
        self
    }

    /// How many bytes of tables are kept at most; 1 GiB if nothing else is said.
    pub fn table_memory(mut self, bytes: u64) -> Builder {
        self.memory = self.memory.min(bytes);
        self
    }

    /// Loads the kernel side and starts the clocks.
    ///
    /// # Errors
    ///
    /// When something is missing; the error says what and how to get it.
    pub fn start(self) -> Result<Profiler, StartError> {
        self.check()?;
        let exclude = if self.exclude_self { std::process::id() } else { 0 };
        let raised = priority::raised();
        let Loaded { kernel, tables } = loader::load(self.ring, exclude)?;
        let period = Duration::from_nanos(1_000_000_000 / u64::from(self.hertz));
        let clock = clock::now();
        let recorder = self.recorder(clock, period)?;
        let symbolizer = self.symbolizer.unwrap_or_else(|| Box::new(symbols()));
        let (system, symbolizer) = recorded(recorder.as_ref(), symbolizer);
        let mut registry = Registry::new(system, Box::new(tables), self.compiler, self.memory);
        if let Some(recorder) = &recorder {
            registry.set_journal(Box::new(recorder.clone()));
        }
        registry.set_filter(&self.pids);
        registry.add_languages(self.languages);
        registry.prepare(perf::clock_now(libc::CLOCK_MONOTONIC));
        let (source, waker) = LiveSource::start(kernel, period)?;
        // The threads are to begin where this one stood.
        drop(raised);
        let parts = Parts {
            source: Box::new(source),
            pipeline: Pipeline::new(registry, clock, period),
            symbolizer,
            sinks: self.sinks,
            interval: self.interval.map(|length| Interval::new(length, self.jitter)),
            recorder: recorder.clone(),
        };
        let shared = Arc::new(Shared::default());
        let threads = threads::start(parts, &shared)
            .map_err(|error| StartError::System { what: "start a thread", error })?;
        Ok(Profiler { shared, waker, threads, recorder })
    }

    /// Begins the recording, when everything else that can go wrong has gone well.
    fn recorder(&self, clock: Clock, period: Duration) -> Result<Option<Recorder>, StartError> {
        let Some(path) = &self.recording else { return Ok(None) };
        let mut options = RecordOptions::new(clock, period);
        options.table_memory = self.memory;
        options.pids.clone_from(&self.pids);
        Recorder::create(path, &options)
            .map(Some)
            .map_err(|error| StartError::Recording { path: path.clone(), error })
    }

    fn check(&self) -> Result<(), StartError> {
        if !(1..=10_000).contains(&self.hertz) {
            return Err(StartError::Frequency { hertz: self.hertz });
        }
        LiveSystem.mappings(std::process::id()).map_err(|error| StartError::NoProc { error })?;
        if let Some(&pid) = self.pids.iter().find(|&&pid| LiveSystem.mappings(pid).is_err()) {
            return Err(StartError::NoProcess { pid });
        }
        if self.interval.is_some() && self.sinks.is_empty() {
            return Err(StartError::NoSink);
        }
        Ok(())
    }
}

/// Names of this machine; the kernel's by its own word where it gives that, else from its list.
fn symbols() -> Symbols {
    let symbols = Symbols::default();
    match LiveNames::load() {
        Ok(names) => symbols.with_kernel(Box::new(names)),
        Err(_) => symbols,
    }
}

/// The machine and the names, told to the recorder where there is one.
fn recorded(
    recorder: Option<&Recorder>,
    symbolizer: Box<dyn Symbolizer>,
) -> (Box<dyn System>, Box<dyn Symbolizer>) {
    match recorder {
        Some(recorder) => (
            Box::new(RecordingSystem::new(LiveSystem, recorder.clone())),
            Box::new(RecordingSymbolizer::new(symbolizer, recorder.clone())),
        ),
        None => (Box::new(LiveSystem), symbolizer),
    }
}
