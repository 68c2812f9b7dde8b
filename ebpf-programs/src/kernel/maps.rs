//! The maps, by the names that the loader uses.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::bindings::bpf_map_type::{BPF_MAP_TYPE_CGROUP_ARRAY, BPF_MAP_TYPE_USER_RINGBUF};
use aya_ebpf::btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap, ProgramArray, RingBuf};
use aya_ebpf::macros::btf_map;
use ebpf_programs::abi::arena::{Block, CHUNK_BLOCKS, CHUNKS};
use ebpf_programs::abi::budget::{Cost, MAX_KINDS};
use ebpf_programs::abi::config::{
    Config, RAW_SENT as RAW_SENT_SETS, RawSentSet, SLOW_WALKS as SLOW_WALKS_ENTRIES, SlowWalks, Wake,
};
use ebpf_programs::abi::cpu_buffer::CpuBuffer;
use ebpf_programs::abi::filter::{Filter, MAX_CGROUPS};
use ebpf_programs::abi::held;
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::off_cpu::{OffCpu, SwitchedSet, Woken};
use ebpf_programs::abi::own::{Event, walk};
use ebpf_programs::abi::reason::Counter;
use ebpf_programs::abi::span;

use crate::raw::RawRecord;
use crate::scratch::Scratch;
use crate::slot::Claims;

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Inner map of the arena, the unit in which it grows.
pub(crate) type Chunk = Array<Block, { CHUNK_BLOCKS as usize }, MMAPABLE>;

/// Settings, one value.
#[btf_map]
pub(crate) static CONFIG: Array<Config, 1> = Array::new();

/// Published state of processes, by process id.
#[btf_map]
pub(crate) static PROCESSES: HashMap<u32, Process, 16384> = HashMap::new();

/// Processes whose samples are wanted, and their descendants; the key 0 is there if others are not. A process without published
/// state is looked up here.
#[btf_map]
pub(crate) static WANTED: LruHashMap<u32, u32, 16384> = LruHashMap::new();

/// Unwind tables, mappings and interpreter descriptions.
#[btf_map]
pub(crate) static ARENA: ArrayOfMaps<Chunk, { CHUNKS as usize }> = ArrayOfMaps::new();

/// Working memory, one value per [slot](crate::slot); the loader sets the number.
#[btf_map]
pub(crate) static SCRATCH: Array<Scratch, 1> = Array::new();

/// Buffers for raw records; the loader sets the number.
#[btf_map]
pub(crate) static RAW_RECORDS: Array<RawRecord, 1> = Array::new();

/// Claimed slots, per-CPU buffers and raw records, by slot, possible CPU and index; the loader sets the number.
#[btf_map]
pub(crate) static CLAIMS: Array<Claims, 1> = Array::new();

/// Counters, one value per [row](crate::slot); the loader sets the number.
#[btf_map]
pub(crate) static COUNTERS: Array<[u64; Counter::WORDS], 1, MMAPABLE> = Array::new();

/// Per-CPU buffers, one value per CPU that is online at the start; the loader sets the number.
#[btf_map]
pub(crate) static CPU_BUFFERS: Array<CpuBuffer, 1, MMAPABLE> = Array::new();

/// Raw samples of processes, in sets by process id modulo their number.
#[btf_map]
pub(crate) static RAW_SENT: Array<RawSentSet, { RAW_SENT_SETS as usize }> = Array::new();

/// Slow walks of processes, by process id modulo their number.
#[btf_map]
pub(crate) static SLOW_WALKS: Array<SlowWalks, { SLOW_WALKS_ENTRIES as usize }> = Array::new();

/// State of wake-ups, one value.
#[btf_map]
pub(crate) static WAKE: Array<Wake, 1, MMAPABLE> = Array::new();

/// Ring for raw and long records, and for those that find the per-CPU buffer full; the loader sets its size.
#[btf_map]
pub(crate) static RING: RingBuf<u8, 4096> = RingBuf::new();

/// Settings of off-CPU time, one value.
#[btf_map]
pub(crate) static OFF_CPU: Array<OffCpu, 1> = Array::new();

