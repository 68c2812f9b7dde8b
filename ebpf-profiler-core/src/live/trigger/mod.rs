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

mod fentry;

mod futex;

mod kprobe;

mod malloc;

mod parse;

mod notes;

mod off_cpu;

mod operand;

mod own;

mod place;

mod probe;

mod tracepoint;

mod usdt;

use std::time::Duration;

pub(super) use attach::Attached;
pub use block::BlockLatency;
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
use ebpf_programs::abi::held;
use ebpf_programs::abi::own::walk;

use crate::profile::{SampleKind, Unit};

/// An event at which samples are taken, for [`Builder::on`](super::Builder::on).
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

/// An event that the kernel counts, by its numbers in the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) name: &'static str,
    /// Type of the event: [`HARDWARE`] or [`SOFTWARE`].
    pub(super) kind: u32,
    pub(super) number: u64,
    /// Number of events for each sample, by default.
    pub(super) period: u32,
}

pub(super) const HARDWARE: u32 = 0;
pub(super) const SOFTWARE: u32 = 1;

impl Counter {
    const fn software(name: &'static str, number: u64) -> Counter {
        Counter { name, kind: SOFTWARE, number, period: 1 }
    }

    const fn hardware(name: &'static str, number: u64, period: u32) -> Counter {
        Counter { name, kind: HARDWARE, number, period }
    }
}

const PAGE_FAULTS: Counter = Counter::software("page-faults", 2);
const CYCLES: Counter = Counter::hardware("cycles", 0, 10_000_019);
const CACHE_MISSES: Counter = Counter::hardware("cache-misses", 3, 10_007);

/// All counters. Default periods are primes, so that samples keep no step with a loop.
pub(super) const COUNTERS: [Counter; 9] = [
    PAGE_FAULTS,
    Counter::software("minor-faults", 5),
    Counter::software("major-faults", 6),
    CYCLES,
    Counter::hardware("instructions", 1, 10_000_019),
    Counter::hardware("cache-references", 2, 100_003),
    CACHE_MISSES,
    Counter::hardware("branches", 4, 1_000_003),
    Counter::hardware("branch-misses", 5, 10_007),
];

impl Trigger {
    /// The forms of triggers as text, each with its meaning.
    pub const FORMS: &'static [(&'static str, &'static str)] = &[
        ("cpu", "CPU time: a clock on each CPU; the default"),
        (
            "off-cpu[:1ms[:0.1]]",
            "time off the CPU: waits of at least 1 ms, a share of 0.1 of them (kernel 6.1)",
        ),
        (
            "off-cpu-states[:1ms[:0.1]]",
            "the same in two kinds: blocked, and runnable, which is the time that a thread waits for a CPU",
        ),
        (
            "off-cpu-wakers[:1ms[:0.1]]",
            "time off the CPU, and the same waits until they were ended, with the stack that woke the thread",
        ),
        ("futex[:1ms]", "waits for locks of at least 1 ms: futex calls (tracefs)"),
        ("block-io", "reads and writes of disks by bytes, where they are issued (tracefs)"),
        ("block-latency[:1ms]", "latency of disks: requests of at least 1 ms, by the stack that issued them"),
        (
            "uprobe:FILE:FUNCTION[:argN|:time]",
            "calls of a function of a program or library, or of all that match a pattern, such as libc.so*:pthread_*; argN: its \
             N-th argument, from 0; time: until it returns",
        ),
        ("uretprobe:FILE:FUNCTION[:result]", "returns of a function; result: the value that it returns"),
        (
            "kprobe:FUNCTION[:argN|:time]",
            "calls of a function of the kernel, or of all that match a pattern, such as vfs_*",
        ),
        ("kretprobe:FUNCTION[:result]", "returns of a function of the kernel"),
        (
            "fentry:FUNCTION[:argN|:time]",
            "the same as kprobe, with the argument's type; a pattern matches at most 16 functions (kernel 5.19)",
        ),
        (
            "fexit:FUNCTION[:result]",
            "returns of a function of the kernel, with the result's type (kernel 5.19)",
        ),
        (
            "usdt:FILE:PROVIDER:NAME[:argN]",
            "a static probe (USDT) of a program or library, such as libstdc++.so.6:libstdcxx:throw; readelf -n FILE lists them",
        ),
        (
            "tracepoint:GROUP:NAME[:FIELD]",
            "an event of the kernel, such as syscalls:sys_enter_read; FIELD: an integer of it (tracefs)",
        ),
        ("page-faults[:N]", "every N-th page fault; also minor-faults, major-faults"),
        (
            "cycles[:N]",
            "every N-th cycle of a CPU, by default of 10,000,019; also instructions, cache-references, cache-misses, branches, \
             branch-misses (PMU)",
        ),
        (
            "malloc[:64KiB][:FILE]",
            "allocations by bytes, of the C library, or of the allocator in a library or program, such as libjemalloc.so.2; 64KiB: a \
             sample every 64 KiB on average",
        ),
        (
            "malloc-live[:512KiB][:FILE]",
            "memory that is allocated and not freed yet, by the stack that allocated it; 1: each allocation",
        ),
    ];

    /// Returns the reason for which this machine has no triggers of a form of [`Trigger::FORMS`]; `None` if nothing is known to be
    /// missing.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::live::Trigger;
    ///
    /// for (form, meaning) in Trigger::FORMS {
    ///     match Trigger::missing(form) {
    ///         None => println!("{form}: {meaning}"),
    ///         Some(reason) => println!("{form}: not on this machine: {reason}"),
    ///     }
    /// }
    /// assert_eq!(Trigger::missing("cpu"), None);
    /// ```
    pub fn missing(form: &str) -> Option<String> {
        let name = form.split([':', '[']).next().unwrap_or_default();
        let checked = match name {
            "off-cpu" | "off-cpu-states" | "off-cpu-wakers" | "off-cpu-states-wakers" => {
                off_cpu::check_kernel()
            }
            "futex" | "block-io" | "tracepoint" => tracepoint::folder().map(drop),
            "uprobe" | "uretprobe" | "usdt" | "malloc" | "malloc-live" => {
                attach::number_of("uprobe").map(drop)
            }
            "cycles" => counters_of_hardware(),
            "kprobe" | "kretprobe" => attach::number_of("kprobe").map(drop),
            "fentry" | "fexit" => fentry::missing().map_or(Ok(()), Err),
            _ => Ok(()),
        };
        checked.err()
    }

    /// Returns the trigger of CPU time: a clock on each CPU, with the [frequency](super::Builder::frequency).
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
    pub fn page_faults(period: u32) -> Trigger {
        Trigger { event: Event::Counter { counter: PAGE_FAULTS, period: period.max(1) } }
    }

    /// Returns the trigger of every `period`-th cycle of a CPU that is not halted, with a count of cycles.
    ///
    /// Needs performance counters (PMU), which many virtual machines lack.
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

/// Fails on a machine without counters of hardware events.
fn counters_of_hardware() -> Result<(), String> {
    // CPUs with cores of two sorts have one device for each.
    let is_there = |name| std::path::Path::new("/sys/bus/event_source/devices").join(name).exists();
    if is_there("cpu") || is_there("cpu_core") {
        return Ok(());
    }
    Err("this machine has no performance counters (PMU); a virtual machine gets them from its host"
        .to_owned())
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
