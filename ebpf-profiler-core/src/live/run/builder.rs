//! Configuration and start of a profiler.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ebpf_programs::abi::arena::{BLOCK, CHUNK_BLOCKS, CHUNKS};

use super::budget::Budget;
use super::control::Settings;
use super::enrichment::Enrichment;
use super::interval::Interval;
use super::loader::{self, Loaded, Machine, Scaled};
use super::options;
use super::profiler::Profiler;
use super::requirements;
use super::source::LiveSource;
use super::threads::{Enricher, Hook, KeptBudget, Parts, Threads};
use crate::label::{self, Recording};
use crate::language::Language;
use crate::live::error::{OptionError, StartError};
use crate::live::kernel::fault::KernelFault;
use crate::live::kernel::held_map;
use crate::live::kernel::version;
use crate::live::kernel::waker::Waker;
use crate::live::machine::clock;
use crate::live::machine::cpus;
use crate::live::machine::describe;
use crate::live::machine::descriptors;
use crate::live::machine::mapped_file;
use crate::live::machine::priority;
use crate::live::machine::reservation::Reservation;
use crate::live::machine::system::{LiveSystem, mappings_of_process};
use crate::live::trigger::Trigger;
use crate::live::trigger::filter::Filter;
use crate::pipeline::{Clock, Pipeline};
use crate::process::{Pids, System};
use crate::profile::{Process, SampleKind};
use crate::registry::{Limits, Pace, Registry};
use crate::replay::{RecordOptions, Recorder, RecordingSymbolizer, RecordingSystem};
use crate::sink::Sink;
use crate::symbol::{SymbolOptions, Symbolizer, Symbols};
use crate::unwind::UnwindCompiler;

/// Share of one CPU that deriving rules takes at most in the long run.
const RULES_SHARE: f64 = 0.01;

/// Smallest budget of memory with which rules are derived: that takes up to 40 MiB for some seconds.
const RULES_MEMORY: u64 = 256 << 20;

/// CPU time that it may take at first: some 20 MiB of code.
const RULES_CREDIT: Duration = Duration::from_secs(2);

