//! Tables in private memory.

use std::collections::HashMap;

use ebpf_programs::abi::arena::{BLOCK, BLOCK_WORDS};
use ebpf_programs::abi::mapping::Process;

use super::{Full, Tables};

/// An arena in plain memory: for replays, core dumps and tests.
#[derive(Debug, Default)]
pub struct MemoryTables {
    /// Whole blocks.
    words: Vec<u32>,
    processes: HashMap<u32, Process>,
}

impl MemoryTables {
    /// Returns the published state of a process.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }
}

impl Tables for MemoryTables {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Full> {
        let first = usize::try_from(at / 4).map_err(|_| Full)?;
        let end = first.checked_add(bytes.len().div_ceil(4)).ok_or(Full)?;
        self.words.resize(end.next_multiple_of(BLOCK_WORDS).max(self.words.len()), 0);
        let words = self.words[first..end].iter_mut();
        for (word, bytes) in words.zip(bytes.chunks(4)) {
            let mut padded = [0; 4];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_ne_bytes(padded);
        }
        Ok(())
    }

    #[inline]
    fn piece(&self, word: u32) -> Option<&[u32]> {
        self.words.get(word as usize..)
    }

    fn set_process(&mut self, pid: u32, process: &Process) -> Result<(), Full> {
        self.processes.insert(pid, *process);
        Ok(())
    }

    fn replace_process(&mut self, pid: u32, process: &Process) {
        if let Some(known) = self.processes.get_mut(&pid) {
            *known = *process;
        }
    }

    fn remove_process(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

const _: () = assert!(BLOCK == BLOCK_WORDS * 4);
