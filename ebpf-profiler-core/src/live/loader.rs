//! Loading of the kernel side: from an object to running programs.
//!
//! `aya-obj` parses and relocates the object; the system calls around it are this crate's own ([`bpf`](super::bpf)), not
//! aya's loader. That loader first probes the kernel's features and parses the kernel's type information (BTF): it costs
//! 25 to 45 ms and 8 MB more at each start, measured with the same object. The programs here need neither: they use fixed
//! offsets from [`kernel_types`](super::kernel_types), attach to perf events, which are those of probes and tracepoints
//! too, and to raw tracepoints, and 5.17 is the minimum for features that need no probe.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use ebpf_programs::abi;
use ebpf_programs::abi::budget::{COST_WORDS, MAX_KINDS};
use ebpf_programs::abi::config::{Config, MAX_LEVELS, RING_PER_COPY};
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::reason::Counter;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

use super::bpf::{self, Map, Runs};
use super::capability::{BPF, PERFMON};
use super::cpu_buffers::CpuBuffers;
use super::cpus;
use super::error::StartError;
use super::filter;
use super::kernel_tables::{KernelTables, NeededWalkers};
use super::kernel_types::KernelTypes;
use super::kernel_version;
use super::mmap::Mmap;
use super::object::KernelObject;
use super::ring::Ring;
use super::settings::Settings;
use super::trigger::{Attached, OwnPrograms, Trigger, Walk};
use super::waker::Waker;
use crate::sample::KindCost;

/// The programs that follow the life of processes, and their tracepoints.
const TRACEPOINTS: [(&str, &CStr); 3] = [
    ("forked", c"sched_process_fork"),
    ("executed", c"sched_process_exec"),
    ("exited", c"sched_process_exit"),
];

/// The walker of lists, as a set.
const LISTS: u32 = 1 << walker::LIST;

/// Returns the name of the clock's program for a set of walkers. The kernel loads those without walkers, and with that of lists
/// alone, in half of the time.
fn sampler(walkers: u32) -> &'static str {
    match walkers {
        0 => "sample_native",
        LISTS => "sample_lists",
        _ => "sample",
    }
}

/// The constant with the walkers that a program has.
const WALKERS: &str = "WALKERS";

/// The loaded kernel side: its programs, and its tables.
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    pub(super) tables: KernelTables,
    pub(super) own: OwnPrograms,
    /// Samples that have not ended; `None` if all samples end at once.
    pub(super) held: Option<Map>,
}

/// Programs and buffers in the kernel.
pub(super) struct Kernel {
    /// The programs that walk stacks.
    pub(super) walks: Walks,
    /// All other triggers.
    pub(super) attached: Attached,
    /// Processes that are wanted.
    pub(super) wanted: Wanted,
    /// Conditions of samples.
    pub(super) filter: filter::Maps,
    /// Links of the programs at tracepoints, which run as long as these are open.
    pub(super) _links: Vec<OwnedFd>,
    /// The short way up.
    pub(super) cpu_buffers: CpuBuffers,
    /// The long way up.
    pub(super) ring: Ring,
    /// Counters of all CPUs.
    pub(super) counters: Counters,
    /// Periods and costs of kinds of samples; `None` without a budget.
    pub(super) kind_costs: Option<KindCosts>,
}

/// The programs that walk stacks: the clock's, and those that programs at other events call. These have the walkers of all
/// plugged-in languages. The clock's has those of the runtimes that were found so far, so that others cost nothing; when one is
/// found, it is loaded again.
pub(super) struct Walks {
    /// The object, unless a thread loads a program of it.
    object: Option<KernelObject>,
    loading: Option<Loading>,
    /// The clock's program; `None` without CPU time.
    sampler: Option<OwnedFd>,
    called: Vec<Called>,
    /// Walkers of the clock's program, a bit for each.
    has: u32,
    /// Walkers that the registry has requested.
    needed: Arc<NeededWalkers>,
    /// Runs of the clock's former programs.
    former: Runs,
}

/// A thread that loads the clock's program, so that samples are drained meanwhile.
struct Loading {
    thread: JoinHandle<(KernelObject, Result<OwnedFd, StartError>)>,
    /// Walkers of the program.
    walkers: u32,
}

/// A program that others call.
struct Called {
    walk: Walk,
    map: Map,
    program: OwnedFd,
}

