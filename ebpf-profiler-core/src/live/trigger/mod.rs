//! Triggers: the events at which samples are taken.
//!
//! ```text
//!   Trigger ──► programs to load ──► attached to ──────────────► kind of samples
//!   cpu         sample               a clock on each CPU         cpu: count
//!   off-cpu     switched, resumed    sched_switch                off-cpu: nanoseconds
//!   by state    also woken           also sched_wakeup           blocked, runnable: nanoseconds
//!   wakers      also waking          also sched_waking           wakers: nanoseconds
//!   uprobe      probed               a function of a file        uprobe:FILE:FUNCTION: count
//!   its time    entered, left        the function and its return uprobe:FILE:FUNCTION:time: nanoseconds
//!   kprobe      as uprobe            a function of the kernel    kprobe:FUNCTION: count
//!   fentry      function_entered     a function of the kernel    fentry:FUNCTION: count
//!   its time    function_begun, left the function and its return fentry:FUNCTION:time: nanoseconds
//!   malloc      probed               functions that allocate     malloc: bytes
//!   its memory  allocating, freeing  and those that free         inuse_space: bytes
//!   disks       issued, finished     requests of block devices   block-latency: nanoseconds
//!   USDT        probed               a static probe of a file    usdt:FILE:PROVIDER:NAME: count
//!   tracepoint  traced               an event of the kernel      tracepoint:GROUP:NAME: count
//!   futex       called, answered     tracepoints of futex calls  futex: nanoseconds
//!   counters    counted              a software or hardware      page-faults, cycles: count
//!                                    event, each CPU
//!   own         -                    by the embedder             its name and unit
//! ```
//!
//! All programs but the clock's and those at functions of the kernel call the [walk](Walk) of their context last. These have it inline:
//! the kernel allows no calls between programs of different functions.

mod allocator;

mod attach;

mod block;

mod bytes;

mod call;

mod counter;

mod error;

mod fentry;

pub(super) mod filter;

mod forms;

mod futex;

mod kprobe;

mod malloc;

mod parse;

mod notes;

mod off_cpu;

mod operand;

mod own;

mod pattern;

mod place;

mod probe;

mod tracepoint;

mod usdt;

use std::time::Duration;

pub(super) use attach::Attached;
pub use block::BlockLatency;
pub use error::AttachError;
pub use fentry::Fentry;
pub use futex::Futex;
pub use kprobe::Kprobe;
pub use malloc::Malloc;
pub use off_cpu::OffCpu;
pub use own::{OwnPrograms, ProgramType};
pub use parse::TriggerError;
pub use probe::Uprobe;
pub use tracepoint::Tracepoint;
pub use usdt::Usdt;

use call::Call;
use counter::{CACHE_MISSES, CYCLES, Counter, PAGE_FAULTS};
use ebpf_programs::abi::held;
use ebpf_programs::abi::own::walk;

use crate::profile::{SampleKind, Unit};

/// An event at which samples are taken, for [`Builder::on`](crate::live::Builder::on).
///
/// It is parsed from text, as in a program's option; [`Trigger::FORMS`] lists the forms.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::Trigger;
///
/// let trigger: Trigger = "off-cpu:1ms".parse()?;
/// assert_eq!(trigger.to_string(), "off-cpu:1ms");
/// assert!("off-cpu:1m".parse::<Trigger>().is_err());
/// # Ok::<(), ebpf_profiler_core::live::TriggerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub(super) event: Event,
}

/// The event of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Cpu,
    OffCpu(OffCpu),
    Uprobe(Uprobe),
    Kprobe(Kprobe),
    Fentry(Fentry),
    Malloc(Malloc),
    Block(BlockLatency),
    Usdt(Usdt),
    Tracepoint(Tracepoint),
    Futex(Futex),
    Counter {
        counter: Counter,
        /// Number of events for each sample.
        period: u32,
    },
    Own {
        name: String,
        unit: Unit,
        program: ProgramType,
    },
}

/// A program that walks stacks, and the element of an array from which others call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Walk {
    pub(super) map: &'static str,
    pub(super) index: u32,
    pub(super) program: &'static str,
}

impl Walk {
    const fn event(map: &'static str, program: &'static str) -> Option<Walk> {
        Some(Walk { map, index: walk::EVENT, program })
    }

    const fn span(map: &'static str, program: &'static str) -> Option<Walk> {
        Some(Walk { map, index: walk::SPAN, program })
    }

    const fn held(map: &'static str, program: &'static str) -> Option<Walk> {
        Some(Walk { map, index: walk::HELD, program })
    }

    /// Returns `true` if programs of the embedder call it.
    pub(super) fn is_own(&self) -> bool {
        self.index == walk::OWN
    }
}

