//! The kernel side of ebpf-profiler: the ABI between the kernel and user space, the stack walkers that run on either side, and
//! the compiled BPF object.
//!
//! To profile a machine, begin at `ebpf-profiler-core`:
//!
//! ```toml
//! [dependencies]
//! ebpf-profiler-core = { version = "0.1", features = ["live", "symbolize"] }
//! ebpf-profiler-unwind = "0.1"
//! ```
//!
//! A walk over constructed tables and a constructed stack, on the host. The same code runs in the sampling interrupt:
//!
//! ```
//! use ebpf_programs::abi::arena::BLOCK_WORDS;
//! use ebpf_programs::abi::{VERSION, mapping::Process, reason::Stop, record::frame, registers::x86_64};
//! use ebpf_programs::{machine::Machine, walk::Walk, walk::arch::X86_64};
//!
//! /// One block of tables, and a stack that starts at 0x7000.
//! struct World { tables: [u32; BLOCK_WORDS], stack: Vec<u64>, frames: Vec<u64> }
//!
//! impl Machine for World {
//!     fn words_from(&self, word: u32) -> Option<&[u32]> {
//!         self.tables.get(word as usize..)
//!     }
//!     fn read_stack(&mut self, address: u64) -> Option<u64> {
//!         self.stack.get(address.checked_sub(0x7000)? as usize / 8).copied()
//!     }
//!     fn read_memory(&mut self, address: u64) -> Option<u64> {
//!         self.read_stack(address) // only for code without unwind data, and for interpreters
//!     }
//!     fn push_frame(&mut self, frame: u64) {
//!         self.frames.push(frame & frame::ADDRESS);
//!     }
//! }
//!
//! let mut tables = [0; BLOCK_WORDS];
//! // Arena offset 0, a mapping: start, end, bias (low word first), arena offset of its table, kind::TABLE.
//! tables[..8].copy_from_slice(&[0x400000, 0, 0x401000, 0, 0xffc00000, 0xffffffff, 1, 1]);
//! // Arena offset 1, a table: base, pages, rules, rows, size, version and bits of a page; a row before all others
//! tables[16..24].copy_from_slice(&[0, 0, 1, 4, 3, 124, 16 << 16 | VERSION, 0]);
//! tables[24..27].copy_from_slice(&[1 << 16, 2 << 16 | 0x100, 3 << 16 | 0x200]); // rows from 0, 0x100, 0x200 on
//! tables[32..36].copy_from_slice(&[0x0703, 16, 0, 0]); // rule 1: cfa = rsp + 16, ra = [cfa - 8]
//! tables[36..40].copy_from_slice(&[0x0703, 32, 0, 0]); // rule 2: cfa = rsp + 32, ra = [cfa - 8]
//! tables[40] = 2; // rule 3: the outermost frame
//! tables[44..46].copy_from_slice(&[8, 60]); // a group: its rows start at index 8, its pages at index 60
//! tables[46] = 11 << 16 | 8; // the page has rows 8 to 11
//!
//! let mut world = World { tables, stack: vec![0, 0x400123, 0, 0, 0, 0x400205], frames: vec![] };
//! let mut walk = Walk::default();
//! walk.process = Process { mappings: 0, count: 1, ..Process::default() };
//! walk.registers.pc = 0x400010;
//! walk.registers.values[x86_64::SP] = 0x7000;
//! walk.registers.known = 1 << x86_64::SP;
//! walk.begin();
//! let stop = loop {
//!     if let Some(stop) = walk.step::<X86_64, _>(&mut world) {
//!         break stop;
//!     }
//! };
//! assert_eq!(world.frames, [0x400010, 0x400122, 0x400204]); // callers: the last byte of the call
//! assert_eq!(stop, Stop::Root);
//! ```
//!
//! With less code, `trace::Walker` of `ebpf-profiler-core` does the same for tables and a stack; `ebpf-profiler-unwind` builds the
//! tables.
//!
//! # The parts
//!
//! ```text
//!   event ──► registers ──► Walk::step ──► frames ──► record ──► per-CPU buffer or ring
//!                            │   ▲
//!             tables ◄───────┘   └── bpf_loop in the kernel, a plain loop on the host
//!             [Machine]
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`abi`] | records sent by the kernel side, tables and mappings published to it, the one list of stop reasons |
//! | [`machine`] | the environment of a walker |
//! | [`walk`] | one step from a frame to its caller: unwind rows, frame pointers, signal frames, frames of runtimes |
//! | `OBJECT`, with feature `object` | the compiled kernel side as bytes, for x86_64 |
//!
//! # The rules of the kernel side
//!
//! * One walk and one loop, whatever event it is for. A step takes one frame and is independent of the loop that drives it; its state is in a map
//!   value that each iteration fetches again. A step may be followed by a [run](walk::Walk::run) of further frames.
//! * A walker uses only [`Machine`](machine::Machine), and any answer may be wrong. It continues, or ends with a
//!   [`Stop`](abi::reason::Stop) that is in the record.
//! * No allocation, no panic, no unbounded loop. In the kernel a search through a table is 15 steps, all but the first in one
//!   block.
//! * Guesses are marked ([`GUESSED`](abi::record::frame::GUESSED)), losses are [counted](abi::reason::Counter).
//! * Integers of fixed width only; layouts are asserted at compile time; [`VERSION`](abi::VERSION) changes with them.
//! * Registers and instructions are named in [`walk::arch`] only.
//!
//! # What it does not do
//!
//! It loads nothing: `ebpf-profiler-core` does. The walkers support x86_64 and arm64; the compiled object is for x86_64. They
//! support interpreters whose frames are a linked list or an array, and compiled code with frame pointers, by a
//! [description](abi::interpreter) that user space publishes, and have a [walker](abi::interpreter::walker) each for HotSpot, V8, Ruby, PHP, Perl and LuaJIT.
//!
//! # Minimum kernel version
//!
//! 5.17 with BTF for the object. Everything else runs anywhere.
//!
//! # Security
//!
//! Registers, stacks and code belong to programs that may be hostile. They determine the frames of a walk, but not where it
//! writes or how long it takes: at most 8,192 steps, and as many frames in runs. Accesses to tables are bounds-checked too.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `object` | `OBJECT` |
//! | `kernel` | the kernel binary `sampler`, for the BPF target; `cargo xtask object` builds it |
//!
//! # Licence
//!
//! MIT or GPL 2.0, at your choice. The object declares `Dual MIT/GPL`, because the kernel restricts some helpers to programs
//! compatible with the GPL. A program that embeds the object uses it under MIT.
#![no_std]
#![deny(missing_docs)]

pub mod abi;

pub mod machine;

pub mod walk;

#[cfg(feature = "object")]
mod object;

#[cfg(feature = "object")]
pub use object::OBJECT;