impl Walks {
    /// Loads the programs. Of the walkers of plugged-in languages the clock's has that of lists at once: it costs next to nothing,
    /// and the first frames of a process then don't wait for it.
    fn load(
        mut object: KernelObject,
        triggers: &[Trigger],
        plugged_in: u32,
        needed: Arc<NeededWalkers>,
    ) -> Result<Walks, StartError> {
        let mut walks: Vec<Walk> = triggers.iter().flat_map(Trigger::walks).collect();
        walks.sort_unstable();
        walks.dedup();
        let load = |walk: Walk| {
            Ok(Called { map: object.map(walk.map)?, program: object.program(walk.program)?, walk })
        };
        let called = walks.into_iter().map(load).collect::<Result<_, StartError>>()?;
        let has = plugged_in & LISTS;
        object.set_constant(WALKERS, &has.to_ne_bytes())?;
        let has_clock = triggers.iter().any(Trigger::is_cpu);
        let sampler = has_clock.then(|| object.program(sampler(has))).transpose()?;
        let object = Some(object);
        let walks = Walks { object, loading: None, sampler, called, has, needed, former: Runs::default() };
        walks.set_called(|_| true).map_err(failed_to_set)?;
        Ok(walks)
    }

    /// Returns the clock's program.
    pub(super) fn sampler(&self) -> Option<&OwnedFd> {
        self.sampler.as_ref()
    }

    /// Wakes by this when walkers are requested.
    pub(super) fn set_waker(&self, waker: Waker) {
        self.needed.set_waker(waker);
    }

    /// Loads the clock's program again if walkers were requested that it doesn't have, in a thread, or at once if `waits`. Returns
    /// `true` if there is a new program.
    pub(super) fn renew(&mut self, waits: bool) -> Result<bool, StartError> {
        if self.loading.is_none() {
            self.begin_to_load()?;
        }
        let Some(loading) = self.loading.take_if(|loading| waits || loading.thread.is_finished()) else {
            return Ok(false);
        };
        let failed = |_| StartError::Object("the thread that loads it panicked".to_owned());
        let (object, program) = loading.thread.join().map_err(failed)?;
        self.object = Some(object);
        self.former = self.runs();
        self.sampler = Some(program?);
        self.has = loading.walkers;
        Ok(true)
    }

    /// Starts a thread that loads the clock's program with the requested walkers, if it lacks any.
    fn begin_to_load(&mut self) -> Result<(), StartError> {
        let walkers = self.needed.bits() | self.has;
        if walkers == self.has || self.sampler.is_none() {
            self.has = walkers;
            return Ok(());
        }
        let Some(mut object) = self.object.take() else { return Ok(()) };
        let load = move || {
            let set = object.set_constant(WALKERS, &walkers.to_ne_bytes());
            let program = set.and_then(|()| object.program(sampler(walkers)));
            (object, program)
        };
        let thread = std::thread::Builder::new().name("profiler-load".to_owned()).spawn(load);
        let failed = |error| StartError::System { what: "start a thread that loads a program", error };
        self.loading = Some(Loading { thread: thread.map_err(failed)?, walkers });
        Ok(())
    }

    /// Puts programs where others call them.
    fn set_called(&self, is_wanted: impl Fn(&Walk) -> bool) -> io::Result<()> {
        let mut wanted = self.called.iter().filter(|called| is_wanted(&called.walk));
        wanted.try_for_each(|called| called.map.set_program(called.walk.index, &called.program))
    }

    /// Accepts events of own programs.
    pub(super) fn accept_own(&self) -> io::Result<()> {
        self.set_called(Walk::is_own)
    }

    /// Rejects events of own programs.
    pub(super) fn reject_own(&self) {
        for called in self.called.iter().filter(|called| called.walk.is_own()) {
            // It may be gone already.
            let _ = called.map.remove(called.walk.index);
        }
    }

    /// Returns the runs of the clock's program. Those of programs that are called count as their callers'.
    pub(super) fn runs(&self) -> Runs {
        let current = self.sampler.as_ref().and_then(|program| bpf::runs(program).ok());
        [self.former].into_iter().chain(current).sum()
    }
}

fn failed_to_set(error: io::Error) -> StartError {
    StartError::System { what: "set a program to call", error }
}