/// Configures and starts a [`Profiler`].
///
/// Options are validated by [`Builder::start`].
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::Profiler;
/// use ebpf_profiler_core::live::{OptionError, StartError};
///
/// let started = Profiler::builder().frequency(0).start();
/// assert!(matches!(started, Err(StartError::Option(OptionError::Frequency { hertz: 0 }))));
/// ```
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    hertz: u32,
    triggers: Vec<Trigger>,
    ring: Option<u32>,
    memory: u64,
    exclude_self: bool,
    pids: Pids,
    filter: Filter,
    compiler: Option<Box<dyn UnwindCompiler>>,
    frame_pointers_only: bool,
    languages: Vec<Box<dyn Language>>,
    symbolizer: Option<Box<dyn Symbolizer>>,
    sinks: Vec<Box<dyn Sink>>,
    interval: Option<Duration>,
    jitter: f64,
    recording: Option<PathBuf>,
    deadline: Duration,
    reply_deadline: Duration,
    limits: Option<Limits>,
    budget: Option<Budget>,
    accepts_faults: bool,
    walk_time: Duration,
    any_file_system: bool,
    symbol_options: SymbolOptions,
    command_lines: bool,
    environment: Vec<String>,
    reservation: Option<Reservation>,
    enrichment: Option<Hook>,
    derives_rules: bool,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            hertz: 19,
            triggers: Vec::new(),
            ring: None,
            memory: u64::from(CHUNKS) * u64::from(CHUNK_BLOCKS) * BLOCK as u64,
            exclude_self: true,
            pids: Pids::All,
            filter: Filter::new(),
            compiler: None,
            frame_pointers_only: false,
            languages: Vec::new(),
            symbolizer: None,
            sinks: Vec::new(),
            interval: None,
            jitter: 0.0,
            recording: None,
            deadline: Duration::from_secs(5),
            reply_deadline: Duration::from_secs(60),
            limits: None,
            budget: None,
            accepts_faults: false,
            walk_time: Duration::from_micros(500),
            any_file_system: false,
            symbol_options: SymbolOptions::default(),
            command_lines: false,
            environment: Vec::new(),
            reservation: None,
            enrichment: None,
            derives_rules: true,
        }
    }

    /// Sets the number of samples per second and CPU: 1 to 10,000, 19 by default.
    ///
    /// A prime number avoids sampling in step with periodic work.
    #[doc(alias("sample_freq", "hz"))]
    pub fn frequency(mut self, hertz: u32) -> Builder {
        self.hertz = hertz;
        self
    }

    /// Samples at the events of a trigger, and not at others: CPU time is one of them, and the
    /// default without this call. May be called several times; a profile has the kinds of
    /// samples of all triggers.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::{OffCpu, Trigger}};
    /// use std::time::Duration;
    ///
    /// let waits = OffCpu::longer_than(Duration::from_millis(1));
    /// let builder = Profiler::builder().on(Trigger::cpu()).on(waits);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// let profile = profiler.run_for(Duration::from_secs(10))?;
    /// profile.write("machine.folded")?; // machine.cpu.folded, machine.off-cpu.folded
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(mut self, trigger: impl Into<Trigger>) -> Builder {
        self.triggers.push(trigger.into());
        self
    }

    /// Samples only this process and the processes that it forks from now on. May be called several
    /// times; [`start`](Builder::start) fails if there is no such process.
    ///
    /// With the id of this program, [`include_self`](Builder::include_self) is implied.
    pub fn pid(mut self, pid: u32) -> Builder {
        let others = self.pids.only().into_iter().flatten().copied();
        self.pids = others.chain([pid]).collect();
        self
    }

    /// Samples these processes and what they fork from now on; replaces former ones. An empty set samples
    /// nobody until [`Profiler::set_pids`] changes it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::Pids};
    ///
    /// let builder = Profiler::builder().pids(Pids::none());
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// profiler.set_pids([4711])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pids(mut self, pids: impl Into<Pids>) -> Builder {
        self.pids = pids.into();
        self
    }

    /// Samples only events that meet the conditions of `filter`; replaces a former one.
    pub fn filter(mut self, filter: Filter) -> Builder {
        self.filter = filter;
        self
    }

    /// Sets the compiler of unwind tables: `ebpf_profiler_unwind::tables()`. A profiler needs one,
    /// or [`frame_pointers_only`](Builder::frame_pointers_only).
    pub fn unwind(mut self, compiler: impl UnwindCompiler + 'static) -> Builder {
        self.compiler = Some(Box::new(compiler));
        self.frame_pointers_only = false;
        self
    }

    /// Derives unwind rules from the instructions of code without unwind data, as that of
    /// hand-written assembly in OpenBLAS, x265 and OpenSSL: once for each file in which callers had
    /// to be guessed, a moment after that. By default rules are derived, if the
    /// [compiler](Builder::unwind) can.
    ///
    /// A separate thread derives them, in 60 to 160 ms for each MiB of such code. The thread may use
    /// 2 s of CPU time at first and 1 % of a CPU afterwards, and up to 40 MiB of memory for some
    /// seconds. With a [`budget`](Builder::budget) of CPU time it may use a tenth of the budget,
    /// at most 1 % of a CPU; with one of less than 256 MiB of memory nothing is derived. Frames found
    /// by derived rules are [marked](crate::profile::FrameView::is_derived).
    pub fn derive_rules(mut self, derives: bool) -> Builder {
        self.derives_rules = derives;
        self
    }

    /// Unwinds stacks by frame pointers, without unwind tables.
    ///
    /// Most programs and libraries of distributions have no frame pointers: callers are missing
    /// from their stacks, and frames are guesses. Kernel stacks are whole.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::Profiler;
    /// use ebpf_profiler_core::live::{OptionError, StartError};
    ///
    /// let error = Profiler::builder().start().map(drop).unwrap_err();
    /// assert!(matches!(error, StartError::Option(OptionError::NoUnwindTables)));
    ///
    /// let builder = Profiler::builder().frame_pointers_only(); // starts
    /// ```
    pub fn frame_pointers_only(mut self) -> Builder {
        self.compiler = None;
        self.frame_pointers_only = true;
        self
    }

    /// Adds languages: `ebpf_profiler_hll::all()`. May be called several times. Without a language,
    /// only the interpreter's native frames are shown.
    pub fn languages(mut self, languages: impl IntoIterator<Item = Box<dyn Language>>) -> Builder {
        self.languages.extend(languages);
        self
    }

    /// Sets the symbolizer; by default [`Symbols`], which reads the symbol tables and debug
    /// information of this machine.
    pub fn symbolizer(mut self, symbolizer: impl Symbolizer + 'static) -> Builder {
        self.symbolizer = Some(Box::new(symbolizer));
        self
    }

    /// Sets the options of the default symbolizer: search paths, lines, memory. Without effect on
    /// another [symbolizer](Builder::symbolizer).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, symbol::SymbolOptions};
    ///
    /// let mut options = SymbolOptions::default();
    /// options.debug_folders.push("/srv/debug".into());
    /// let builder = Profiler::builder().symbol_options(options);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn symbol_options(mut self, options: SymbolOptions) -> Builder {
        self.symbol_options = options;
        self
    }

    /// Finishes a profile for the sinks every `interval`, at least 10 ms, and one at the end.
    /// Without it there is only the one at the end.
    pub fn every(mut self, interval: Duration) -> Builder {
        self.interval = Some(interval);
        self
    }

    /// Varies each interval at random by up to `share` of its length, from 0 to 1.
    ///
    /// With 0.2, profilers that were started together do not send to their collector at the same
    /// moment for ever.
    pub fn jitter(mut self, share: f64) -> Builder {
        self.jitter = share;
        self
    }

    /// Adds a sink, which gets every finished profile. May be called several times.
    ///
    /// Each sink has a thread and a queue of 4 profiles: a slow sink misses its oldest profiles, a
    /// panic costs the sink. [`Health::sinks`](crate::live::Health::sinks) counts both.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Builder {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Writes everything that profiles are made of to this file, for a
    /// [`Replay`](crate::replay::Replay) without privileges, on this machine or another.
    ///
    /// A disk that fails or falls behind ends the recording, not the profiler; see
    /// [`Health::recording`]. Naming the kernel's functions takes up to 100 ms at the end of a
    /// profile.
    ///
    /// [`Health::recording`]: crate::live::Health::recording
    pub fn record(mut self, path: impl Into<PathBuf>) -> Builder {
        self.recording = Some(path.into());
        self
    }

    /// Samples this program too.
    pub fn include_self(mut self) -> Builder {
        self.exclude_self = false;
        self
    }

    /// Sets the size of the ring in bytes: a power of two from 64 KiB to 1 GiB; by default 64 KiB
    /// for each CPU, but at least 4 MiB and at most 32 MiB.
    ///
    /// The ring takes the records that do not fit into a per-CPU buffer.
    #[doc(alias = "BPF_MAP_TYPE_RINGBUF")]
    pub fn ring_size(mut self, bytes: u32) -> Builder {
        self.ring = Some(bytes);
        self
    }

    /// Limits the memory of unwind tables and mappings in bytes; 1 GiB by default, which is also
    /// the maximum.
    pub fn table_memory(mut self, bytes: u64) -> Builder {
        self.memory = self.memory.min(bytes);
        self
    }

    /// Sets the bounds of what other programs can make the profiler keep: mappings, processes,
    /// files. By default those of [`Limits`], and more processes and mappings on machines of
    /// more than 64 CPUs or 64 GiB: up to 131,072 and 1,048,576, unless there is a budget of
    /// memory.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = Some(limits);
        self
    }

    /// Adds the command lines of processes to profiles and recordings:
    /// [`Process::command_line`](crate::profile::Process). By default there are none, as
    /// arguments can be secrets.
    pub fn command_lines(mut self) -> Builder {
        self.command_lines = true;
        self
    }

    /// Adds these environment variables of processes to profiles and recordings:
    /// [`Process::environment`](crate::profile::Process). By default there are none, as values can be
    /// secrets. May be called several times.
    ///
    /// A variable has the value with which the program of the process was started.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::Profiler;
    ///
    /// let builder = Profiler::builder().environment(["OTEL_SERVICE_NAME", "POD_NAME"]);
    /// ```
    pub fn environment<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Builder {
        self.environment.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds labels and resource attributes to each process, which `hook` returns: names of its pod,
    /// image or tenant. Replaces a former hook.
    ///
    /// It is called once for each process, in a thread of its own, when the first sample of the
    /// process arrives; again if container, user or other fields of the process change. The answer is
    /// kept for all profiles, and in them before sinks get them. A profile waits at most a second for
    /// answers, and not at all while a call takes longer: [`Health::enrichment`] counts the processes
    /// without one. The end of the profiler does not wait for the hook. Recordings have no answers.
    ///
    /// Nothing is contacted by this crate. The example `enrich` asks a container engine by its socket.
    ///
    /// [`Health::enrichment`]: crate::live::Health::enrichment
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::Enrichment, profile::Process};
    ///
    /// // The service is in the environment of the process.
    /// let hook = |process: &Process| match process.environment.first() {
    ///     Some((_, service)) => Enrichment::new().attribute("service.name", service),
    ///     None => Enrichment::new(),
    /// };
    /// let builder = Profiler::builder().environment(["OTEL_SERVICE_NAME"]).enrich(hook);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enrich(mut self, hook: impl FnMut(&Process) -> Enrichment + Send + 'static) -> Builder {
        self.enrichment = Some(Box::new(hook));
        self
    }

    /// Opens code files of file systems that another program or machine serves: FUSE, NFS, SMB and
    /// others. By default only those of local file systems, and of the file system of `/`, have
    /// unwind tables and names.
    ///
    /// Such a server can be a profiled user's own program, or be gone: a file that never answers
    /// stops unwinding and names until the profiler ends.
    pub fn any_file_system(mut self) -> Builder {
        self.any_file_system = true;
        self
    }

    /// Limits the cost of the profiler: samples are taken less often when they cost more than the
    /// budget. By default there is no limit.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::{Budget, Trigger}};
    ///
    /// let budget = Budget::cpu(0.005).memory(64 << 20);
    /// let builder = Profiler::builder().on("malloc".parse::<Trigger>()?).budget(budget);
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn budget(mut self, budget: Budget) -> Builder {
        self.budget = Some(budget);
        self
    }

    /// Starts on a kernel with a known [fault](crate::live::KernelFault), too: for distributions that
    /// fixed it under an old number. By default [`start`](Builder::start) refuses, because such
    /// a kernel can hang the machine.
    pub fn accept_kernel_faults(mut self) -> Builder {
        self.accepts_faults = true;
        self
    }

    /// Sets the longest time of a walk, during which the interrupts of its CPU are off: 20 µs to 4
    /// s, 500 µs by default. Each frame that is found adds a quarter of a microsecond, so that
    /// deep stacks stay whole: at most 2 ms for 8,192 of them.
    ///
    /// Most walks take 2 to 20 µs. A program can build a stack that takes milliseconds, many steps
    /// for each frame. Its walks end with [`Stop::TooSlow`](crate::trace::Stop::TooSlow). Each
    /// that follows another one within a second halves the time of the next, down to a
    /// sixteenth.
    pub fn walk_time(mut self, longest: Duration) -> Builder {
        self.walk_time = longest;
        self
    }

    /// Reserves CPU time for the profiler, so that it loses no samples on a saturated machine. By
    /// default nothing is reserved.
    ///
    /// The reservation bounds what is guaranteed, a [`budget`](Builder::budget) what is spent on
    /// samples.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
    /// use ebpf_profiler_core::{Profiler, live::Reservation};
    ///
    /// let builder = Profiler::builder().reserve(Reservation::cpu(0.05));
    /// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(mut self, reservation: Reservation) -> Builder {
        self.reservation = Some(reservation);
        self
    }

    /// Sets the longest time that [`finish`](Profiler::finish), [`stop`](Profiler::stop) and drop
    /// take; 5 s by default.
    ///
    /// Half of it is for samples that wait to be unwound, a quarter for names, the rest for the
    /// sinks. Work that is not done by then is dropped and counted in
    /// [`Health::deadline`](crate::live::Health::deadline). Zero means now: nothing is waited for.
    /// `finish` returns the profile without the missing names, or fails with
    /// [`StopError::Deadline`](crate::live::StopError::Deadline).
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// Sets the longest time that [`take_profile`](Profiler::take_profile) and changes of a running
    /// profiler wait for their profile; 60 s by default.
    ///
    /// After it they fail with [`StopError::NotReady`](crate::live::StopError::NotReady). The sinks get the
    /// profile when it is ready. Frames with debug information that was never read take the longest.
    pub fn reply_deadline(mut self, deadline: Duration) -> Builder {
        self.reply_deadline = deadline;
        self
    }

    /// Loads the kernel side and starts sampling.
    ///
    /// Raises the soft limit of open files of this process (`RLIMIT_NOFILE`) to 16,384, if the hard
    /// one permits it: up to half of them are code files that stay open until their names were
    /// read, as they may be deleted before.
    ///
    /// A child that this process forks without an exec inherits the descriptors of the profiler:
    /// its clocks go on, and their samples are lost, until parent and child have both ended or
    /// closed them. Start the profiler after such forks, as servers with worker processes can,
    /// or let the child exec: all descriptors are closed on exec.
    ///
    /// The calling thread has a niceness of -10 meanwhile if that is permitted, and a part of the
    /// [reservation](Builder::reserve) if there is one.
    ///
    /// # Errors
    ///
    /// Fails if an option is invalid or a requirement is missing. The error says which, and the
    /// remedy.
    #[doc(alias("perf_event_open", "bpf"))]
    pub fn start(mut self) -> Result<Profiler, StartError> {
        self.check()?;
        let online = cpus::online().unwrap_or_else(|_| vec![0]);
        let (sizes, limits) = self.sizes(&online);
        let names_self = self.pids != Pids::All && self.pids.contains(std::process::id());
        let includes_self = !self.exclude_self || names_self;
        let exclude = if includes_self { 0 } else { std::process::id() };
        let filter = self.filter.compile().map_err(OptionError::Filter)?;
        mapped_file::set_max_held(descriptors::prepare());
        let raised = priority::raised();
        let reserved = self.reservation.as_ref().map(Reservation::enter);
        let walkers = self.languages.iter().fold(0, |bits, language| bits | language.walkers());
        let triggers = self.triggers();
        let Loaded { mut kernel, tables, own, held } =
            loader::load(sizes, exclude, walkers, &triggers, self.budget.is_some(), self.walk_time)?;
        kernel.walks.set_reservation(self.reservation.clone());
        let settings = self.settings(&triggers);
        let rules = self.pace_of_rules(online.len());
        let period = settings.period();
        let kinds: Vec<SampleKind> = triggers.iter().flat_map(|trigger| trigger.kinds(period)).collect();
        let clock = clock::offset();
        let recorder = self.recorder(clock, period, &kinds)?;
        let (system, symbolizer) = self.system(recorder.as_ref());
        let mut registry = Registry::new(system, Box::new(tables), self.compiler, self.memory);
        if let Some(recorder) = &recorder {
            registry.set_journal(Box::new(recorder.clone()));
        }
        registry.set_limits(limits);
        registry.set_filter(&self.pids);
        registry.add_languages(self.languages);
        registry.prepare(clock::monotonic());
        let (source, waker) = LiveSource::start(kernel, period, &self.pids, &filter)?;
        let mut pipeline = Pipeline::new(registry, clock, period);
        let budget = self.budget.map(|budget| KeptBudget::new(budget.cpu * online.len() as f64, &triggers));
        if let Some(held) = held {
            pipeline.set_sweep(Box::new(move |is_kept| held_map::sweep(&held, is_kept)));
        }
        pipeline.set_kinds(kinds);
        let labels = match includes_self {
            true => Some(record_labels(&mut pipeline, &waker)?),
            false => None,
        };
        let enricher = self.enrichment.map(|hook| (Enricher::default(), hook));
        if let Some((enricher, _)) = &enricher {
            let enricher = enricher.clone();
            pipeline.set_seen(Arc::new(move |process| enricher.ask(process)));
        }
        // The threads start with the priority that this one had.
        drop(raised);
        let parts = Parts {
            source: Box::new(source),
            waker,
            pipeline,
            settings,
            symbolizer,
            sinks: self.sinks,
            interval: self.interval.map(|length| Interval::new(length, self.jitter)),
            recorder: recorder.clone(),
            budget,
            rules,
            reservation: self.reservation,
            enricher,
            describe: describe::describe,
            is_alive: Box::new(options::is_alive),
        };
        let threads =
            Threads::start(parts).map_err(|error| StartError::System { what: "start a thread", error })?;
        drop(reserved);
        Ok(Profiler::new(threads, recorder, labels, own))
    }

    /// Returns the source of facts about processes, and that of names, both recorded if there is a
    /// recorder.
    fn system(&mut self, recorder: Option<&Recorder>) -> (Box<dyn System>, Box<dyn Symbolizer>) {
        let any_file_system = self.any_file_system;
        let own = || Box::new(symbols(std::mem::take(&mut self.symbol_options), any_file_system)) as Box<_>;
        let symbolizer = self.symbolizer.take().unwrap_or_else(own);
        let system = LiveSystem::default().with_any_file_system(any_file_system);
        let system = system.reserved(self.reservation.clone());
        let system = system.with_command_lines(self.command_lines).with_environment(&self.environment);
        recorded(recorder, system, symbolizer)
    }

    /// Returns what is set.
    fn settings(&self, triggers: &[Trigger]) -> Settings {
        Settings {
            frequency: self.hertz,
            pids: self.pids.clone(),
            filter: self.filter.clone(),
            is_paused: false,
            triggers: triggers.to_vec(),
            interval: self.interval,
            budget: self.budget,
            deadline: self.deadline,
            reply_deadline: self.reply_deadline,
        }
    }

    /// Creates the recording, after all checks that are likely to fail.
    fn recorder(
        &self,
        clock: Clock,
        period: Duration,
        kinds: &[SampleKind],
    ) -> Result<Option<Recorder>, StartError> {
        let Some(path) = &self.recording else { return Ok(None) };
        let mut options = RecordOptions::new(clock, period);
        options.table_memory = self.memory;
        options.kinds = kinds.to_vec();
        options.pids.clone_from(&self.pids);
        Recorder::create(path, &options)
            .map(Some)
            .map_err(|error| StartError::Recording { path: path.clone(), error })
    }

    /// Returns the sizes and limits that were set, or those for this machine, and reduces them and
    /// the memory of tables to the budget.
    fn sizes(&mut self, online: &[u32]) -> (Scaled, Limits) {
        let has_memory_budget = self.budget.is_some_and(|budget| budget.memory.is_some());
        let mut machine = Machine::this();
        if has_memory_budget {
            machine.memory = 0;
        }
        let mut sizes = machine.sizes();
        let scaled = if has_memory_budget { Limits::default() } else { sizes.limits() };
        let mut limits = self.limits.take().unwrap_or(scaled);
        sizes.ring = self.ring.unwrap_or(sizes.ring);
        if let Some(budget) = &self.budget {
            budget.reduce(online, &mut self.memory, &mut sizes.ring, &mut limits);
        }
        (sizes, limits)
    }

    /// Returns the pace at which rules are derived, if they are.
    fn pace_of_rules(&self, cpus: usize) -> Option<Pace> {
        let pace = match &self.budget {
            None => Pace::new(RULES_SHARE, RULES_CREDIT),
            Some(budget) if budget.memory.is_some_and(|bytes| bytes < RULES_MEMORY) => return None,
            Some(budget) => Pace::new(RULES_SHARE.min(budget.cpu * cpus as f64 / 10.0), Duration::ZERO),
        };
        self.derives_rules.then_some(pace)
    }

    /// Returns the triggers, CPU time first: the clock's program uses kind 0.
    fn triggers(&self) -> Vec<Trigger> {
        let mut triggers = self.triggers.clone();
        if triggers.is_empty() {
            triggers.push(Trigger::cpu());
        }
        triggers.sort_by_key(|trigger| !trigger.is_cpu());
        triggers
    }

    fn check(&self) -> Result<(), StartError> {
        self.check_values()?;
        if !crate::live::IS_SUPPORTED {
            return Err(StartError::Architecture { name: std::env::consts::ARCH });
        }
        mappings_of_process(std::process::id()).map_err(|error| StartError::NoProc { error })?;
        if let Some(fault) = KernelFault::find().filter(|_| !self.accepts_faults) {
            return Err(StartError::FaultyKernel { release: version::release(), fault });
        }
        if !requirements::has_compiler() {
            return Err(StartError::NoCompiler);
        }
        Ok(options::check_pids(&self.pids)?)
    }

    /// Validates the options that don't depend on the machine.
    fn check_values(&self) -> Result<(), OptionError> {
        options::check_frequency(self.hertz)?;
        if let Some(interval) = self.interval {
            options::check_interval(interval)?;
            if self.sinks.is_empty() {
                return Err(OptionError::NoSink);
            }
        }
        options::check_jitter(self.jitter)?;
        options::check_triggers(&self.triggers)?;
        if let Some(reservation) = &self.reservation {
            reservation.check()?;
        }
        if let Some(budget) = &self.budget {
            budget.check(cpus::online().map_or(1, |cpus| cpus.len() as u32))?;
        }
        options::check_walk_time(self.walk_time)?;
        self.ring.map_or(Ok(()), options::check_ring)?;
        match self.compiler.is_some() || self.frame_pointers_only {
            true => Ok(()),
            false => Err(OptionError::NoUnwindTables),
        }
    }
}

