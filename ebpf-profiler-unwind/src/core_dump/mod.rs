//! Core dumps: threads, memory and files of a process.
//!
//! ```text
//!   PT_NOTE  NT_PRSTATUS ──► threads: registers              ┐
//!            NT_FILE     ──► mapped files ──► Load: tables ──┤──► Walk
//!            NT_AUXV     ──► vDSO                            │
//!   PT_LOAD  ──────────────► memory ─────────────────────────┘
//! ```
//!
//! Supports dumps of the kernel and of gdb's `gcore`, of x86_64 and arm64. They are read in pieces:
//! a dump of many gigabytes takes memory for its headers only.
//!
//! # Examples
//!
//! ```no_run
//! use std::fs::File;
//! use ebpf_profiler_unwind::core_dump::{CoreDump, Search};
//! use ebpf_profiler_unwind::Walk;
//!
//! let dump = CoreDump::open(File::open("core")?)?;
//! let loaded = dump.load(&Search::default(), |path| Ok(Box::new(File::open(path)?)));
//! for thread in dump.threads() {
//!     println!("thread {}", thread.id);
//!     for frame in Walk::new(loaded.modules(), &thread.registers, loaded.memory()) {
//!         println!("{frame}");
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Incomplete dumps
//!
//! A truncated or damaged dump yields the data that it contains: [`Gaps`] counts the missing parts,
//! and each [`File`] lists its problems. Read-only memory that a dump lacks is taken from the
//! mapped file, once that is verified. Without such a file, unwind data is read from the dump's own
//! copy.

use std::fmt;
use std::sync::Arc;

use ebpf_profiler_core::elf::{self, Elf, ElfError, ReadAt};

mod arch;

mod note;

mod process;

mod thread;

mod mapped;

mod memory;

mod image;

mod search;

mod file;

mod load;

pub use file::{File, Origin, Problem};
pub use image::Image;
pub use load::Loaded;
pub use mapped::{MappedFile, Piece};
pub use memory::Memory;
pub use process::Process;
pub use search::Search;
pub use thread::Thread;

use memory::Contents;
use note::Notes;

/// A core dump with parsed headers and notes.
#[derive(Debug)]
pub struct CoreDump {
    contents: Arc<Contents>,
    process: Process,
    threads: Vec<Thread>,
    files: Vec<MappedFile>,
    vdso: Option<u64>,
    gaps: Gaps,
}

/// Parts that a dump should contain and lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gaps {
    /// Bytes of memory in the headers that lie behind the end of the file.
    pub memory: u64,
    /// Notes that cannot be parsed.
    pub notes: u32,
    /// `true` if notes, threads or files exceeded a limit and were skipped.
    pub too_many: bool,
}

impl CoreDump {
    /// Opens a core dump: parses its headers and notes.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a core dump of a supported instruction set, or contains no thread.
    pub fn open(source: impl ReadAt + 'static) -> Result<CoreDump, CoreError> {
        let elf = Elf::open(source).map_err(CoreError::Elf)?;
        if elf.kind() != elf::Kind::Core {
            return Err(CoreError::NotCore);
        }
        let layout = arch::Layout::of(elf.arch()).ok_or(CoreError::NotCore)?;
        let mut notes = Notes::default();
        notes.read(&elf, layout);
        let contents = Contents::new(elf);
        if notes.threads.is_empty() {
            return Err(CoreError::NoThreads);
        }
        notes.gaps.memory = contents.missing();
        Ok(CoreDump {
            contents: Arc::new(contents),
            process: notes.process,
            threads: notes.threads,
            files: notes.files,
            vdso: notes.vdso,
            gaps: notes.gaps,
        })
    }

    /// Returns the instruction set.
    pub fn arch(&self) -> elf::Arch {
        self.contents.elf().arch()
    }

    /// Returns the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the threads in the order of the dump: the first one caused it.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns the mapped files, by their first address.
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// Returns the missing parts.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Returns the memory in the dump alone.
    pub fn memory(&self) -> Memory {
        Memory::new(self.contents.clone(), Arc::default())
    }
}

/// The reason for rejecting a file as core dump.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoreError {
    /// Not an ELF file, or a malformed one.
    Elf(ElfError),
    /// An ELF file of another kind.
    NotCore,
    /// No thread with registers.
    NoThreads,
}

impl fmt::Display for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreError::Elf(error) => write!(f, "not a core dump: {error}"),
            CoreError::NotCore => f.write_str("an ELF file, but not a core dump"),
            CoreError::NoThreads => f.write_str("a core dump without the registers of any thread"),
        }
    }
}

impl std::error::Error for CoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CoreError::Elf(error) => Some(error),
            _ => None,
        }
    }
}