/// Loads the kernel side with a ring of `ring` bytes, without samples of process `exclude`; 0 excludes none. `walkers` has a
/// bit for each [number](abi::interpreter::walker) of a walker that is needed. CPU time is the first of `triggers`, if it is one.
/// With a budget, the kernel side measures the cost of samples.
pub(super) fn load(
    ring: u32,
    exclude: u32,
    walkers: u32,
    triggers: &[Trigger],
    has_budget: bool,
) -> Result<Loaded, StartError> {
    check_kernel()?;
    check_object(ebpf_programs::OBJECT)?;
    let sizes = Sizes::new(triggers)?;
    let mut object = open(ring, walkers, triggers, has_budget, &sizes)?;
    let Sizes { cpus, buffers, slots, .. } = sizes;
    if triggers.iter().any(Trigger::is_off_cpu) {
        object.fill_with_inner("KICKS", cpus)?;
    }
    let attached = Attached::load(&mut object, triggers)?;
    let programs = TRACEPOINTS.map(|(name, tracepoint)| Ok((object.program(name)?, tracepoint)));
    let programs = programs.into_iter().collect::<Result<Vec<_>, StartError>>()?;
    let settings = configure(object.map("CONFIG")?, ring, exclude)?;
    let links = programs.iter().map(|(program, tracepoint)| bpf::attach(program, tracepoint));
    let links = links.collect::<Result<_, _>>();
    let follow = |error| StartError::system("follow the life of processes", &[PERFMON], error);
    let map_buffers = |error| StartError::system("map the per-CPU buffers", &[BPF], error);
    let map_ring = |error| StartError::system("map the ring", &[BPF], error);
    let wanted = Wanted { map: object.map("WANTED")?, pids: Vec::new() };
    let filter = filter::Maps { filter: object.map("FILTER")?, cgroups: object.map("CGROUPS")? };
    let ring = Ring::new(object.map("RING")?).map_err(map_ring)?;
    let map = object.map("CPU_BUFFERS")?;
    let cpu_buffers = CpuBuffers::new(map.as_fd(), buffers).map_err(map_buffers)?;
    let counters = Counters::new(&object.map("COUNTERS")?, slots)?;
    set_periods(&object.map("PERIODS")?, triggers)?;
    let held =
        triggers.iter().any(|trigger| trigger.max_held() > 0).then(|| object.map("HELD")).transpose()?;
    let kind_costs = has_budget
        .then(|| KindCosts::new(&object.map("COSTS")?, object.map("PERIODS")?, triggers, cpus))
        .transpose()?;
    let tables = KernelTables::new(object.map("ARENA")?, object.map("PROCESSES")?, settings);
    let own = OwnPrograms::new(triggers, |name| object.map(name))?;
    let walks = Walks::load(object, triggers, walkers, tables.walkers())?;
    let _links = links.map_err(follow)?;
    Ok(Loaded {
        own,
        held,
        kernel: Kernel { walks, attached, wanted, filter, _links, cpu_buffers, ring, counters, kind_costs },
        tables,
    })
}

/// Sizes of the maps that depend on the machine and on the triggers.
struct Sizes {
    /// Possible CPUs.
    cpus: u32,
    /// Per-CPU buffers. A CPU that comes online later uses the ring only.
    buffers: u32,
    /// Levels of per-CPU state: events of other triggers than the clock interrupt one another.
    levels: u32,
    /// Per-CPU states of all levels.
    slots: u32,
}

impl Sizes {
    fn new(triggers: &[Trigger]) -> Result<Sizes, StartError> {
        let no_cpus = |error| StartError::system("list the CPUs", &[], error);
        let cpus = cpus::possible().map_err(no_cpus)?;
        let buffers = cpus::online().map_err(no_cpus)?.into_iter().max().map_or(1, |highest| highest + 1);
        let levels = if triggers.iter().all(Trigger::is_cpu) { 1 } else { MAX_LEVELS };
        Ok(Sizes { cpus, buffers, levels, slots: cpus * levels })
    }
}

