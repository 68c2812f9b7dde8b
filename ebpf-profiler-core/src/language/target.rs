//! The process that a runtime is looked for in.

use std::sync::Arc;

use super::{Memory, Unreadable};
use crate::elf::{Elf, ElfError};
use crate::process::Opener;

/// A process with a runtime in it.
pub struct Target<'a> {
    memory: &'a dyn Memory,
    bias: u64,
    files: Vec<LoadedFile>,
}

/// A file that is mapped as code in a process.
#[derive(Clone)]
pub struct LoadedFile {
    /// Its path, as the process sees it.
    pub path: Box<str>,
    /// Added (wrapping) to a virtual address of the file it gives the address in the process.
    pub bias: u64,
    /// Opens it.
    pub opener: Arc<dyn Opener>,
}

impl<'a> Target<'a> {
    /// A process with this memory, in which the runtime's own file lies at `bias`.
    pub fn new(memory: &'a dyn Memory, bias: u64, files: Vec<LoadedFile>) -> Target<'a> {
        Target { memory, bias, files }
    }

    /// Its memory.
    pub fn memory(&self) -> &'a dyn Memory {
        self.memory
    }

    /// The address in the process of a virtual address of the runtime's file.
    pub fn address(&self, of_file: u64) -> u64 {
        of_file.wrapping_add(self.bias)
    }

    /// Eight bytes at a virtual address of the runtime's file, as they are in the process.
    ///
    /// # Errors
    ///
    /// When they aren't there.
    pub fn word(&self, of_file: u64) -> Result<u64, Unreadable> {
        self.memory.u64(self.address(of_file))
    }

    /// All files that are mapped as code, the runtime's own among them, each once.
    pub fn files(&self) -> &[LoadedFile] {
        &self.files
    }
}

impl LoadedFile {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// When it is gone or no ELF file.
    pub fn open(&self) -> Result<Elf, ElfError> {
        let source = self.opener.open().map_err(|error| ElfError::Read(error.kind()))?;
        Elf::open(source)
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
