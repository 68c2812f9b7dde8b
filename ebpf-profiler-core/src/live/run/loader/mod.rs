//! Loading of the kernel side: from an object to running programs.
//!
//! `aya-obj` parses and relocates the object; the system calls around it are this crate's own ([`bpf`]), not
//! aya's loader. That loader first probes the kernel's features and parses the kernel's type information (BTF): it costs
//! 25 to 45 ms and 8 MB more at each start, measured with the same object. The programs here need neither: they use fixed
//! offsets from [`types`](crate::live::kernel::types), attach to perf events, which are those of probes and tracepoints
//! too, and to raw tracepoints, and features that they use are asked for one by one.

mod counters;

mod older;

mod sizes;

mod walks;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ebpf_programs::abi;
use ebpf_programs::abi::config::{Config, RING_PER_COPY};
use ebpf_programs::abi::uretprobe::UretprobeOffsets;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

pub(super) use counters::{Counters, KindCosts};
pub(super) use sizes::{Machine, Scaled};
pub(super) use walks::Walks;

use older::Older;
use sizes::Slots;

use crate::live::error::StartError;
use crate::live::kernel::bpf::{self, Map};
use crate::live::kernel::cpu_buffers::CpuBuffers;
use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::memlock;
use crate::live::kernel::object::KernelObject;
use crate::live::kernel::ring::{Drains, Ring};
use crate::live::kernel::settings::Settings;
use crate::live::kernel::tables::KernelTables;
use crate::live::kernel::types::{KernelTypes, VMLINUX};
use crate::live::kernel::version;
use crate::live::machine::capability::{BPF, PERFMON};
use crate::live::machine::cpus;
use crate::live::trigger::filter;
use crate::live::trigger::{Attached, OwnPrograms, Trigger};
use crate::process::Pids;

/// The programs that follow the life of processes, and their tracepoints.
const TRACEPOINTS: [(&str, &CStr); 3] = [
    ("forked", c"sched_process_fork"),
    ("executed", c"sched_process_exec"),
    ("exited", c"sched_process_exit"),
];

/// Path of the saved thread pointer in the kernel's `task_struct`.
const THREAD_POINTER: &str =
    if cfg!(target_arch = "aarch64") { "thread.uw.tp_value" } else { "thread.fsbase" };

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
    /// Wake-ups.
    pub(super) drains: Drains,
    /// Counters of all CPUs.
    pub(super) counters: Counters,
    /// Periods and costs of kinds of samples; `None` without a budget.
    pub(super) kind_costs: Option<KindCosts>,
}

fn failed_to_set(error: io::Error) -> StartError {
    StartError::System { what: "set a program to call", error }
}

/// Loads the kernel side with these sizes, without samples of process `exclude`; 0 excludes none. `walkers` has a
/// bit for each [number](abi::interpreter::walker) of a walker that is needed. CPU time is the first of `triggers`, if it is one.
/// With a budget, the kernel side measures the cost of samples.
pub(super) fn load(
    scaled: Scaled,
    exclude: u32,
    walkers: u32,
    triggers: &[Trigger],
    has_budget: bool,
    walk_time: Duration,
) -> Result<Loaded, StartError> {
    check_kernel()?;
    let walkers = walkers & walks::WRITTEN_WALKERS;
    let older = Older::of_this_kernel();
    check_object(older::object(older.as_ref()))?;
    memlock::raise();
    let sizes = Sizes::new(triggers, scaled, older.is_some())?;
    let ring = scaled.ring;
    let mut object = open(older.as_ref(), walkers, triggers, has_budget, &sizes)?;
    let Sizes { cpus, slots, .. } = sizes;
    let attached = Attached::load(&mut object, triggers, slots.cpus)?;
    let programs = TRACEPOINTS.map(|(name, tracepoint)| Ok((object.program(name)?, tracepoint)));
    let programs = programs.into_iter().collect::<Result<Vec<_>, StartError>>()?;
    let settings = configure(object.map("CONFIG")?, ring, exclude, walk_time)?;
    let links = programs.iter().map(|(program, tracepoint)| bpf::attach(program, tracepoint));
    let links = links.collect::<Result<_, _>>();
    let follow = |error| StartError::system("follow the life of processes", &[PERFMON], error);
    let map_buffers = |error| StartError::system("map the per-CPU buffers", &[BPF], error);
    let map_ring = |error| StartError::system("map the ring", &[BPF], error);
    let wanted = Wanted { map: object.map("WANTED")?, pids: Pids::All };
    let filter = filter::Maps { filter: object.map("FILTER")?, cgroups: object.map("CGROUPS")? };
    let ring = Ring::new(object.map("RING")?).map_err(map_ring)?;
    let drains = Drains::new(object.map("WAKE")?.as_fd()).map_err(map_ring)?;
    let map = object.map("CPU_BUFFERS")?;
    let cpu_buffers = CpuBuffers::new(map.as_fd(), slots.cpus).map_err(map_buffers)?;
    let counters = Counters::new(&object.map("COUNTERS")?, slots.rows(cpus))?;
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
        kernel: Kernel {
            walks,
            attached,
            wanted,
            filter,
            _links,
            cpu_buffers,
            ring,
            drains,
            counters,
            kind_costs,
        },
        tables,
    })
}

