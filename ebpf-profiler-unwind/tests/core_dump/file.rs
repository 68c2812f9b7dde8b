//! Core files, made up.

use std::io::Cursor;

use ebpf_profiler_unwind::core_dump::{CoreDump, CoreError};

pub(crate) const X86_64: u16 = 62;
pub(crate) const AARCH64: u16 = 183;

/// The contents of a core file.
#[derive(Clone, Default)]
pub(crate) struct CoreFile {
    pub(crate) machine: u16,
    pub(crate) notes: Vec<u8>,
    /// Address, flags, bytes, and how many there were in memory.
    pub(crate) segments: Vec<(u64, u32, Vec<u8>, u64)>,
}

impl CoreFile {
    pub(crate) fn new(machine: u16) -> CoreFile {
        CoreFile { machine, ..CoreFile::default() }
    }

    /// A note of owner `CORE`.
    pub(crate) fn note(mut self, kind: u32, description: &[u8]) -> CoreFile {
        for word in [5, description.len() as u32, kind] {
            self.notes.extend(word.to_le_bytes());
        }
        self.notes.extend(b"CORE\0\0\0\0");
        self.notes.extend(description);
        self.notes.resize(self.notes.len().next_multiple_of(4), 0);
        self
    }

    /// The note of a thread whose registers are these words.
    pub(crate) fn thread(self, id: u32, words: &[u64]) -> CoreFile {
        let mut description = vec![0; 112];
        description[12] = 11;
        description[32..36].copy_from_slice(&id.to_le_bytes());
        description.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        description.extend([0; 8]);
        self.note(1, &description)
    }

    /// The note of mapped files: start, end, offset in pages, path.
    pub(crate) fn files(self, files: &[(u64, u64, u64, &str)]) -> CoreFile {
        let words = files.iter().flat_map(|&(start, end, pages, _)| [start, end, pages]);
        let words = [files.len() as u64, 4096].into_iter().chain(words);
        let mut description: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        files.iter().for_each(|file| description.extend([file.3.as_bytes(), b"\0"].concat()));
        self.note(0x4649_4c45, &description)
    }

    pub(crate) fn segment(mut self, address: u64, flags: u32, bytes: &[u8], in_memory: u64) -> CoreFile {
        self.segments.push((address, flags, bytes.to_vec(), in_memory));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let count = self.segments.len() as u16 + 1;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([4u16, self.machine].map(u16::to_le_bytes).as_flattened());
        file.extend(1u32.to_le_bytes());
        file.extend([0u64, 64, 0].map(u64::to_le_bytes).as_flattened());
        file.extend(0u32.to_le_bytes());
        file.extend([64, 56, count, 64, 0, 0].map(u16::to_le_bytes).as_flattened());
        let mut offset = 64 + 56 * u64::from(count);
        let mut header = |kind: u32, flags: u32, address: u64, bytes: &[u8], in_memory: u64| {
            let size = bytes.len() as u64;
            file.extend([kind, flags].map(u32::to_le_bytes).as_flattened());
            file.extend([offset, address, 0, size, in_memory, 1].map(u64::to_le_bytes).as_flattened());
            offset += size;
        };
        header(4, 4, 0, &self.notes, 0);
        for (address, flags, bytes, in_memory) in &self.segments {
            header(1, *flags, *address, bytes, *in_memory);
        }
        file.extend(&self.notes);
        self.segments.iter().for_each(|segment| file.extend(&segment.2));
        file
    }

    pub(crate) fn open(&self) -> Result<CoreDump, CoreError> {
        CoreDump::open(Cursor::new(self.bytes()))
    }
}

/// The registers of a thread of x86_64, all others being zero.
pub(crate) fn x86_64(rip: u64, rsp: u64, rbp: u64) -> [u64; 27] {
    let mut words = [0; 27];
    (words[16], words[19], words[4]) = (rip, rsp, rbp);
    words
}
