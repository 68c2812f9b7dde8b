//! The process that a runtime attaches to.

use std::sync::Arc;

use super::{Memory, Unreadable};
use crate::elf::{Elf, ElfError};
use crate::process::{LoadBias, Opener};

/// The process that [`Runtime::attach`](super::Runtime::attach) attaches to: its memory, the load
/// bias of the runtime's file, and the files that it has mapped as code.
pub struct Target<'a> {
    memory: &'a dyn Memory,
    bias: LoadBias,
    files: Vec<LoadedFile>,
}

/// A file that is mapped as code in a process.
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadedFile {
    /// Path in the mount namespace of the process.
    pub path: Box<str>,
    /// Load bias of the file.
    pub bias: LoadBias,
    /// Opens the file.
    pub opener: Arc<dyn Opener>,
}

impl<'a> Target<'a> {
    /// Combines the memory of a process, the load bias of the runtime's file, and all files that
    /// are mapped as code.
    pub fn new(memory: &'a dyn Memory, bias: LoadBias, files: Vec<LoadedFile>) -> Target<'a> {
        Target { memory, bias, files }
    }

    /// Returns the load bias of the runtime's file.
    pub fn bias(&self) -> LoadBias {
        self.bias
    }

    /// Returns the memory of the process.
    pub fn memory(&self) -> &'a dyn Memory {
        self.memory
    }

    /// Returns the address in the process of a virtual address of the runtime's file.
    pub fn address(&self, of_file: u64) -> u64 {
        self.bias.in_process(of_file)
    }

    /// Reads eight bytes of the process at a virtual address of the runtime's file.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if they aren't mapped.
    pub fn word(&self, of_file: u64) -> Result<u64, Unreadable> {
        self.memory.u64(self.address(of_file))
    }

    /// Returns all files that are mapped as code, including the runtime's own, each once.
    pub fn files(&self) -> &[LoadedFile] {
        &self.files
    }
}

impl LoadedFile {
    /// Creates a mapped file.
    pub fn new(path: impl Into<Box<str>>, bias: LoadBias, opener: Arc<dyn Opener>) -> LoadedFile {
        LoadedFile { path: path.into(), bias, opener }
    }

    /// Opens the file as ELF.
    ///
    /// # Errors
    ///
    /// [`ElfError`] if the file is gone or isn't ELF.
    pub fn open(&self) -> Result<Elf, ElfError> {
        let source = self.opener.open().map_err(|error| ElfError::Read(error.kind()))?;
        Elf::open(source)
    }

    /// Returns the last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