/// Sizes of the maps that depend on the machine and on the triggers.
struct Sizes {
    /// Possible CPUs.
    cpus: u32,
    /// `true` if events can interrupt one another: those of other triggers than the clock.
    is_nested: bool,
    /// Working memory. There are as many per-CPU buffers as CPUs that have some: one that comes online later uses the ring only.
    slots: Slots,
    /// Those that depend on the machine alone.
    scaled: Scaled,
}

impl Sizes {
    fn new(triggers: &[Trigger], scaled: Scaled, is_older: bool) -> Result<Sizes, StartError> {
        let no_cpus = |error| StartError::system("list the CPUs", &[], error);
        let cpus = cpus::possible().map_err(no_cpus)?;
        let online = cpus::online().map_err(no_cpus)?.into_iter().max().map_or(1, |highest| highest + 1);
        let is_nested = !triggers.iter().all(Trigger::is_cpu);
        Ok(Sizes { cpus, is_nested, slots: Slots::new(online, cpus, is_nested, is_older), scaled })
    }
}

/// Opens the kernel object with the programs, maps and constants that the triggers need.
fn open(
    older: Option<&Older>,
    walkers: u32,
    triggers: &[Trigger],
    has_budget: bool,
    &Sizes { cpus, is_nested, slots, scaled }: &Sizes,
) -> Result<KernelObject, StartError> {
    let own = Trigger::numbered(triggers)
        .fold(0u64, |kinds, (kind, it)| kinds | u64::from(it.is_own()) << (kind & 63));
    let mut entries = vec![
        ("SCRATCH", slots.count()),
        ("RAW_RECORDS", slots.raw),
        ("CLAIMS", slots.claims(cpus)),
        ("COUNTERS", slots.rows(cpus)),
        ("CPU_BUFFERS", slots.cpus),
        ("RING", scaled.ring),
        ("PROCESSES", scaled.processes),
        ("WANTED", sizes::with_spare(scaled.processes, cpus)),
        ("WOKEN", cpus),
        ("COSTS", if has_budget { cpus } else { 1 }),
    ];
    entries.extend(entries_of_triggers(triggers, cpus));
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
    let constants: [(&str, &[u8]); 8] = [
        (WALKERS, &walkers.to_ne_bytes()),
        ("NESTED", &u32::from(is_nested).to_ne_bytes()),
        ("CPUS", &slots.cpus.to_ne_bytes()),
        ("SHARED", &slots.shared.to_ne_bytes()),
        ("RAW_BUFFERS", &slots.raw.to_ne_bytes()),
        ("OWN_KINDS", &own.to_ne_bytes()),
        ("IS_GOVERNED", &u32::from(has_budget).to_ne_bytes()),
        ("HAS_PERIODS", &u32::from(has_periods).to_ne_bytes()),
    ];
    let constants = [&constants[..], &older.map(Older::constants).unwrap_or_default()].concat();
    KernelObject::new(older::object(older), &programs, &unused, &entries, &constants)
}

