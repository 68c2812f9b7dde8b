//! Opens and replays recordings.

use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Duration;

use super::decode::{self, from_1970};
use super::incomplete::Incomplete;
use super::kernel_names::RecordedNames;
use super::reader::{Input, Reader};
use super::record::{Start, Step};
use super::recorded_system::{Index, RecordedJournal, RecordedSystem};
use super::run::{Profiles, Run};
use super::source::RecordedSource;
use crate::files;
use crate::pipeline::{Clock, Pipeline, PipelineStats};
use crate::profile::Profile;
use crate::registry::Registry;
use crate::sample::{Source, SourceError};
use crate::sink::{Sink, SinkError};
use crate::symbol::{Symbolizer, Symbols};
use crate::tables::MemoryTables;
use crate::unwind::UnwindCompiler;

/// Maximum capacity for unwind tables in bytes, whatever the recording asks for.
const MAX_MEMORY: u64 = 1 << 30;

/// A recording, replayed through the same [`Pipeline`] that it was taken from.
///
/// A recording whose program was killed, or whose disk was full, is replayed up to its last whole
/// record; [`incomplete`](Replay::incomplete) returns the reason.
///
/// # Examples
///
/// ```no_run
/// use ebpf_profiler_core::replay::Replay;
///
/// let profile = Replay::open("run.ticks")?.profile()?;
/// profile.write("machine.html")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "perf script")]
#[must_use = "nothing is replayed before a profile is requested"]
pub struct Replay {
    input: Box<dyn Input>,
    index: Index,
    compiler: Option<Box<dyn UnwindCompiler>>,
    symbolizer: Option<Box<dyn Symbolizer>>,
    sinks: Vec<Box<dyn Sink>>,
}

/// Result of a replay into sinks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Number of profiles offered to each sink, whether or not it took them; see `sink_errors`.
    pub profiles: u64,
    /// Counters of the pipeline.
    pub pipeline: PipelineStats,
    /// Errors returned by sinks.
    pub sink_errors: Vec<String>,
}

impl Replay {
    /// Opens a recording and reads it once, to index the answers in it.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a regular file that can be read, is no recording, or holds no whole
    /// record.
    pub fn open(path: impl AsRef<Path>) -> Result<Replay, SourceError> {
        Replay::read(files::open(path.as_ref())?)
    }

    /// Reads a recording, as [`open`](Replay::open) does, from any input that can be read twice. It
    /// stays on the input: only an index of it is in memory.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be read, is no recording, or holds no whole record.
    pub fn read(mut input: impl Read + Seek + Send + 'static) -> Result<Replay, SourceError> {
        let index = index(&mut input)?;
        Ok(Replay { input: Box::new(input), index, compiler: None, symbolizer: None, sinks: Vec::new() })
    }

    /// Sets the compiler of unwind tables: `ebpf_profiler_unwind::tables()`. Without it, raw
    /// samples are unwound by frame pointers only.
    pub fn unwind(mut self, compiler: impl UnwindCompiler + 'static) -> Replay {
        self.compiler = Some(Box::new(compiler));
        self
    }

    /// Sets the symbolizer of native code. The default reads symbol tables and debug information of
    /// those recorded files that are unchanged on this machine. Names of kernel functions are
    /// in the recording.
    pub fn symbolizer(mut self, symbolizer: impl Symbolizer + 'static) -> Replay {
        self.symbolizer = Some(Box::new(symbolizer));
        self
    }

    /// Adds a sink for the profiles of [`run`](Replay::run).
    pub fn sink(mut self, sink: impl Sink + 'static) -> Replay {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Returns the reason why the recording ends before the profiler did; `None` if it is complete.
    pub fn incomplete(&self) -> Option<Incomplete> {
        self.index.incomplete
    }

    /// Replays the whole recording into one profile.
    ///
    /// # Errors
    ///
    /// Fails if the recording cannot be read any more or contradicts itself.
    pub fn profile(self) -> Result<Profile, SourceError> {
        self.start()?.0.whole()
    }

    /// Returns the profiles that the profiler finished, in their order.
    ///
    /// # Errors
    ///
    /// Fails if the recording cannot be read any more.
    pub fn profiles(self) -> Result<Profiles, SourceError> {
        Ok(Profiles(self.start()?.0))
    }

    /// Replays the profiles that the profiler finished into the sinks.
    ///
    /// # Errors
    ///
    /// Fails if the recording cannot be read any more or contradicts itself.
    pub fn run(self) -> Result<Replayed, SourceError> {
        let (mut run, mut sinks) = self.start()?;
        let mut replayed = Replayed::default();
        while let Some(profile) = run.next()? {
            replayed.profiles += 1;
            replayed.each(&mut sinks, |sink| sink.take(&profile));
        }
        replayed.each(&mut sinks, |sink| sink.flush());
        replayed.pipeline = run.stats();
        Ok(replayed)
    }

    /// Returns the event stream alone.
    ///
    /// # Errors
    ///
    /// Fails if the recording cannot be read any more.
    pub fn source(mut self) -> Result<impl Source, SourceError> {
        self.input.rewind()?;
        let (reader, start) = Reader::open(self.input)?;
        Ok(RecordedSource::new(reader, &start))
    }

    fn start(mut self) -> Result<(Run, Vec<Box<dyn Sink>>), SourceError> {
        self.input.rewind()?;
        let (reader, start) = Reader::open(self.input)?;
        let Index { answers, journal, kernel, .. } = self.index;
        let system = Box::new(RecordedSystem::new(answers));
        let symbolizer = self.symbolizer.unwrap_or_else(|| Box::new(Symbols::default()));
        let run = Run::new(
            RecordedSource::new(reader, &start),
            pipeline(&start, system, journal, self.compiler),
            RecordedNames { symbolizer, kernel },
            from_1970(start.time),
        );
        Ok((run, self.sinks))
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("incomplete", &self.index.incomplete).finish_non_exhaustive()
    }
}

impl Replayed {
    fn each(
        &mut self,
        sinks: &mut [Box<dyn Sink>],
        mut act: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>,
    ) {
        let errors = sinks.iter_mut().filter_map(|sink| act(&mut **sink).err());
        self.sink_errors.extend(errors.map(|error| error.to_string()));
    }
}

/// Reads the answers ahead: each one follows the events that led to its question.
fn index(input: &mut impl Read) -> Result<Index, SourceError> {
    let (mut reader, _) = Reader::open(input)?;
    let mut index = Index::default();
    while let Some((kind, body)) = reader.next()? {
        if let Some(Step::End(end)) = decode::step(kind, body)? {
            index.incomplete = end.is_early.then_some(Incomplete::Ended);
            reader.end()?;
            return Ok(index);
        }
        if let Some(entry) = decode::entry(kind, body)? {
            index.add(entry);
        }
    }
    let (whole, partial) = reader.sizes();
    index.incomplete = Some(Incomplete::Truncated { whole, partial });
    Ok(index)
}

fn pipeline(
    start: &Start,
    system: Box<RecordedSystem>,
    journal: RecordedJournal,
    compiler: Option<Box<dyn UnwindCompiler>>,
) -> Pipeline {
    let memory = start.memory.min(MAX_MEMORY);
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), compiler, memory);
    registry.set_journal(Box::new(journal));
    registry.set_filter(&start.pids);
    registry.scan();
    registry.prepare(0);
    let clock = Clock { offset: start.clock };
    let mut pipeline = Pipeline::new(registry, clock, Duration::from_nanos(start.period));
    pipeline.set_kinds(start.kinds.clone());
    pipeline
}
