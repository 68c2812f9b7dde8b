//! ELF files, read piece by piece.
//!
//! ```text
//!   file, memory ──ReadAt──► Elf: header, segments, sections ──► contents, addresses, notes
//! ```
//!
//! A file of another process can have any size and can change while it is read, so it is never
//! mapped into memory. Only the headers are kept; sections are read on demand, and every claimed
//! size is checked against the length of the file first. Limits: 131,072 sections, 262,144
//! segments, 1 GiB per read.
//!
//! Supported are 64-bit little-endian files of x86_64 and arm64: programs, libraries, debug files
//! and core dumps.
//!
//! # Examples
//!
//! Translate between addresses and file offsets, and read the build id:
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
//! Open bytes in memory, such as the vDSO of a process:
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

mod eh_frame_hdr;

mod exports;

mod names;

mod parse;

pub use eh_frame_hdr::EhFrameHdr;
pub use exports::Exports;
pub use names::{Symbol, SymbolKind};

/// A random-access source of bytes: a file or a range of memory.
pub trait ReadAt: Send + Sync {
    /// Returns the size in bytes.
    ///
    /// # Errors
    ///
    /// Fails with the error of the underlying source.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails with `UnexpectedEof` if fewer bytes are left, or with the error of the underlying
    /// source.
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

/// A 64-bit little-endian ELF file: its headers, and access to its contents.
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
    /// The instruction set of the running program.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Arch = Arch::X86_64;
    /// The instruction set of the running program.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Arch = Arch::Aarch64;
}

/// The type of an ELF file (`e_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An executable at fixed addresses (`ET_EXEC`), whose load bias is 0.
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
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Its virtual address.
    pub address: u64,
    /// Size in the file, in bytes.
    pub file_size: u64,
    /// Size in memory, in bytes.
    pub memory_size: u64,
}

impl Segment {
    /// Returns `true` if the segment is loaded and executable.
    pub fn is_code(&self) -> bool {
        self.kind == segment_type::PT_LOAD && self.flags & 1 != 0
    }
}

/// Values for [`Segment::kind`].
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
    /// Its virtual address; 0 if it is not loaded.
    pub address: u64,
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Its size in the file, in bytes.
    pub size: u64,
    /// `sh_link`; for a symbol table, the index of its string section.
    pub link: u32,
    /// `sh_entsize`.
    pub entry_size: u64,
}

/// Values for [`Section::kind`].
pub mod section_type {
    pub use object::elf::{SHT_DYNSYM, SHT_NOBITS, SHT_NOTE, SHT_SYMTAB};
}

/// Bit of [`Section::flags`] for compressed contents.
pub const COMPRESSED: u64 = object::elf::SHF_COMPRESSED as u64;
/// Bit of [`Section::flags`] for executable instructions.
pub const EXECUTABLE: u64 = object::elf::SHF_EXECINSTR as u64;

impl Elf {
    /// Reads the headers of a file.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a 64-bit little-endian ELF file of a supported instruction set, or
    /// if its headers reach beyond the end of the file.
    pub fn open(source: impl ReadAt + 'static) -> Result<Elf, ElfError> {
        parse::open(Box::new(source))
    }

    /// Replaces the source by one with the same bytes.
    pub(crate) fn with_source<S: ReadAt + 'static>(self, wrap: impl FnOnce(Box<dyn ReadAt>) -> S) -> Elf {
        Elf { source: Box::new(wrap(self.source)), ..self }
    }

    /// Returns the instruction set.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the type of the file.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the virtual address of the entry point.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Returns the length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns all segments in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns all sections in file order; the first is the null section.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the first section with this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| &*section.name == name)
    }

    /// Reads the bytes of a section as stored in the file, without decompression.
    ///
    /// # Errors
    ///
    /// Fails if the section reaches beyond the end of the file or the file cannot be read.
    pub fn data(&self, section: &Section) -> Result<Vec<u8>, ElfError> {
        if section.kind == section_type::SHT_NOBITS {
            return Ok(Vec::new());
        }
        self.bytes(section.offset, section.size)
    }

    /// Reads `size` bytes of the file from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails if they reach beyond the end of the file or the file cannot be read.
    pub fn bytes(&self, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        parse::bytes(&*self.source, self.size, offset, size)
    }

    /// Fills `buffer` with the bytes of the file from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails if they reach beyond the end of the file or the file cannot be read.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        parse::fill(&*self.source, self.size, offset, buffer)
    }

    /// Fills `buffer` with the bytes loaded at virtual address `address`.
    ///
    /// # Errors
    ///
    /// Fails if no loadable segment holds all of them in the file.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        let offset = self.file_offset(address, buffer.len() as u64).ok_or(ElfError::NotLoaded { address })?;
        self.source.read_at(offset, buffer).map_err(|error| ElfError::Read(error.kind()))
    }

    /// Returns the file offset of the `size` bytes at virtual address `address`.
    ///
    /// Returns `None` if no single loadable segment holds all of them.
    pub fn file_offset(&self, address: u64, size: u64) -> Option<u64> {
        let end = address.checked_add(size)?;
        let holds = |s: &&Segment| {
            s.kind == segment_type::PT_LOAD && s.address <= address && end - s.address <= s.file_size
        };
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// Returns the virtual address at which byte `offset` of the file is loaded as code.
    ///
    /// Mappings begin at a page boundary and segments anywhere in the page, so the bytes before a
    /// segment in its first page count as part of it.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        code_address(&self.segments, offset)
    }

    /// Returns the GNU build id from the note segments or sections.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        parse::note(self, b"GNU\0", object::elf::NT_GNU_BUILD_ID)
    }

    /// Returns the description of the first note with this type and owner, in the note segments or
    /// else the note sections; `None` if there is none. `owner` includes its terminating zero.
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

/// Returns the virtual address at which one of `segments` loads byte `offset` as code.
pub(crate) fn code_address(segments: &[Segment], offset: u64) -> Option<u64> {
    const PAGE: u64 = 0xfff;
    let holds = |s: &&Segment| {
        let end = s.offset.saturating_add(s.file_size);
        s.is_code() && s.offset & !PAGE <= offset && offset < end
    };
    let segment = segments.iter().find(holds)?;
    Some(segment.address.wrapping_add(offset.wrapping_sub(segment.offset)))
}

/// An error while reading an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElfError {
    /// The file does not begin with the ELF magic number.
    NotElf,
    /// The class, byte order or machine is not supported.
    Unsupported(Cow<'static, str>),
    /// A header or a section reaches beyond the end of the file.
    OutOfFile {
        /// Its offset in the file.
        offset: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// No segment of the file is loaded at this address.
    NotLoaded {
        /// The virtual address.
        address: u64,
    },
    /// A size or count above the limit of one read.
    TooLarge {
        /// The requested size in bytes, or the number of headers.
        size: u64,
    },
    /// The source cannot be read.
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
            ElfError::TooLarge { size } => write!(f, "{size} bytes or headers exceed the limit of one read"),
            ElfError::Read(kind) => write!(f, "cannot read: {kind}"),
        }
    }
}

impl std::error::Error for ElfError {}
