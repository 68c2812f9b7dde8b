//! The maps, by the names that the loader knows them by.

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

/// The step in which the arena grows.
pub(crate) type Chunk = Array<Block, { CHUNK_BLOCKS as usize }, MMAPABLE>;

/// Settings.
#[btf_map]
pub(crate) static CONFIG: Array<Config, 1> = Array::new();

/// Process id to what is known of it.
#[btf_map]
pub(crate) static PROCESSES: HashMap<u32, Process, 16384> = HashMap::new();

/// Tables and mappings.
#[btf_map]
pub(crate) static ARENA: ArrayOfMaps<Chunk, { CHUNKS as usize }> = ArrayOfMaps::new();

/// One value for each CPU; the loader sets how many there are.
#[btf_map]
pub(crate) static SCRATCH: Array<Scratch, 1> = Array::new();

/// One value for each CPU; the loader sets how many there are.
#[btf_map]
pub(crate) static COUNTERS: Array<[u64; Counter::WORDS], 1, MMAPABLE> = Array::new();

/// The short way up. One value for each CPU that is there at the start; the loader sets how many those are.
#[btf_map]
pub(crate) static CPU_BUFFERS: Array<CpuBuffer, 1, MMAPABLE> = Array::new();

/// The long way up; the loader sets its size.
#[btf_map]
pub(crate) static RING: RingBuf<u8, 4096> = RingBuf::new();
