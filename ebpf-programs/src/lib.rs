//! The kernel side of ebpf-profiler: what both sides of the kernel border agree on, the stack walkers that run on
//! either, and the compiled BPF object.
//!
//! A walk over a made-up world, on the host. The same lines run in the sampling interrupt:
//!
//! ```
//! use ebpf_programs::abi::arena::BLOCK_WORDS;
//! use ebpf_programs::abi::{VERSION, mapping::Process, reason::Stop, record::frame, registers::x86_64};
//! use ebpf_programs::{machine::Machine, walk::Walk, walk::arch::X86_64};
//!
//! /// One block of tables, and a stack that begins at 0x7000.
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
//!         self.read_stack(address) // nobody asks: only frames without unwind data make a walker look at code
//!     }
//!     fn push_frame(&mut self, frame: u64) {
//!         self.frames.push(frame & frame::ADDRESS);
//!     }
//! }
//!
//! let mut tables = [0; BLOCK_WORDS];
//! // Place 0, a mapping: start, end, bias (low word first), the place of its table, kind::TABLE.
//! tables[..8].copy_from_slice(&[0x400000, 0, 0x401000, 0, 0xffc00000, 0xffffffff, 1, 1]);
//! // Place 1, a table: base, pages, rules, rows, size, version and bits of a page; a row in front of all others
//! tables[16..24].copy_from_slice(&[0, 0, 1, 4, 3, 124, 16 << 16 | VERSION, 0]);
//! tables[24..27].copy_from_slice(&[1 << 16, 2 << 16 | 0x100, 3 << 16 | 0x200]); // rows from 0, 0x100, 0x200 on
//! tables[32..36].copy_from_slice(&[0x0703, 16, 0, 0]); // rule 1: cfa = rsp + 16, ra = [cfa - 8]
//! tables[36..40].copy_from_slice(&[0x0703, 32, 0, 0]); // rule 2: cfa = rsp + 32, ra = [cfa - 8]
//! tables[40] = 2; // rule 3: the outermost frame
//! tables[44..46].copy_from_slice(&[8, 60]); // a group: its rows begin at number 8, its pages at number 60
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
//! assert_eq!(world.frames, [0x400010, 0x400122, 0x400204]); // a caller's address lies in its call
//! assert_eq!(stop, Stop::Root);
//! ```
//!
//! Whoever has tables and a stack to walk does it with less through `trace::Walker` of `ebpf-profiler-core`, and
//! `ebpf-profiler-unwind` builds the tables.
//!
//! # The parts
//!
//! ```text
//!   tick ──► registers ──► Walk::step ──► frames ──► record ──► buffer or ring
//!                           │   ▲
//!            tables ◄───────┘   └── bpf_loop in the kernel, a plain loop on the host
//!            [Machine]
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`abi`] | records that leave the kernel, tables and mappings that go down to it, the one list of reasons |
//! | [`machine`] | what a walker may ask of whatever runs it |
//! | [`walk`] | one step from a frame to its caller: unwind rows, frame pointers, signal frames |
//! | `OBJECT`, with feature `object` | the compiled kernel side as bytes, for x86_64 |
//!
//! # The rules of the kernel side
//!
//! * One program and one loop. A step takes one frame and knows nothing of what drives it; state lies in a map and
//!   is fetched anew in each round. Behind a step a [run](walk::Walk::run) may take some frames more.
//! * A walker asks nothing but [`Machine`](machine::Machine), and every answer may be wrong. It goes on, or ends with a
//!   [`Stop`](abi::reason::Stop) that is in the record.
//! * No allocation, no panic, no loop without a bound. In the kernel a search through a table is 15
//!   steps, all but the first inside one block.
//! * What is guessed is marked ([`GUESSED`](abi::record::frame::GUESSED)), what doesn't fit is
//!   [counted](abi::reason::Counter).
//! * Integers of a fixed width only; layouts are asserted at compile time; [`VERSION`](abi::VERSION) changes with them.
//! * Whatever names a register stands in [`walk::arch`].
//!
//! # What it does not do
//!
//! It loads nothing: `ebpf-profiler-core` does. The walkers know x86_64 and arm64; the compiled object is for x86_64.
//! Of interpreters they know those whose frames are a linked list, from a
//! [description](abi::interpreter) that user space gives.
//!
//! # Minimum kernel version
//!
//! 5.17 for the object, with type information. Everything else runs anywhere.
//!
//! # Security
//!
//! Registers, stacks and code belong to programs that may mean harm. They decide what a walk finds, never where it
//! writes, how long it goes on (8,192 steps at most, and as many frames in runs) or whether it ends. Tables are held to
//! their bounds too.
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `object` | `OBJECT` |
//! | `kernel` | the kernel binary `sampler`, for the BPF target; `cargo xtask object` builds it |
//!
//! # Licence
//!
//! MIT or GPL 2.0, as you like. The kernel lends many helpers only to programs that are compatible with the GPL; the
//! object says `Dual MIT/GPL`. A program that embeds it takes it under MIT.
#![no_std]
#![deny(missing_docs)]

pub mod abi;

pub mod machine;

pub mod walk;

#[cfg(feature = "object")]
mod object;

#[cfg(feature = "object")]
pub use object::OBJECT;
