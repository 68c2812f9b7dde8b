//! The arena of tables that the kernel side reads.

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use ebpf_programs::abi::arena::{BLOCK, CHUNK_BLOCKS, CHUNKS};
use ebpf_programs::abi::mapping::Process;

use super::bpf::{Map, Shape};
use super::mmap::Mmap;
use super::settings::Settings;
use super::waker::Waker;
use crate::tables::{Full, Tables};

/// Size of an inner map in bytes.
const CHUNK: usize = CHUNK_BLOCKS as usize * BLOCK;

/// Size of an inner map in words of four bytes.
const CHUNK_WORDS: usize = CHUNK / 4;

/// Tables in memory shared with the kernel.
pub(in crate::live) struct KernelTables {
    outer: Map,
    processes: Map,
    settings: Settings,
    walkers: Arc<NeededWalkers>,
    chunks: Vec<Option<Mmap>>,
}

impl KernelTables {
    /// Creates tables in `outer`, the map of the arena's chunks, and `processes`.
    pub(in crate::live) fn new(outer: Map, processes: Map, settings: Settings) -> KernelTables {
        let walkers = Arc::default();
        KernelTables { outer, processes, settings, walkers, chunks: Vec::new() }
    }

    /// Returns the walkers that were requested, as they change.
    pub(in crate::live) fn walkers(&self) -> Arc<NeededWalkers> {
        self.walkers.clone()
    }

    fn chunk(&mut self, index: usize) -> Result<&mut Mmap, Full> {
        if index >= CHUNKS as usize {
            return Err(Full);
        }
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        if self.chunks[index].is_none() {
            self.chunks[index] = Some(self.grow(index as u32).map_err(|_| Full)?);
        }
        self.chunks[index].as_mut().ok_or(Full)
    }

    /// Creates chunk `index` in the outer map, which keeps it alive.
    fn grow(&mut self, index: u32) -> io::Result<Mmap> {
        let map = create_chunk()?;
        let memory = Mmap::new(map.as_fd(), 0, CHUNK, true)?;
        self.outer.set_map(index, &map)?;
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

    fn renew(&mut self) -> Result<(), Full> {
        self.settings.renew().map_err(|_| Full)
    }

    fn piece(&self, word: u32) -> Option<&[u32]> {
        let chunk = self.chunks.get(word as usize / CHUNK_WORDS)?.as_ref()?;
        // SAFETY: every bit pattern is a valid word, and only `write`, which takes `&mut self`, writes
        // here.
        let words = unsafe { chunk.at::<[u32; CHUNK_WORDS]>(0) }?;
        words.get(word as usize % CHUNK_WORDS..)
    }

    fn unused(&mut self, bytes: Range<u64>) {
        let first = bytes.start.div_ceil(CHUNK as u64) as usize;
        let behind = (bytes.end / CHUNK as u64) as usize;
        let chunks = self.chunks.iter_mut().enumerate().take(behind).skip(first);
        for (index, chunk) in chunks.filter(|(_, chunk)| chunk.is_some()) {
            // The kernel keeps the chunk for walks in progress. If it can't be removed it stays in use.
            if self.outer.remove(index as u32).is_ok() {
                *chunk = None;
            }
        }
    }

    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        self.processes.set(pid, &words(process)).map_err(|_| Full)
    }

    fn replace_process(&mut self, pid: u32, process: &Process) {
        // The process may have ended, or never have been published.
        let _ = self.processes.replace(pid, &words(process));
    }

    fn remove_process(&mut self, pid: u32) {
        // The kernel side may have removed it already.
        let _ = self.processes.remove(pid);
    }

    fn need_walkers(&mut self, walkers: u32) {
        self.walkers.add(walkers);
    }
}

/// The walkers that were requested.
#[derive(Debug, Default)]
pub(in crate::live) struct NeededWalkers {
    /// A bit for each number.
    bits: AtomicU32,
    /// Wakes the thread that loads them.
    waker: OnceLock<Waker>,
}

impl NeededWalkers {
    fn add(&self, walkers: u32) {
        let before = self.bits.fetch_or(walkers, Ordering::Relaxed);
        if let Some(waker) = self.waker.get().filter(|_| before | walkers != before) {
            waker.wake();
        }
    }

    /// Returns a bit for each number.
    pub(in crate::live) fn bits(&self) -> u32 {
        self.bits.load(Ordering::Relaxed)
    }

    /// Sets what is woken by new walkers; the first one stays.
    pub(in crate::live) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }
}

/// Encodes a process as a value of the map.
fn words(process: &Process) -> Vec<u8> {
    let Process { mappings, count, raw_budget, filter, interpreters, names, epoch, labels } = *process;
    [mappings, count, raw_budget, filter, interpreters, names, epoch, labels]
        .into_iter()
        .flat_map(u32::to_ne_bytes)
        .collect()
}

/// Creates an inner map: an array of blocks that can be mapped into memory.
fn create_chunk() -> io::Result<Map> {
    const ARRAY: u32 = 2;
    const MMAPABLE: u32 = 1 << 10;
    let shape =
        Shape { kind: ARRAY, key_size: 4, value_size: BLOCK as u32, entries: CHUNK_BLOCKS, flags: MMAPABLE };
    Map::create("chunk", shape, None)
}
