//! ELF files, read piece by piece.
//!
//! ```text
//!   file, memory ──ReadAt──► Elf: header, segments, sections ──► contents, addresses, notes
//! ```
//!
//! A file of another process can be of any size and can change while it is looked at, so it is read, never
//! mapped into memory: only the headers stay, sections are read when they are asked for, and every size that
//! the file claims is held against its real length first. What is more than any real file has (131,072
//! sections, 262,144 segments, 1 GiB at once) is refused.
//!
//! Supported are 64-bit little-endian files of x86_64 and arm64: programs, libraries, debug files, core
//! dumps.
//!
//! # Examples
//!
//! Where the code of an address is in a file, and which file it is:
//!
//! ```
//! use ebpf_profiler_core::elf::Elf;
//!
//! let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
//! let offset = elf.file_offset(elf.entry(), 1).ok_or("not loaded")?;
//! assert_eq!(elf.code_address(offset), Some(elf.entry()));
//!
//! let id = elf.build_id().unwrap_or_default();
//! println!("{} bytes, build id {id:02x?}", elf.size());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Bytes that are no file, as the vDSO in the memory of a process:
//!
//! ```
//! use std::io::Cursor;
//! use ebpf_profiler_core::elf::{Elf, ElfError};
//!
//! let error = Elf::open(Cursor::new(b"#!/bin/sh".to_vec())).unwrap_err();
//! assert_eq!(error, ElfError::NotElf);
//! ```

use std::borrow::Cow;
use std::fmt;
use std::io;

mod exports;

mod names;

mod parse;

pub use exports::Exports;
pub use names::{Symbol, SymbolKind};

/// Bytes that can be read at any offset: a file, a part of memory.
pub trait ReadAt: Send + Sync {
    /// How many bytes there are.
    ///
    /// # Errors
    ///
    /// Whatever the medium says.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` where the bytes end before, or whatever the medium says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for std::fs::File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Box<T> {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buffer)
    }
}

impl<T: AsRef<[u8]> + Send + Sync> ReadAt for io::Cursor<T> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.get_ref().as_ref().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.get_ref().as_ref().get(at..));
        match bytes.and_then(|bytes| bytes.get(..buffer.len())) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The headers of a 64-bit little-endian ELF file, and the way to its contents.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::{Elf, Arch};
///
/// let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// assert_eq!(elf.arch(), Arch::HOST);
/// assert!(elf.section(".text").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Elf {
    source: Box<dyn ReadAt>,
    size: u64,
    arch: Arch,
    kind: Kind,
    entry: u64,
    segments: Vec<Segment>,
    sections: Vec<Section>,
}

/// The instruction set of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// x86_64, 64-bit.
    X86_64,
    /// arm64.
    Aarch64,
}

impl Arch {
    /// What this program was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Arch = Arch::X86_64;
    /// What this program was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Arch = Arch::Aarch64;
}

/// What kind of ELF file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An executable at fixed addresses.
    Executable,
    /// A shared library or a position-independent executable.
    Shared,
    /// A core dump.
    Core,
    /// Anything else: an object file, a kernel module.
    Other,
}

/// A segment (program header).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`, see [`segment_type`].
    pub kind: u32,
    /// `p_flags`: 1 execute, 2 write, 4 read.
    pub flags: u32,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// Its virtual address.
    pub address: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
}

impl Segment {
    /// Whether it is loaded and may be executed.
    pub fn is_code(&self) -> bool {
        self.kind == segment_type::PT_LOAD && self.flags & 1 != 0
    }
}

/// Values of [`Segment::kind`].
pub mod segment_type {
    pub use object::elf::{PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, PT_TLS};
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: Box<str>,
    /// `sh_type`, see [`section_type`].
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Its virtual address, 0 where it isn't loaded.
    pub address: u64,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// `sh_link`: for a symbol table the number of its string section.
    pub link: u32,
    /// `sh_entsize`.
    pub entry_size: u64,
}

/// Values of [`Section::kind`].
pub mod section_type {
    pub use object::elf::{SHT_DYNSYM, SHT_NOBITS, SHT_NOTE, SHT_SYMTAB};
}

/// Bit of [`Section::flags`]: the contents are compressed.
pub const COMPRESSED: u64 = object::elf::SHF_COMPRESSED as u64;
/// Bit of [`Section::flags`]: the contents are instructions.
pub const EXECUTABLE: u64 = object::elf::SHF_EXECINSTR as u64;

impl Elf {
    /// Reads the headers.
    ///
    /// # Errors
    ///
    /// When it isn't a 64-bit little-endian ELF file of a known instruction set, or when its headers lie
    /// outside of the file.
    pub fn open(source: impl ReadAt + 'static) -> Result<Elf, ElfError> {
        parse::open(Box::new(source))
    }

