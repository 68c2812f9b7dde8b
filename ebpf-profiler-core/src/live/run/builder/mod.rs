//! Configuration and start of a profiler.

mod bounds;
mod described;
mod privileges;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use ebpf_programs::abi::arena::{BLOCK, CHUNK_BLOCKS, CHUNKS};

use crate::language::{LabelSource, Language};
use crate::live::machine::broker::Broker;
use crate::live::machine::reservation::Reservation;
use crate::live::run::budget::Budget;
use crate::live::run::threads::Hook;
use crate::live::trigger::Trigger;
use crate::live::trigger::filter::Filter;
use crate::process::Pids;
use crate::registry::Limits;
use crate::sink::Sink;
use crate::symbol::{SymbolOptions, Symbolizer};
use crate::unwind::UnwindCompiler;

/// Configures and starts a [`Profiler`](crate::Profiler).
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
    label_sources: Vec<Box<dyn LabelSource>>,
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
    process_contexts: bool,
    environment: Vec<String>,
    reservation: Option<Reservation>,
    enrichment: Option<Hook>,
    derives_rules: bool,
    broker: Option<Broker>,
    confines: bool,
}

impl Builder {
    pub(in crate::live) fn new() -> Builder {
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
            label_sources: Vec::new(),
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
            process_contexts: false,
            environment: Vec::new(),
            reservation: None,
            enrichment: None,
            derives_rules: true,
            broker: None,
            confines: false,
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
    /// nobody until [`Profiler::set_pids`](crate::Profiler::set_pids) changes it.
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

    /// Sets the symbolizer; by default [`Symbols`](crate::symbol::Symbols), which reads the symbol tables and debug
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

    /// Starts on a kernel with a known [fault](crate::live::KernelFault), too: for distributions that
    /// fixed it under an old number. By default [`start`](Builder::start) refuses, because such
    /// a kernel can hang the machine.
    pub fn accept_kernel_faults(mut self) -> Builder {
        self.accepts_faults = true;
        self
    }
}
