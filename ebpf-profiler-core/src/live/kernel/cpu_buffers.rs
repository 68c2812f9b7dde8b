//! The buffers through which each CPU sends most of its records: see
//! [`abi::cpu_buffer`](ebpf_programs::abi::cpu_buffer).

#![expect(unsafe_code, reason = "memory that the kernel shares")]

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use ebpf_programs::abi::cpu_buffer::{CpuBuffer, MAX_RECORD_WORDS, WORDS};

use super::mmap::Mmap;

/// The reader's side of all per-CPU buffers.
#[derive(Debug)]
pub(in crate::live) struct CpuBuffers {
    memory: Mmap,
    /// Read position of each CPU.
    read: Vec<u64>,
}

impl CpuBuffers {
    /// Maps the buffers of `cpus` CPUs in `map`.
    ///
    /// # Errors
    ///
    /// Fails if they can't be mapped into memory.
    pub(in crate::live) fn new(map: BorrowedFd<'_>, cpus: u32) -> io::Result<CpuBuffers> {
        let bytes = (cpus as usize * size_of::<CpuBuffer>()).next_multiple_of(4096);
        let memory = Mmap::new(map, 0, bytes, true)?;
        Ok(CpuBuffers { memory, read: vec![0; cpus as usize] })
    }

    /// Passes all waiting records to `take`.
    pub(in crate::live) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        for (cpu, read) in self.read.iter_mut().enumerate() {
            let buffer = cpu * size_of::<CpuBuffer>();
            // Acquire: the records before the position are visible.
            let written = self.memory.word(buffer + offset_of!(CpuBuffer, written)).load(Ordering::Acquire);
            if *read == written {
                continue;
            }
            // An invalid length ends the loop; its record is rejected by the decoder.
            while *read < written {
                let at = buffer + offset_of!(CpuBuffer, words) + (*read as usize & (WORDS - 1)) * 8;
                let words = self.memory.word(at).load(Ordering::Relaxed).min(MAX_RECORD_WORDS as u64);
                // SAFETY: the kernel doesn't write to a finished record before the read position has passed
                // it.
                let record = unsafe { self.memory.bytes(at + 8, words as usize * 8) };
                take(record.unwrap_or_default());
                *read += 1 + words;
            }
            self.memory.word(buffer + offset_of!(CpuBuffer, read)).store(*read, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use super::super::mmap::memory_file;
    use super::*;

    /// The kernel's side, in memory that both map.
    struct Kernel {
        file: OwnedFd,
        memory: Mmap,
    }

    impl Kernel {
        fn new(cpus: usize) -> Kernel {
            let len = (cpus * size_of::<CpuBuffer>()).next_multiple_of(4096);
            let file = memory_file(len);
            let memory = Mmap::new(file.as_fd(), 0, len, true).unwrap();
            Kernel { file, memory }
        }

        fn position(&self, cpu: usize, of: usize) -> u64 {
            self.memory.word(cpu * size_of::<CpuBuffer>() + of).load(Ordering::Relaxed)
        }

        fn set(&self, cpu: usize, at: usize, value: u64) {
            self.memory.word(cpu * size_of::<CpuBuffer>() + at).store(value, Ordering::Relaxed);
        }

        fn put(&self, cpu: usize, record: &[u64]) {
            let written = self.position(cpu, offset_of!(CpuBuffer, written));
            let at = offset_of!(CpuBuffer, words) + (written as usize % WORDS) * 8;
            self.set(cpu, at, record.len() as u64);
            for (index, word) in record.iter().enumerate() {
                self.set(cpu, at + 8 + index * 8, *word);
            }
            self.set(cpu, offset_of!(CpuBuffer, written), written + 1 + record.len() as u64);
        }
    }

    fn drained(buffers: &mut CpuBuffers) -> Vec<Vec<u64>> {
        let mut records = Vec::new();
        buffers.drain(|record| {
            let words = record.as_chunks::<8>().0.iter();
            records.push(words.map(|word| u64::from_ne_bytes(*word)).collect());
        });
        records
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let kernel = Kernel::new(2);
        let mut buffers = CpuBuffers::new(kernel.file.as_fd(), 2).unwrap();
        assert!(drained(&mut buffers).is_empty());
        // Long enough to wrap around several times, with records of all lengths at the end of the buffer.
        for turn in 0..3000u64 {
            let records = [vec![turn; (turn % 1000) as usize + 1], vec![turn, 7]];
            kernel.put(0, &records[0]);
            kernel.put(1, &records[1]);
            assert_eq!(drained(&mut buffers), records);
            let [written, read] = [offset_of!(CpuBuffer, written), offset_of!(CpuBuffer, read)];
            assert_eq!(kernel.position(0, read), kernel.position(0, written));
        }
        assert!(drained(&mut buffers).is_empty());
    }

    #[test]
    fn nonsense_comes_to_an_end() {
        let kernel = Kernel::new(1);
        let mut buffers = CpuBuffers::new(kernel.file.as_fd(), 1).unwrap();
        kernel.set(0, offset_of!(CpuBuffer, words), u64::MAX);
        kernel.set(0, offset_of!(CpuBuffer, written), 3 * WORDS as u64);
        let records = drained(&mut buffers);
        assert!(records.len() <= 3 * WORDS && records.iter().all(|record| record.len() <= MAX_RECORD_WORDS));
        assert!(drained(&mut buffers).len() <= 1);
    }
}