/// Returns the maps that some triggers alone need, with their number of entries: one if there is no such trigger.
fn entries_of_triggers(triggers: &[Trigger], cpus: u32) -> [(&'static str, u32); 5] {
    let if_any = |is: fn(&Trigger) -> bool, entries| if triggers.iter().any(is) { entries } else { 1 };
    [
        ("SWITCHED", if_any(Trigger::is_off_cpu, abi::off_cpu::SETS)),
        ("SPANS", if_any(Trigger::has_spans, sizes::with_spare(abi::span::MAX_SPANS, cpus))),
        ("OWN_EVENTS", if_any(Trigger::is_own, abi::own::MAX_EVENTS)),
        ("HELD", triggers.iter().map(Trigger::max_held).sum::<u32>().max(1)),
        ("OPENINGS", if_any(Trigger::is_live, sizes::with_spare(abi::held::MAX_OPENINGS, cpus))),
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
fn configure(map: Map, ring: u32, exclude: u32, walk_time: Duration) -> Result<Settings, StartError> {
    // Without type information the offsets are 0, which disables the few things that need them.
    let mut types = KernelTypes::of_this_kernel().ok();
    let mut offset = |structure, path| types.as_mut().and_then(|types| types.offset(structure, path));
    let uretprobes = uretprobe_offsets(&mut offset).unwrap_or_default();
    let mut at = |path| offset("task_struct", path).unwrap_or(0);
    let config = Config {
        version: abi::VERSION,
        wakeup_bytes: ring / 4,
        excluded_pid: exclude,
        fsbase_offset: at(THREAD_POINTER),
        pid_offset: at("pid"),
        tgid_offset: at("tgid"),
        table_generation: 0,
        full_copies: ring / RING_PER_COPY,
        walk_nanos: u32::try_from(walk_time.as_nanos()).unwrap_or(u32::MAX),
        reserved: 0,
        uretprobes,
    };
    let failed = |error| StartError::System { what: "configure the kernel side", error };
    Settings::new(map, config).map_err(failed)
}

/// Returns the offsets that lead to the return addresses that uretprobes have replaced; `None` if one is unknown, as in kernels
/// without uprobes.
fn uretprobe_offsets(
    offset: &mut impl FnMut(&'static str, &'static str) -> Option<u32>,
) -> Option<UretprobeOffsets> {
    Some(UretprobeOffsets {
        memory: offset("task_struct", "mm")?,
        area: offset("mm_struct", "uprobes_state.xol_area")?,
        trampoline: offset("xol_area", "vaddr")?,
        task: offset("task_struct", "utask")?,
        instances: offset("uprobe_task", "return_instances")?,
        stack: offset("return_instance", "stack")?,
        address: offset("return_instance", "orig_ret_vaddr")?,
        next: offset("return_instance", "next")?,
        slot: offset("uprobe_task", "xol_vaddr")?,
        instruction: offset("uprobe_task", "vaddr")?,
    })
}

/// The processes whose samples the kernel side takes before their state is published.
pub(super) struct Wanted {
    map: Map,
    pids: Pids,
}

impl Wanted {
    /// Replaces the processes.
    pub(super) fn set(&mut self, pids: &Pids) {
        /// Key of the entry that says that there are others.
        const OTHERS: u32 = 0;
        for &pid in self.pids.only().into_iter().flatten().chain([&OTHERS]) {
            // It may have been evicted.
            let _ = self.map.remove(pid);
        }
        self.pids.clone_from(pids);
        let Some(pids) = pids.only() else { return };
        for &pid in pids.iter().chain([&OTHERS]) {
            // Without it, samples of others are sent, and dropped in user space.
            let _ = self.map.set(pid, &[0; 4]);
        }
    }
}

fn check_kernel() -> Result<(), StartError> {
    if !fs::exists(VMLINUX).unwrap_or_default() {
        return Err(StartError::NoTypes);
    }
    if KernelFeature::BASIS.is_missing() {
        return Err(StartError::OldKernel { release: version::release() });
    }
    Ok(())
}

/// Checks that the object and this library are of the same ABI version.
fn check_object(object: &[u8]) -> Result<(), StartError> {
    let wrong = |what: &str| StartError::Object { what: what.to_owned() };
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
    fn the_objects_are_of_this_version() {
        check_object(ebpf_programs::OBJECT).unwrap();
        #[cfg(target_arch = "x86_64")]
        check_object(ebpf_programs::OBJECT_5_10).unwrap();
    }

    #[test]
    fn another_object_is_refused() {
        let sentence = |bytes: &[u8]| check_object(bytes).unwrap_err().to_string();
        assert!(sentence(b"no object").contains("use both in one version"));
        let mut other = ebpf_programs::OBJECT.to_vec();
        let file = ElfFile64::<LittleEndian>::parse(ebpf_programs::OBJECT).unwrap();
        let (at, _) = file.section_by_name("abi").unwrap().file_range().unwrap();
        other[at as usize] ^= 1;
        assert!(sentence(&other).contains("another version"));
    }
}