/// Opens the kernel object with the programs, maps and constants that the triggers need.
fn open(
    ring: u32,
    walkers: u32,
    triggers: &[Trigger],
    has_budget: bool,
    &Sizes { cpus, buffers, levels, slots }: &Sizes,
) -> Result<KernelObject, StartError> {
    let own = Trigger::numbered(triggers)
        .fold(0u64, |kinds, (kind, it)| kinds | u64::from(it.is_own()) << (kind & 63));
    let mut entries = vec![
        ("SCRATCH", slots),
        ("CLAIMS", cpus),
        ("COUNTERS", slots),
        ("CPU_BUFFERS", buffers),
        ("RING", ring),
        ("WOKEN", cpus),
        ("COSTS", if has_budget { cpus } else { 1 }),
    ];
    entries.extend(entries_of_triggers(triggers));
    let mut unused = Vec::new();
    if triggers.iter().any(Trigger::is_off_cpu) {
        entries.push(("KICKS", cpus))
    } else {
        unused.push("KICKS")
    }
    let mut programs: Vec<&str> = TRACEPOINTS.iter().map(|&(name, _)| name).collect();
    programs.extend(triggers.iter().flat_map(Trigger::programs));
    programs.extend(triggers.iter().flat_map(Trigger::programs_of_functions));
    programs.extend(triggers.iter().flat_map(Trigger::walks).map(|walk| walk.program));
    let has_periods = has_budget || triggers.iter().any(|trigger| trigger.period() > 0);
    let constants: [(&str, &[u8]); 5] = [
        (WALKERS, &walkers.to_ne_bytes()),
        ("LEVELS", &levels.to_ne_bytes()),
        ("OWN_KINDS", &own.to_ne_bytes()),
        ("IS_GOVERNED", &u32::from(has_budget).to_ne_bytes()),
        ("HAS_PERIODS", &u32::from(has_periods).to_ne_bytes()),
    ];
    KernelObject::new(ebpf_programs::OBJECT, &programs, &unused, &entries, &constants)
}

