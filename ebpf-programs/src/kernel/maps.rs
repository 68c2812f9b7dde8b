//! The maps, by the names that the loader uses.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, ArrayOfMaps, HashMap, RingBuf};
use aya_ebpf::macros::btf_map;
use ebpf_programs::abi::arena::{Block, CHUNK_BLOCKS, CHUNKS};
use ebpf_programs::abi::config::Config;
use ebpf_programs::abi::cpu_buffer::CpuBuffer;
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::reason::Counter;

use crate::scratch::Scratch;

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Inner map of the arena, the unit in which it grows.
pub(crate) type Chunk = Array<Block, { CHUNK_BLOCKS as usize }, MMAPABLE>;

/// Settings, one value.
#[btf_map]
pub(crate) static CONFIG: Array<Config, 1> = Array::new();

/// Published state of processes, by process id.
#[btf_map]
pub(crate) static PROCESSES: HashMap<u32, Process, 16384> = HashMap::new();

/// Unwind tables, mappings and interpreter descriptions.
#[btf_map]
pub(crate) static ARENA: ArrayOfMaps<Chunk, { CHUNKS as usize }> = ArrayOfMaps::new();

/// Working memory, one value per possible CPU; the loader sets the number.
#[btf_map]
pub(crate) static SCRATCH: Array<Scratch, 1> = Array::new();

/// Counters, one value per possible CPU; the loader sets the number.
#[btf_map]
pub(crate) static COUNTERS: Array<[u64; Counter::WORDS], 1, MMAPABLE> = Array::new();

/// Per-CPU buffers, one value per CPU that is online at the start; the loader sets the number.
#[btf_map]
pub(crate) static CPU_BUFFERS: Array<CpuBuffer, 1, MMAPABLE> = Array::new();

/// Ring for urgent and long records; the loader sets its size.
#[btf_map]
pub(crate) static RING: RingBuf<u8, 4096> = RingBuf::new();
