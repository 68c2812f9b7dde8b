//! Compact unwind tables from ELF files: for each instruction, how to get to the caller's frame.
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
//! And the walkers that go by them, the same ones as in the kernel: registers and memory in, frames out.
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
//! To the profiler it is one call, `.unwind(ebpf_profiler_unwind::tables())`: stacks then go through code without
//! frame pointers, which is most of what a distribution ships.
//!
//! # The way of a row
//!
//! ```text
//! .eh_frame ──┐         functions          rows             16 bytes           4 bytes a row
//! .debug_frame├──► index ────────► decoder ────► translation ───────► rules ──► pages ──► image
//! .gopclntab ─┘   by address                    registers, stack      each once            [Compiled]
//! ```
//!
//! The image is what `ebpf-programs` defines: position-independent bytes, copied into the kernel as they are,
//! searched by page and then within the page; what is not described costs half a byte a page of up to 64 KiB, where there is
//! little of it up to two and a half.
//! [`Table`] reads it, [`validate`] checks it.
//!
//! # Walking
//!
//! [`Walk`] takes [`Modules`] (what is mapped where, with its tables), registers, and anything that answers with eight
//! bytes of memory: [`core_dump::Memory`], a recorded [`case`](case::Case), a closure. It ends with a
//! [reason](ebpf_profiler_core::trace::Stop). [`core_dump`] reads threads, memory and files of core dumps of the kernel
//! and of `gcore`; `cargo run --bin corestack -- core` prints them.
//!
//! # What it understands
//!
//! | source          | of                                             | gives                                     |
//! |-----------------|------------------------------------------------|-------------------------------------------|
//! | `.eh_frame`     | nearly everything, stripped or not             | all call frame instructions               |
//! | `.debug_frame`  | code for debuggers only; compressed, too       | where `.eh_frame` says nothing            |
//! | instructions    | entries and signal returns that nothing describes: musl, the loader | outermost frame, signal frame |
//! | `.gopclntab`    | Go 1.16 to 1.27, stripped or not, PIE or not   | distance of the stack pointer, outermost functions, changes of stack, signal returns |
//!
//! On x86_64 and arm64 alike, with the sections found by name or without section headers: through the program headers,
//! Go's table by its content. The canonical frame
//! address may start from any register, from a slot of the stack (realigned frames), or be that of a PLT; the return
//! address may be on the stack, in a register, or signed; signal frames and outermost frames are said to be such.
//! Of 41.8 million rows in 3,872 files (a Debian system with Rust toolchains, node and a JDK, Debian packages for arm64)
//! each means what [gimli] makes of it, and 47 (0.0001 %) are more than a rule can say. Those are
//! counted ([`Table::unsupported`]) and say so themselves.
//!
//! # What it does not do
//!
//! * It opens no file and no process: bytes come through [`Elf`], [`ReadAt`] or a closure.
//! * Registers other than stack, frame and instruction pointer have no rules: a frame whose address starts from one of
//!   them can be left while it is the innermost, where all registers are known.
//! * Code without unwind data stays without: the walkers then try frame pointers.
//! * Up to Go 1.20, whoever called `systemstack` is missing: it has no frame pointer of its own.
//! * 32-bit and big-endian files are refused.
//!
//! # Cost
//!
//! Building takes 0.35 to 0.52 of the instructions of a bare walk over all rows with gimli, and 0.25 to 0.5 of its CPU time
//! (in a process that does nothing else, where new memory counts, up to 0.7): least in programs with frame pointers, such
//! as node, most where functions are described in another order than they lie in, as in rustc's driver, since pieces of
//! the file are read several times then. A row takes 4.13 bytes on average, rules apart, and at most 4.2 in any table of
//! 300 rows or more: four, and what leads from an address to few of them. Building takes a tenth of the table and 4 MB
//! beside the table itself: files are read in pieces of 8 KiB, but for Go's table and for `.debug_frame` where it is
//! compressed, and functions are sorted only where `.eh_frame_hdr` hasn't done it, or lies.
//!
//! A frame takes a twentieth to a tenth of what it takes framehop without its cache, where the next one is anywhere in the
//! file: 37 to 58 ns in tables of up to 1.2 MB, and 56 to 72 in those of 3 to 5 MB, of which not much is in any cache near by
//! (up to 92 while others had that cache), where framehop took 575 to 1,350. Where the same addresses come again and again it
//! takes 28 to 48 ns, and framehop, which remembers their rules, 13 to 21.
//!
//! # Security
//!
//! Files are input of unknown origin. No unsafe code, no panic, time linear in the size of the file, memory bounded by
//! a small multiple of the unwind data plus 1 MiB; what makes no sense is passed over and counted
//! ([`Table::malformed`]). Every parser has a fuzz target.
//!
//! # Minimum kernel version
//!
//! None: tables are built and looked at anywhere.
//!
//! [gimli]: https://docs.rs/gimli
//! [`Elf`]: ebpf_profiler_core::elf::Elf
//! [`ReadAt`]: ebpf_profiler_core::elf::ReadAt
//! [Compiled]: ebpf_profiler_core::unwind::Compiled
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

mod compile;

mod table;

mod rule;

mod modules;

mod walk;

pub mod core_dump;

pub mod case;

mod bytes;

pub use compile::{Tables, tables};
pub use modules::{Mapping, Modules};
pub use rule::Rule;
pub use table::{Invalid, Row, Table, validate};
pub use walk::{Call, Frame, Native, Walk};
