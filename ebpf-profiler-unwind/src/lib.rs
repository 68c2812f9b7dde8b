//! Compact unwind tables from ELF files, and stack walks that use them.
//!
//! Begin with [`ebpf_profiler_core`], the profiler. This crate plugs into its builder:
//!
//! ```toml
//! [dependencies]
//! ebpf-profiler-core = "0.1"
//! ebpf-profiler-unwind = "0.1"
//! ```
//!
//! ```ignore
//! let profiler = Profiler::builder().unwind(ebpf_profiler_unwind::tables()).start()?;
//! ```
//!
//! Stacks then pass through code without frame pointers, which is most of what distributions ship. The crate also
//! works without the profiler:
//!
//! ```
//! use ebpf_profiler_unwind::Table;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bytes = std::fs::read("/proc/self/exe")?;
//! let table = Table::from_elf(&bytes)?;
//! for row in table.rows().take(4) {
//!     println!("{:x}  {}", row.address, row.rule);
//! }
//! # Ok(()) }
//! ```
//!
//! ```text
//! 2020  cfa = rsp + 16, ra = [cfa - 8]
//! 2026  cfa = rsp + 24, ra = [cfa - 8]
//! 2030  cfa = rsp + 8 + (pc & 15 >= 11 ? 8 : 0), ra = [cfa - 8]
//! 22d5  cfa = rsp + 112, rbp = [cfa - 48], ra = [cfa - 8]
//! ```
//!
//! A walk takes registers and memory and yields frames, with the code that runs in the kernel:
//!
//! ```no_run
//! use std::fs::File;
//! use ebpf_profiler_unwind::Walk;
//! use ebpf_profiler_unwind::core_dump::{CoreDump, Search};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dump = CoreDump::open(File::open("core")?)?;
//! let process = dump.load(&Search::default(), |path| Ok(Box::new(File::open(path)?)));
//! for thread in dump.threads() {
//!     for frame in Walk::new(process.modules(), &thread.registers, process.memory()) {
//!         println!("{frame}");
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Data flow
//!
//! ```text
//! .eh_frame ──┐         functions          rows             16 bytes           4 bytes a row
//! .debug_frame├──► index ────────► decoder ────► translation ───────► rules ──► pages ──► image
//! .gopclntab ─┘   by address                    registers, stack      each once            [Compiled]
//! ```
//!
//! `ebpf-programs` defines the image: position-independent bytes that are copied into the kernel unchanged, searched by page
//! and then within the page. Code without unwind data takes half a byte per page of up to 64 KiB, at most two and a half
//! in sparse files. [`Table`] reads an image, [`Table::from_image`] validates it.
//!
//! # Walking
//!
//! [`Walk`] takes [`Modules`] (mappings with their tables), [`Registers`], and a [`Stack`] that returns eight bytes of
//! memory: [`core_dump::Memory`], a recorded [`case`](case::Case), a closure. It ends with a [reason](Stop).
//! [`core_dump`] reads threads, memory and files from core dumps of the kernel and of `gcore`;
//! `cargo run --bin corestack -- core` prints them.
//!
//! # Interface
//!
//! | ring | items |
//! | --- | --- |
//! | every embedder | [`tables`] |
//! | tables and walks as a library | [`Table`], [`Row`], [`Rule`], [`Mapping`], [`Modules`], [`Walk`], [`Frame`] |
//! | readers of core dumps and recorded stacks | [`core_dump`], [`case`] |
//!
//! # Supported unwind data
//!
//! | source          | files                                          | provides                                  |
//! |-----------------|------------------------------------------------|-------------------------------------------|
//! | `.eh_frame`     | nearly all, stripped or not                    | all call frame instructions               |
//! | `.debug_frame`  | with debug information, also compressed        | functions that `.eh_frame` lacks          |
//! | instructions    | musl, the loader, libgcc                       | outermost and signal frames without unwind data; frames that libgcc overwrites |
//! |                 | functions that a runtime names: V8's builtins; on request all code without unwind data | [derived]: the stack pointer, frame pointer and return address at each instruction; x86_64 |
//! | `.gopclntab`    | Go 1.16 to 1.27, stripped or not, PIE or not   | stack pointer distances, outermost functions, stack switches, signal returns |
//!
//! On x86_64 and arm64. Sections are found by name, else through the program headers, Go's table by its content. The
//! canonical frame address may start from any register or from a stack slot (realigned frames), or be that of a PLT. The
//! return address may be on the stack, in a register, or signed. Signal frames and outermost frames are marked.
//!
//! 41.8 million rows in 3,872 files (a Debian system with Rust toolchains, node and a JDK, Debian packages for arm64) were
//! compared with [gimli]: all are equal but 47 (0.0001 %) that a rule cannot express. Those have a row of their own and are
//! counted in [`Table::unsupported`].
//!
//! # Not supported
//!
//! * The crate opens no file and no process: bytes come through [`Elf`], [`ReadAt`] or a closure.
//! * Only stack, frame and instruction pointer have rules. A frame whose address starts from another register can be
//!   unwound only as the innermost one, where all registers are known.
//! * Code without unwind data has no rows, unless they are [derived]: walks try frame pointers there.
//! * Up to Go 1.20 the caller of `systemstack` is missing, since that function saves no frame pointer.
//! * While libgcc installs the context of a landing pad, a cleanup with a frame pointer has no known caller: the walk ends
//!   with a reason.
//! * 32-bit and big-endian files are rejected.
//!
//! # Cost
//!
//! | operation | cost |
//! | --- | --- |
//! | build a table, instructions | 0.35 to 0.52 of walking all rows with gimli |
//! | build a table, CPU time | 0.25 to 0.5 of that; up to 0.7 in a process that does nothing else (new memory) |
//! | memory of a table | 4.13 bytes per row on average, at most 4.2 with 300 rows or more, rules not counted |
//! | memory while building | a tenth of the table, and 4 MB |
//! | unwind a frame, table of up to 1.2 MB | 37 to 58 ns at random addresses (framehop without cache: 575 to 1,350 ns) |
//! | unwind a frame, table of 3 to 5 MB | 56 to 72 ns, up to 92 ns with a busy cache |
//! | unwind a frame, repeated addresses | 28 to 48 ns (framehop with cache: 13 to 21 ns) |
//!
//! Building costs least in programs with frame pointers, such as node, and most where functions are described in another
//! order than their addresses, as in rustc's driver. Files are read in pieces of 8 KiB, except for Go's table and for
//! compressed `.debug_frame`. Functions are sorted only if `.eh_frame_hdr` is missing or wrong.
//!
//! # Security
//!
//! Files are input of unknown origin. No unsafe code, no panic, time linear in the size of the file, memory bounded by
//! a small multiple of the unwind data plus 1 MiB. Malformed entries are skipped and counted
//! ([`Table::malformed`]). Every parser has a fuzz target.
//!
//! # Minimum kernel version
//!
//! No kernel is needed: tables are built and read on any system.
//!
//! [gimli]: https://docs.rs/gimli
//! [Compiled]: ebpf_profiler_core::unwind::Compiled
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod source;

mod code;

mod index;

mod listed;

mod eh_frame;

mod stub;

mod eh_return;

mod arch;

mod derive;

pub mod derived;

mod compile;

mod table;

mod rule;

mod modules;

mod walk;

pub mod core_dump;

pub mod case;

mod bytes;

// What every embedder uses.
pub use compile::{Tables, tables};
pub use modules::{Mapping, Modules};
pub use rule::Rule;
pub use table::{Invalid, Row, Table};
pub use walk::{Frame, NativeFrame, ScriptCall, Walk};

// Types of other crates in these signatures.
pub use ebpf_profiler_core::elf::{Arch, Elf, ElfError, ReadAt};
pub use ebpf_profiler_core::language::FrameWalker;
pub use ebpf_profiler_core::trace::{Found, Stack, Stop};
pub use ebpf_programs::abi::registers::Registers;

/// Items for the tests and fuzz targets of this workspace: no stable interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::derive::{Fact, Refusal, facts};
    pub use crate::table::validate;
}