    /// The instruction set.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The kind of file.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The virtual address of the entry point.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// All segments, in the order of the file.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All sections, in the order of the file; the first is the null section.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| &*section.name == name)
    }

    /// The bytes of a section as they are in the file, so compressed where it is.
    ///
    /// # Errors
    ///
    /// When the section reaches beyond the end of the file, or the file can't be read.
    pub fn data(&self, section: &Section) -> Result<Vec<u8>, ElfError> {
        if section.kind == section_type::SHT_NOBITS {
            return Ok(Vec::new());
        }
        self.bytes(section.offset, section.size)
    }

    /// `size` bytes of the file from `offset` on.
    ///
    /// # Errors
    ///
    /// When they reach beyond the end of the file, or the file can't be read.
    pub fn bytes(&self, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        parse::bytes(&*self.source, self.size, offset, size)
    }

    /// Fills `buffer` with the bytes of the file from `offset` on.
    ///
    /// # Errors
    ///
    /// When they reach beyond the end of the file, or the file can't be read.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        parse::fill(&*self.source, self.size, offset, buffer)
    }

    /// Fills `buffer` with what is loaded at virtual address `address`.
    ///
    /// # Errors
    ///
    /// When no loadable segment holds all of it in the file.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        let offset = self.file_offset(address, buffer.len() as u64).ok_or(ElfError::NotLoaded { address })?;
        self.source.read_at(offset, buffer).map_err(|error| ElfError::Read(error.kind()))
    }

    /// Where `size` bytes at virtual address `address` lie in the file.
    pub fn file_offset(&self, address: u64, size: u64) -> Option<u64> {
        let end = address.checked_add(size)?;
        let holds = |s: &&Segment| {
            s.kind == segment_type::PT_LOAD && s.address <= address && end - s.address <= s.file_size
        };
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// The virtual address at which byte `offset` of the file is loaded as code.
    ///
    /// A mapping begins at a page, a segment anywhere in it: the rest of a segment's first page counts too.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        code_address(&self.segments, offset)
    }

    /// The GNU build id: from the note segment, or from the section of that name.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        parse::note(self, b"GNU\0", object::elf::NT_GNU_BUILD_ID)
    }

    /// The description of the note with this owner (with its zero byte) and type.
    pub fn note(&self, owner: &[u8], kind: u32) -> Option<Vec<u8>> {
        parse::note(self, owner, kind)
    }
}

impl fmt::Debug for Elf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elf")
            .field("arch", &self.arch)
            .field("kind", &self.kind)
            .field("size", &self.size)
            .field("segments", &self.segments.len())
            .field("sections", &self.sections.len())
            .finish_non_exhaustive()
    }
}

/// The virtual address at which byte `offset` is loaded as code by one of `segments`.
pub(crate) fn code_address(segments: &[Segment], offset: u64) -> Option<u64> {
    const PAGE: u64 = 0xfff;
    let holds = |s: &&Segment| {
        let end = s.offset.saturating_add(s.file_size);
        s.is_code() && s.offset & !PAGE <= offset && offset < end
    };
    let segment = segments.iter().find(holds)?;
    Some(segment.address.wrapping_add(offset.wrapping_sub(segment.offset)))
}

/// Why a file, or a part of it, can't be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElfError {
    /// It doesn't begin like an ELF file.
    NotElf,
    /// It is an ELF file of a kind that isn't supported: what it is.
    Unsupported(Cow<'static, str>),
    /// A header or a section reaches beyond the end of the file.
    OutOfFile {
        /// Where it begins.
        offset: u64,
        /// Its size.
        size: u64,
    },
    /// Nothing of the file is loaded there.
    NotLoaded {
        /// The virtual address.
        address: u64,
    },
    /// More than what is read at once.
    TooLarge {
        /// The size asked for, or the number of headers.
        size: u64,
    },
    /// It can't be read.
    Read(io::ErrorKind),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::NotElf => f.write_str("not an ELF file"),
            ElfError::Unsupported(what) => write!(f, "unsupported ELF file: {what}"),
            ElfError::OutOfFile { offset, size } => {
                write!(f, "{size} bytes at offset {offset} reach beyond the end of the file")
            }
            ElfError::NotLoaded { address } => write!(f, "nothing is loaded at address {address:#x}"),
            ElfError::TooLarge { size } => write!(f, "{size} bytes or headers are more than is read at once"),
            ElfError::Read(kind) => write!(f, "cannot read: {kind}"),
        }
    }
}

impl std::error::Error for ElfError {}