/// Threads that were switched off their CPU, in sets; the loader sets the number. Memory that can be mapped begins with a page, so
/// that a set is in one cache line.
#[btf_map]
pub(crate) static SWITCHED: Array<SwitchedSet, 1, MMAPABLE> = Array::new();

/// Threads whose sample is due, one value per possible CPU; the loader sets the number.
#[btf_map]
pub(crate) static WOKEN: Array<Woken, 1> = Array::new();

/// A ring of user space. It stays empty.
#[repr(C)]
pub(crate) struct UserRing {
    r#type: *const [i32; BPF_MAP_TYPE_USER_RINGBUF as usize],
    key: *const (),
    value: *const (),
    max_entries: *const [i32; 4096],
    map_flags: *const [i32; 0],
    value_size: *const [i32; 0],
}

/// Rings by which programs request an interrupt of their CPU, one per possible CPU; the loader sets the number.
#[btf_map]
pub(crate) static KICKS: ArrayOfMaps<UserRing, 1> = ArrayOfMaps::new();

/// Filter of samples, one value.
#[btf_map]
pub(crate) static FILTER: Array<Filter, 1> = Array::new();

/// An array of control groups.
#[repr(C)]
pub(crate) struct CgroupArray {
    r#type: *const [i32; BPF_MAP_TYPE_CGROUP_ARRAY as usize],
    key: *const u32,
    value: *const u32,
    max_entries: *const [i32; MAX_CGROUPS as usize],
    map_flags: *const [i32; 0],
}

// SAFETY: a description, which no program reads or writes.
unsafe impl Sync for CgroupArray {}

/// Control groups of the filter.
#[btf_map]
pub(crate) static CGROUPS: CgroupArray = CgroupArray {
    r#type: core::ptr::null(),
    key: core::ptr::null(),
    value: core::ptr::null(),
    max_entries: core::ptr::null(),
    map_flags: core::ptr::null(),
};

/// Beginnings of spans; the loader sets the number.
#[btf_map]
pub(crate) static SPANS: LruHashMap<span::Key, u64, 1> = LruHashMap::new();

/// Samples that have not ended; the loader sets the number.
#[btf_map]
pub(crate) static HELD: HashMap<held::Key, held::Held, 1> = HashMap::new();

/// Allocations between call and return; the loader sets the number.
#[btf_map]
pub(crate) static OPENINGS: LruHashMap<span::Key, held::Opening, 1> = LruHashMap::new();

/// Settings of the latency of disks, one value.
#[btf_map]
pub(crate) static BLOCK: Array<held::Block, 1> = Array::new();

/// Periods by the number of a kind of samples. See [`budget`](ebpf_programs::abi::budget).
#[btf_map]
pub(crate) static PERIODS: Array<u64, { MAX_KINDS }> = Array::new();

/// Costs of all kinds of samples, one value per possible CPU; the loader sets the number.
#[btf_map]
pub(crate) static COSTS: Array<[Cost; MAX_KINDS], 1, MMAPABLE> = Array::new();

/// Programs that others call.
pub(crate) type Walks = ProgramArray<{ walk::COUNT }>;

/// Programs that walk at events of clocks and counters, by their [index](ebpf_programs::abi::own::walk). Programs at events call
/// them as their last act, so that a walk can be replaced while they are attached.
#[btf_map]
pub(crate) static EVENT_WALKS: Walks = ProgramArray::new();

/// As [`EVENT_WALKS`], at probes.
#[btf_map]
pub(crate) static PROBE_WALKS: Walks = ProgramArray::new();

/// As [`EVENT_WALKS`], at tracepoints.
#[btf_map]
pub(crate) static TRACE_WALKS: Walks = ProgramArray::new();

/// As [`EVENT_WALKS`], at raw tracepoints.
#[btf_map]
pub(crate) static RAW_WALKS: Walks = ProgramArray::new();

/// Events of the embedder's programs, by the address of their context; the loader sets the number.
#[btf_map]
pub(crate) static OWN_EVENTS: HashMap<u64, Event, 1> = HashMap::new();