/// Returns the maps that some triggers alone need, with their number of entries: one if there is no such trigger.
fn entries_of_triggers(triggers: &[Trigger]) -> [(&'static str, u32); 5] {
    let if_any = |is: fn(&Trigger) -> bool, entries| if triggers.iter().any(is) { entries } else { 1 };
    [
        ("SWITCHED", if_any(Trigger::is_off_cpu, abi::off_cpu::SETS)),
        ("SPANS", if_any(Trigger::has_spans, abi::span::MAX_SPANS)),
        ("OWN_EVENTS", if_any(Trigger::is_own, abi::own::MAX_EVENTS)),
        ("HELD", triggers.iter().map(Trigger::max_held).sum::<u32>().max(1)),
        ("OPENINGS", if_any(Trigger::is_live, abi::held::MAX_OPENINGS)),
    ]
}

/// Sets the periods that triggers have without a budget.
fn set_periods(map: &Map, triggers: &[Trigger]) -> Result<(), StartError> {
    for (kind, trigger) in Trigger::numbered(triggers).filter(|(_, trigger)| trigger.period() > 0) {
        map.set(kind.into(), &trigger.period().to_ne_bytes())
            .map_err(|error| StartError::System { what: "set a period", error })?;
    }
    Ok(())
}

/// Writes the configuration of the kernel side.
fn configure(map: Map, ring: u32, exclude: u32) -> Result<Settings, StartError> {
    // Without type information the offsets are 0, which disables the few things that need them.
    let mut types = KernelTypes::of_this_kernel().ok();
    let mut at = |path| types.as_mut().and_then(|types| types.offset("task_struct", path)).unwrap_or(0);
    let config = Config {
        version: abi::VERSION,
        wakeup_bytes: ring / 4,
        excluded_pid: exclude,
        fsbase_offset: at("thread.fsbase"),
        pid_offset: at("pid"),
        tgid_offset: at("tgid"),
        table_generation: 0,
        full_copies: ring / RING_PER_COPY,
    };
    let failed = |error| StartError::System { what: "configure the kernel side", error };
    Settings::new(map, config).map_err(failed)
}

/// The processes whose samples the kernel side takes before their state is published.
pub(super) struct Wanted {
    map: Map,
    pids: Vec<u32>,
}

impl Wanted {
    /// Replaces the processes; all if empty.
    pub(super) fn set(&mut self, pids: &[u32]) {
        /// Key of the entry that says that there are others.
        const OTHERS: u32 = 0;
        for pid in self.pids.drain(..).chain([OTHERS]) {
            // It may have been evicted.
            let _ = self.map.remove(pid);
        }
        self.pids.extend(pids);
        let others = (!pids.is_empty()).then_some(OTHERS);
        for pid in self.pids.iter().copied().chain(others) {
            // Without it, samples of others are sent, and dropped in user space.
            let _ = self.map.set(pid, &[0; 4]);
        }
    }
}

/// Counters of the kernel side in shared memory, one row for each CPU and level.
pub(super) struct Counters {
    memory: Mmap,
    rows: usize,
}

impl Counters {
    fn new(map: &Map, rows: u32) -> Result<Counters, StartError> {
        let rows = rows as usize;
        let len = (rows * Counter::WORDS * 8).next_multiple_of(4096);
        let memory = Mmap::new(map.as_fd(), 0, len, false)
            .map_err(|error| StartError::system("map the counters", &[BPF], error))?;
        Ok(Counters { memory, rows })
    }

    /// Returns the sums over all rows.
    pub(super) fn sums(&self) -> Vec<u64> {
        let word = |row: usize, counter| {
            self.memory.word((row * Counter::WORDS + counter) * 8).load(std::sync::atomic::Ordering::Relaxed)
        };
        (0..Counter::ALL.len()).map(|counter| (0..self.rows).map(|row| word(row, counter)).sum()).collect()
    }
}

/// Periods and costs of the kinds of samples.
pub(super) struct KindCosts {
    periods: Map,
    costs: Mmap,
    cpus: usize,
    kinds: usize,
}

impl KindCosts {
    fn new(costs: &Map, periods: Map, triggers: &[Trigger], cpus: u32) -> Result<KindCosts, StartError> {
        let len = (cpus as usize * MAX_KINDS * COST_WORDS * 8).next_multiple_of(4096);
        let costs = Mmap::new(costs.as_fd(), 0, len, false)
            .map_err(|error| StartError::system("map the costs of samples", &[BPF], error))?;
        let kinds = triggers.iter().map(|trigger| trigger.kinds(Duration::ZERO).len()).sum::<usize>();
        Ok(KindCosts { periods, costs, cpus: cpus as usize, kinds: kinds.min(MAX_KINDS) })
    }

    /// Returns the sums over all CPUs, by the number of the kind.
    pub(super) fn sums(&self) -> Vec<KindCost> {
        let word = |cpu: usize, kind: usize, word: usize| {
            let at = ((cpu * MAX_KINDS + kind) * COST_WORDS + word) * 8;
            self.costs.word(at).load(Ordering::Relaxed)
        };
        let sum = |kind| {
            let sum = |index| (0..self.cpus).map(|cpu| word(cpu, kind, index)).fold(0, u64::wrapping_add);
            let [samples, skipped, time, idle, value] = std::array::from_fn::<_, COST_WORDS, _>(sum);
            let (time, idle_time) = (Duration::from_nanos(time), Duration::from_nanos(idle));
            KindCost { samples, skipped, time, idle_time, value }
        };
        (0..self.kinds).map(sum).collect()
    }

    /// Sets the period of a kind.
    pub(super) fn set_period(&self, kind: usize, period: u64) -> io::Result<()> {
        self.periods.set(kind as u32, &period.to_ne_bytes())
    }
}

fn check_kernel() -> Result<(), StartError> {
    let release = kernel_version::release();
    if kernel_version::parse(&release).is_some_and(|version| version < kernel_version::MINIMUM) {
        return Err(StartError::OldKernel { release });
    }
    match fs::exists("/sys/kernel/btf/vmlinux") {
        Ok(true) => Ok(()),
        _ => Err(StartError::NoTypes),
    }
}

/// Checks that the object and this library are of the same ABI version.
fn check_object(object: &[u8]) -> Result<(), StartError> {
    let wrong = |what: &str| StartError::Object(what.to_owned());
    let file = ElfFile64::<LittleEndian>::parse(object).map_err(|error| wrong(&error.to_string()))?;
    let section = file.section_by_name("abi").ok_or_else(|| wrong("it doesn't say which version it is"))?;
    match section.data() {
        Ok(word) if word == abi::VERSION.to_le_bytes() => Ok(()),
        _ => Err(wrong("it is of another version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_of_this_version() {
        check_object(ebpf_programs::OBJECT).unwrap();
    }

    #[test]
    fn another_object_is_refused() {
        let sentence = |bytes: &[u8]| check_object(bytes).unwrap_err().to_string();
        assert!(sentence(b"no object").contains("rebuild it: cargo xtask object"));
        let mut other = ebpf_programs::OBJECT.to_vec();
        let file = ElfFile64::<LittleEndian>::parse(ebpf_programs::OBJECT).unwrap();
        let (at, _) = file.section_by_name("abi").unwrap().file_range().unwrap();
        other[at as usize] ^= 1;
        assert!(sentence(&other).contains("another version"));
    }
}
