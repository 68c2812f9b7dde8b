//! A recording as one looks at it.

use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::decode;
use super::kernel_names::RecordedNames;
use super::reader::Reader;
use super::record::{Start, Step};
use super::recorded_system::{Knowledge, RecordedJournal, RecordedSystem};
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

/// The most bytes of tables that are kept, whatever a recording says.
const MAX_MEMORY: u64 = 1 << 30;

/// A recording, to be replayed through the same [`Pipeline`] that it was taken from.
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
#[must_use = "nothing is replayed before a profile is asked for"]
pub struct Replay {
    input: Box<dyn Input>,
    knowledge: Knowledge,
    compiler: Option<Box<dyn UnwindCompiler>>,
    symbolizer: Option<Box<dyn Symbolizer>>,
    sinks: Vec<Box<dyn Sink>>,
}

/// What became of a recording that was replayed into sinks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Profiles that were handed to the sinks.
    pub profiles: u64,
    /// What the pipeline has seen.
    pub pipeline: PipelineStats,
    /// What sinks answered that couldn't take a profile.
    pub sink_errors: Vec<String>,
}

/// Bytes that can be read twice.
pub(super) trait Input: Read + Seek + Send {}

impl<T: Read + Seek + Send> Input for T {}

impl Replay {
    /// Opens a recording and looks through it once.
    ///
    /// # Errors
    ///
    /// When the file can't be read, isn't a recording, or was cut off.
    pub fn open(path: impl AsRef<Path>) -> Result<Replay, SourceError> {
        Replay::read(files::open(path.as_ref())?)
    }

    /// Takes a recording from anywhere.
    ///
    /// # Errors
    ///
    /// When it can't be read, isn't a recording, or was cut off.
    pub fn read(mut input: impl Read + Seek + Send + 'static) -> Result<Replay, SourceError> {
        let knowledge = look_through(&mut input)?;
        Ok(Replay { input: Box::new(input), knowledge, compiler: None, symbolizer: None, sinks: Vec::new() })
    }

    /// Builds unwind tables: `ebpf_profiler_unwind::tables()`. Without it only frame pointers are followed in
    /// stacks that the kernel side left to be walked.
    pub fn unwind(mut self, compiler: impl UnwindCompiler + 'static) -> Replay {
        self.compiler = Some(Box::new(compiler));
        self
    }

    /// Gives names to code in files. Without it the symbol tables and debug information of this machine do, of
    /// those files that are here as they were. The kernel's names are in the recording.
    pub fn symbolizer(mut self, symbolizer: impl Symbolizer + 'static) -> Replay {
        self.symbolizer = Some(Box::new(symbolizer));
        self
    }

    /// Takes the profiles of [`Replay::run`]. May be called several times.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Replay {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Whether the recording ended before the profiler did, because the disk fell behind.
    pub fn ended_early(&self) -> bool {
        self.knowledge.is_early
    }

    /// All of it as one profile.
    ///
    /// # Errors
    ///
    /// When it can't be read any more.
    pub fn profile(self) -> Result<Profile, SourceError> {
        self.start()?.0.whole()
    }

    /// The profiles that the profiler finished, one after the other.
    ///
    /// # Errors
    ///
    /// When it can't be read any more.
    pub fn profiles(self) -> Result<Profiles, SourceError> {
        Ok(Profiles(self.start()?.0))
    }

    /// Hands the profiles that the profiler finished to the sinks.
    ///
    /// # Errors
    ///
    /// When it can't be read any more.
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

    /// The stream of events alone, for a pipeline of one's own.
    ///
    /// # Errors
    ///
    /// When it can't be read any more.
    pub fn source(mut self) -> Result<impl Source, SourceError> {
        self.input.rewind()?;
        Ok(RecordedSource::new(Reader::open(self.input)?.0))
    }

    fn start(mut self) -> Result<(Run, Vec<Box<dyn Sink>>), SourceError> {
        self.input.rewind()?;
        let (reader, start) = Reader::open(self.input)?;
        let Knowledge { answers, journal, kernel, .. } = self.knowledge;
        let system = Box::new(RecordedSystem::new(answers));
        let symbolizer = self.symbolizer.unwrap_or_else(|| Box::new(Symbols::default()));
        let run = Run::new(
            RecordedSource::new(reader),
            pipeline(&start, system, journal, self.compiler),
            RecordedNames { symbolizer, kernel },
            from_1970(start.time),
        );
        Ok((run, self.sinks))
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("knowledge", &self.knowledge).finish_non_exhaustive()
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

/// Answers come behind what asked for them, so they are read ahead.
fn look_through(input: &mut impl Read) -> Result<Knowledge, SourceError> {
    let (mut reader, _) = Reader::open(input)?;
    let mut knowledge = Knowledge::default();
    loop {
        let (kind, body) = reader.next()?;
        if let Some(Step::End(end)) = decode::step(kind, body)? {
            knowledge.is_early = end.is_early;
            reader.end()?;
            return Ok(knowledge);
        }
        if let Some(known) = decode::known(kind, body)? {
            knowledge.add(known);
        }
    }
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
    Pipeline::new(registry, Clock { offset: start.clock }, Duration::from_nanos(start.period))
}

/// A time of a recording.
pub(super) fn from_1970(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}