impl Trigger {
    /// Returns the trigger of CPU time: a clock on each CPU, with the [frequency](crate::live::Builder::frequency).
    #[doc(alias("perf_event_open", "cpu-clock"))]
    pub fn cpu() -> Trigger {
        Trigger { event: Event::Cpu }
    }

    /// Returns the trigger of a [`Tracepoint`], with a count of events.
    pub fn tracepoint(group: impl Into<String>, name: impl Into<String>) -> Trigger {
        Tracepoint::new(group, name).into()
    }

    /// Returns the trigger of events of an eBPF program of the embedder's own, with samples of the kind `name`. See
    /// [`OwnPrograms`].
    pub fn own(name: impl Into<String>, unit: Unit, program: ProgramType) -> Trigger {
        Trigger { event: Event::Own { name: name.into(), unit, program } }
    }

    /// Returns the trigger of every `period`-th page fault, with a count of page faults.
    #[doc(alias = "PERF_COUNT_SW_PAGE_FAULTS")]
    pub fn page_faults(period: u32) -> Trigger {
        Trigger { event: Event::Counter { counter: PAGE_FAULTS, period: period.max(1) } }
    }

    /// Returns the trigger of every `period`-th cycle of a CPU that is not halted, with a count of cycles.
    ///
    /// Needs performance counters (PMU), which many virtual machines lack.
    #[doc(alias("PMU", "PERF_COUNT_HW_CPU_CYCLES"))]
    pub fn cycles(period: u32) -> Trigger {
        Trigger { event: Event::Counter { counter: CYCLES, period: period.max(1) } }
    }

    /// Returns the trigger of every `period`-th miss of the last cache, with a count of misses. As [`cycles`](Trigger::cycles).
    pub fn cache_misses(period: u32) -> Trigger {
        Trigger { event: Event::Counter { counter: CACHE_MISSES, period: period.max(1) } }
    }

    /// Returns the kinds of its samples, at least one. `period` is that of the clock.
    pub(super) fn kinds(&self, period: Duration) -> Vec<SampleKind> {
        vec![match &self.event {
            Event::Cpu => SampleKind::cpu(period),
            Event::OffCpu(off_cpu) => return off_cpu.kinds(),
            Event::Uprobe(probe) => probe.kind(),
            Event::Kprobe(probe) => probe.kind(),
            Event::Fentry(function) => function.kind(),
            Event::Malloc(malloc) => malloc.kind(),
            Event::Block(_) => BlockLatency::kind(),
            Event::Usdt(probe) => probe.kind(),
            Event::Tracepoint(tracepoint) => tracepoint.kind(),
            Event::Futex(_) => Futex::kind(),
            Event::Counter { counter, .. } => SampleKind::new(counter.name, Unit::Count),
            Event::Own { name, unit, .. } => SampleKind::new(name.clone(), *unit),
        }]
    }

    /// Returns each of `triggers` with the number of its first kind of samples in the run.
    pub(super) fn numbered(triggers: &[Trigger]) -> impl Iterator<Item = (u16, &Trigger)> {
        let mut next = 0;
        triggers.iter().map(move |trigger| {
            let number = next;
            next += trigger.kinds(Duration::ZERO).len() as u16;
            (number, trigger)
        })
    }

    /// Returns `true` if it measures times between two events of a thread.
    pub(super) fn has_spans(&self) -> bool {
        let is_function = matches!(&self.event, Event::Fentry(function) if function.call.is_time());
        is_function || matches!(self.event, Event::Futex(_)) || self.call().is_some_and(Call::is_time)
    }

    /// Returns `true` for memory in use.
    pub(super) fn is_live(&self) -> bool {
        matches!(&self.event, Event::Malloc(malloc) if malloc.is_live)
    }

    /// Returns the maximum number of its samples that have not ended; 0 if its samples end at once.
    pub(super) fn max_held(&self) -> u32 {
        match &self.event {
            Event::Block(_) => held::MAX_REQUESTS,
            _ if self.is_live() => held::MAX_MEMORY,
            _ => 0,
        }
    }

    /// Returns the shortest period of its samples, in their unit: 0 if every event is sampled.
    pub(super) fn period(&self) -> u64 {
        match &self.event {
            Event::Malloc(malloc) if malloc.period() > 1 => malloc.period(),
            _ => 0,
        }
    }

    /// Returns the call at its probes; `None` for other events.
    fn call(&self) -> Option<Call> {
        match &self.event {
            Event::Uprobe(probe) => Some(probe.call),
            Event::Kprobe(probe) => Some(probe.call),
            Event::Usdt(_) | Event::Malloc(_) => Some(Call::ENTRY),
            _ => None,
        }
    }

