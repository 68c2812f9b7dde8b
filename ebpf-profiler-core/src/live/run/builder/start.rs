//! The start of a profiler: options are validated, the kernel side is loaded, threads begin.

use std::sync::Arc;
use std::time::Duration;

use ebpf_programs::abi::interpreter::walker;

use crate::label::{self, Recording};
use crate::live::error::{OptionError, StartError};
use crate::live::kernel::fault::KernelFault;
use crate::live::kernel::waker::Waker;
use crate::live::kernel::{held_map, version};
use crate::live::machine::confine::AllowList;
use crate::live::machine::reservation::Reservation;
use crate::live::machine::system::{LiveSystem, own_mappings};
use crate::live::machine::{clock, cpus, describe, descriptors, mapped_file, other_thread, priority};
use crate::live::run::control::Settings;
use crate::live::run::interval::Interval;
use crate::live::run::loader::{self, Loaded, Machine, Scaled};
use crate::live::run::profiler::Profiler;
use crate::live::run::source::LiveSource;
use crate::live::run::threads::{Enricher, KeptBudget, Parts, Threads};
use crate::live::run::{options, requirements};
use crate::live::trigger::Trigger;
use crate::pipeline::{Clock, Pipeline};
use crate::process::{Pids, System};
use crate::profile::SampleKind;
use crate::registry::{Limits, Pace, Registry};
use crate::replay::{RecordOptions, Recorder, RecordingSymbolizer, RecordingSystem};
use crate::symbol::{SymbolOptions, Symbolizer, Symbols};

use super::Builder;

/// Share of one CPU that deriving rules takes at most in the long run.
const RULES_SHARE: f64 = 0.01;

/// Smallest budget of memory with which rules are derived: that takes up to 40 MiB for some seconds.
const RULES_MEMORY: u64 = 256 << 20;

/// CPU time that it may take at first: some 20 MiB of code.
const RULES_CREDIT: Duration = Duration::from_secs(2);

impl Builder {
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
        let includes_self = self.includes_self();
        let exclude = if includes_self { 0 } else { std::process::id() };
        let filter = self.filter.compile().map_err(OptionError::Filter)?;
        mapped_file::set_max_held(descriptors::prepare());
        let raised = priority::raised();
        let reserved = self.reservation.as_ref().map(Reservation::enter);
        let (walkers, triggers) = (self.walkers(), self.triggers());
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
        let mut registry = Registry::new(system, Box::new(tables), self.compiler.take(), self.memory);
        registry.set_limits(limits);
        self.complete(&mut registry, recorder.as_ref());
        let (source, waker, gate) = LiveSource::start(kernel, period, &self.pids, &filter)?;
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
            gate: Some(gate),
            pipeline,
            settings,
            symbolizer,
            sinks: self.sinks,
            interval: self.interval.map(|length| Interval::new(length, self.jitter)),
            recorder: recorder.clone(),
            budget,
            rules,
            reservation: self.reservation,
            broker: self.broker,
            confines: self.confines,
            enricher,
            describe: describe::describe,
            is_alive: Box::new(other_thread::is_alive),
        };
        let threads =
            Threads::start(parts).map_err(|error| StartError::System { what: "start a thread", error })?;
        drop(reserved);
        Ok(Profiler::new(threads, recorder, labels, own))
    }

    /// Returns `true` if this program is sampled, too.
    fn includes_self(&self) -> bool {
        let is_named = self.pids != Pids::All && self.pids.contains(std::process::id());
        !self.exclude_self || is_named
    }

    /// Returns the bits of what the kernel side has to read of processes.
    fn walkers(&self) -> u32 {
        let labels = u32::from(!self.label_sources.is_empty()) << walker::LABELS;
        self.languages.iter().fold(labels, |bits, language| bits | language.walkers())
    }

    /// Lets a registry have the filter, the languages and the processes that run already.
    fn complete(&mut self, registry: &mut Registry, recorder: Option<&Recorder>) {
        if let Some(recorder) = recorder {
            registry.set_journal(Box::new(recorder.clone()));
        }
        registry.set_filter(&self.pids);
        registry.add_languages(std::mem::take(&mut self.languages));
        registry.add_label_sources(std::mem::take(&mut self.label_sources));
        if self.process_contexts {
            registry.show_contexts();
        }
        registry.prepare(clock::monotonic());
    }

    /// Returns the system and the symbolizer. A recorder gets the answers of both.
    fn system(&mut self, recorder: Option<&Recorder>) -> (Box<dyn System>, Box<dyn Symbolizer>) {
        let any_file_system = self.any_file_system;
        let own = || Box::new(symbols(std::mem::take(&mut self.symbol_options), any_file_system)) as Box<_>;
        let symbolizer = self.symbolizer.take().unwrap_or_else(own);
        let system = LiveSystem::default().with_any_file_system(any_file_system);
        let system = system.reserved(self.reservation.clone()).confined(self.confines);
        let system = system.with_broker(self.broker.as_ref());
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
        own_mappings().map_err(|error| StartError::NoProc { error })?;
        if self.confines {
            AllowList::check()
                .map_err(|error| StartError::System { what: "confine threads by seccomp", error })?;
        }
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
