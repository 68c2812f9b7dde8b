//! The arena that the running kernel side reads.

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use aya::maps::{ArrayOfMaps, HashMap, MapData};
use ebpf_programs::abi::arena::{BLOCK, Block, CHUNK_BLOCKS, CHUNKS};
use ebpf_programs::abi::mapping::Process;

use super::mmap::Mmap;
use crate::tables::{Full, Tables};

/// Bytes in one inner map.
const CHUNK: usize = CHUNK_BLOCKS as usize * BLOCK;

/// A process as the words that the map holds.
pub(super) type ProcessWords = [u32; 5];

/// Tables in memory that is shared with the kernel.
pub(super) struct KernelTables {
    outer: ArrayOfMaps<MapData>,
    processes: HashMap<MapData, u32, ProcessWords>,
    chunks: Vec<Option<Mmap>>,
}

impl KernelTables {
    pub(super) fn new(
        outer: ArrayOfMaps<MapData>,
        processes: HashMap<MapData, u32, ProcessWords>,
    ) -> KernelTables {
        KernelTables { outer, processes, chunks: Vec::new() }
    }

    fn chunk(&mut self, index: usize) -> Result<&mut Mmap, Full> {
        if index >= CHUNKS as usize {
            return Err(Full);
        }
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        if self.chunks[index].is_none() {
            self.chunks[index] = Some(self.grow(index as u32)?);
        }
        self.chunks[index].as_mut().ok_or(Full)
    }

    /// Makes chunk `index` and puts it into the outer map, which keeps it alive.
    fn grow(&mut self, index: u32) -> Result<Mmap, Full> {
        let map = create_chunk().ok_or(Full)?;
        let memory = Mmap::new(map.as_fd(), CHUNK, true).map_err(|_| Full)?;
        let map = MapData::from_fd(map).map_err(|_| Full)?;
        self.outer.set(index, &map, 0).map_err(|_| Full)?;
        Ok(memory)
    }
}

impl Tables for KernelTables {
    fn write(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<(), Full> {
        while !bytes.is_empty() {
            let index = usize::try_from(at / CHUNK as u64).map_err(|_| Full)?;
            let offset = (at % CHUNK as u64) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK - offset));
            self.chunk(index)?.write(offset, now);
            at += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn block(&self, index: u32) -> Option<&Block> {
        let chunk = self.chunks.get((index / CHUNK_BLOCKS) as usize)?.as_ref()?;
        // SAFETY: any bits are words, and only `write`, which takes `&mut self`, writes here.
        unsafe { chunk.at::<Block>((index % CHUNK_BLOCKS) as usize * BLOCK) }
    }

    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        let Process { mappings, count, patience, wanted, interpreters } = *process;
        let words = [mappings, count, patience, wanted, interpreters];
        self.processes.insert(pid, words, 0).map_err(|_| Full)
    }

    fn remove_process(&mut self, pid: u32) {
        // The kernel side may have forgotten it already.
        let _ = self.processes.remove(&pid);
    }
}

/// A map like the template of the outer map: an array of blocks that can be mapped into memory.
fn create_chunk() -> Option<OwnedFd> {
    const MAP_CREATE: libc::c_long = 0;
    const ARRAY: u32 = 2;
    const MMAPABLE: u32 = 1 << 10;
    let attributes: [u32; 5] = [ARRAY, 4, BLOCK as u32, CHUNK_BLOCKS, MMAPABLE];
    // SAFETY: the attributes are as long as is said, and the call keeps no reference to them.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes)) };
    // SAFETY: the call gave this descriptor to us alone.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