/// Returns the symbolizer of this machine. Kernel functions are named by the running kernel if it
/// permits, else from `/proc/kallsyms`.
fn symbols(options: SymbolOptions, any_file_system: bool) -> Symbols {
    let any_file_system = any_file_system || options.any_file_system;
    let mut symbols = Symbols::new(SymbolOptions { any_file_system, ..options });
    // While the privileges of the start are held.
    symbols.load_kernel();
    symbols
}

/// Lets the samples of this program have its labels, as long as the result lives.
fn record_labels(pipeline: &mut Pipeline, waker: &Waker) -> Result<Recording, StartError> {
    pipeline.set_labels(std::process::id(), label::labels_at);
    let waker = waker.try_clone().map_err(|error| StartError::System { what: "create a pipe", error })?;
    Ok(Recording::start(clock::monotonic, move || waker.wake()))
}

/// Returns the system and the symbolizer, wrapped so that a recorder gets their answers.
fn recorded(
    recorder: Option<&Recorder>,
    system: LiveSystem,
    symbolizer: Box<dyn Symbolizer>,
) -> (Box<dyn System>, Box<dyn Symbolizer>) {
    match recorder {
        Some(recorder) => (
            Box::new(RecordingSystem::new(system, recorder.clone())),
            Box::new(RecordingSymbolizer::new(symbolizer, recorder.clone())),
        ),
        None => (Box::new(system), symbolizer),
    }
}
