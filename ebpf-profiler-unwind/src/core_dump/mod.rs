//! Core dumps: the threads, the memory and the files of a process that was.
//!
//! ```text
//!   PT_NOTE  NT_PRSTATUS ──► threads: registers              ┐
//!            NT_FILE     ──► mapped files ──► Load: tables ──┤──► Walk
//!            NT_AUXV     ──► vDSO                            │
//!   PT_LOAD  ──────────────► memory ─────────────────────────┘
//! ```
//!
//! Dumps of the kernel and of gdb's `gcore`, of x86_64 and arm64. They are read piece by piece: a dump of many
//! gigabytes takes memory for its headers only.
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
//! # What may be missing
//!
//! A dump that was cut off, or lies, gives what it holds; [`Gaps`] counts what is not there, and each [`File`] says
//! what became of it. What a dump doesn't hold of read-only memory is taken from the file that was mapped, once that
//! has proved to be the same one; where there is no such file, unwind data is read from the dump's own copy.

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

/// A core dump, its headers read.
#[derive(Debug)]
pub struct CoreDump {
    contents: Arc<Contents>,
    process: Process,
    threads: Vec<Thread>,
    files: Vec<MappedFile>,
    vdso: Option<u64>,
    gaps: Gaps,
}

/// What a dump should hold and doesn't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gaps {
    /// Bytes of memory that the headers promise behind the end of the file.
    pub memory: u64,
    /// Notes that can't be read, or are too short for what they are.
    pub notes: u32,
    /// Whether there are more notes, threads or files than any process has, so that some were left out.
    pub too_many: bool,
}

impl CoreDump {
    /// Reads the headers and notes.
    ///
    /// # Errors
    ///
    /// When it is no core dump of a known instruction set, or no thread is in it.
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

    /// The instruction set.
    pub fn arch(&self) -> elf::Arch {
        self.contents.elf().arch()
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The threads in the order of the dump: the first is the one that it was made for.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The files that were mapped, in the order of their first address.
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// What is missing.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// The memory in the dump, and no other.
    pub fn memory(&self) -> Memory {
        Memory::new(self.contents.clone(), Arc::default())
    }
}

/// Why a file can't be used as a core dump.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoreError {
    /// It is no ELF file, or a broken one.
    Elf(ElfError),
    /// It is an ELF file, but no core dump.
    NotCore,
    /// There is no thread in it, or none whose registers can be read.
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
