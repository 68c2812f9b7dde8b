//! Files and memory of another process.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_core::language::{LoadedFile, Unreadable};
use ebpf_profiler_core::process::LoadBias;

/// The memory and the executable files of a process.
pub(crate) struct Process {
    memory: File,
    pub(crate) files: Vec<LoadedFile>,
}

impl Process {
    pub(crate) fn open(pid: u32) -> Process {
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let mut files = BTreeMap::new();
        for line in maps.lines() {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [range, access, offset, _, _, path] = cells[..] else { continue };
            if !access.contains('x') || !path.starts_with('/') || files.contains_key(path) {
                continue;
            }
            let start = u64::from_str_radix(range.split('-').next().unwrap(), 16).unwrap();
            let offset = u64::from_str_radix(offset, 16).unwrap();
            let opened = PathBuf::from(path);
            let Some(address) = code_address(&opened, offset) else { continue };
            let opener = move || Ok(Box::new(File::open(&opened)?) as Box<dyn ReadAt>);
            let bias = LoadBias::between(start, address);
            files.insert(path.to_string(), LoadedFile::new(path, bias, Arc::new(opener)));
        }
        Process { memory, files: files.into_values().collect() }
    }

    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.memory.read_exact_at(buffer, address).map_err(|_| Unreadable)
    }
}

fn code_address(path: &Path, offset: u64) -> Option<u64> {
    Elf::open(File::open(path).ok()?).ok()?.code_address(offset)
}