    /// Returns `true` for CPU time.
    pub(super) fn is_cpu(&self) -> bool {
        self.event == Event::Cpu
    }

    /// Returns `true` for events of the embedder's own programs.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.event, Event::Own { .. })
    }

    /// Returns the name of its kind of samples, for events of the embedder's own programs.
    pub(super) fn own_name(&self) -> &str {
        if let Event::Own { name, .. } = &self.event { name } else { "" }
    }

    /// Returns `true` for off-CPU time.
    pub(super) fn is_off_cpu(&self) -> bool {
        matches!(self.event, Event::OffCpu(_))
    }

    /// Returns the names of the programs that are loaded for each function of the kernel.
    pub(super) fn programs_of_functions(&self) -> impl Iterator<Item = &'static str> {
        let edges = if let Event::Fentry(function) = &self.event { function.edges() } else { &[] };
        edges.iter().map(|&(name, _)| name)
    }

    /// Returns the names of the programs that it needs, without those of functions of the kernel.
    pub(super) fn programs(&self) -> &'static [&'static str] {
        match &self.event {
            Event::Cpu => &["sample", "sample_lists", "sample_native"],
            Event::OffCpu(off_cpu) => off_cpu.programs(),
            Event::Malloc(_) if self.is_live() => &["allocating", "allocated", "freeing"],
            Event::Block(_) => &["issued", "finished", "completed"],
            Event::Uprobe(_) | Event::Kprobe(_) | Event::Malloc(_) | Event::Usdt(_) => {
                self.call().map_or(&[], Call::programs)
            }
            Event::Tracepoint(_) => &["traced"],
            Event::Futex(_) => &["called", "answered"],
            Event::Counter { .. } => &["counted"],
            Event::Fentry(_) | Event::Own { .. } => &[],
        }
    }

    /// Returns the walks that its programs call; none for the clock and for functions of the kernel, whose programs walk themselves.
    pub(super) fn walks(&self) -> impl Iterator<Item = Walk> {
        let wakes = matches!(&self.event, Event::OffCpu(off_cpu) if off_cpu.has_wakers);
        let waking = wakes.then(|| Walk::span("RAW_WALKS", "walk_waking")).flatten();
        self.walk().into_iter().chain(waking)
    }

    fn walk(&self) -> Option<Walk> {
        match &self.event {
            Event::Cpu | Event::Fentry(_) => None,
            Event::OffCpu(_) => Walk::event("RAW_WALKS", "walk_resumed"),
            Event::Malloc(_) if self.is_live() => Walk::held("PROBE_WALKS", "walk_allocating"),
            Event::Block(_) => Walk::held("RAW_WALKS", "walk_issued"),
            Event::Uprobe(_) | Event::Kprobe(_) | Event::Malloc(_) | Event::Usdt(_) => {
                self.call().and_then(Call::walk)
            }
            Event::Tracepoint(_) => Walk::event("TRACE_WALKS", "walk_traced"),
            Event::Futex(_) => Walk::span("TRACE_WALKS", "walk_answered"),
            Event::Counter { .. } => Walk::event("EVENT_WALKS", "walk_counted"),
            Event::Own { program, .. } => Some(program.walk()),
        }
    }
}

impl From<OffCpu> for Trigger {
    fn from(off_cpu: OffCpu) -> Trigger {
        Trigger { event: Event::OffCpu(off_cpu) }
    }
}

impl From<Uprobe> for Trigger {
    fn from(probe: Uprobe) -> Trigger {
        Trigger { event: Event::Uprobe(probe) }
    }
}

impl From<Kprobe> for Trigger {
    fn from(probe: Kprobe) -> Trigger {
        Trigger { event: Event::Kprobe(probe) }
    }
}

impl From<Fentry> for Trigger {
    fn from(function: Fentry) -> Trigger {
        Trigger { event: Event::Fentry(function) }
    }
}

impl From<Malloc> for Trigger {
    fn from(malloc: Malloc) -> Trigger {
        Trigger { event: Event::Malloc(malloc) }
    }
}

impl From<BlockLatency> for Trigger {
    fn from(latency: BlockLatency) -> Trigger {
        Trigger { event: Event::Block(latency) }
    }
}

impl From<Usdt> for Trigger {
    fn from(probe: Usdt) -> Trigger {
        Trigger { event: Event::Usdt(probe) }
    }
}

impl From<Tracepoint> for Trigger {
    fn from(tracepoint: Tracepoint) -> Trigger {
        Trigger { event: Event::Tracepoint(tracepoint) }
    }
}

impl From<Futex> for Trigger {
    fn from(futex: Futex) -> Trigger {
        Trigger { event: Event::Futex(futex) }
    }
}
