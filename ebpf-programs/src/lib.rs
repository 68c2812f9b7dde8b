//! The kernel side of ebpf-profiler: the ABI between the kernel and user space, the stack walkers that run on either side, and
//! the compiled BPF object.
//!
//! To profile a machine, begin at `ebpf-profiler-core`:
//!
//! ```toml
//! [dependencies]
//! ebpf-profiler-core = "0.1"
//! ebpf-profiler-unwind = "0.1"
//! ```
//!
//! The crate itself offers an embedder three things:
//!
//! | item | use |
//! | --- | --- |
//! | [`abi::reason`] | reasons why the walk of a stack ended, and counters of the kernel side, with their texts |
//! | [`abi::own`] | events of eBPF programs of your own, which take samples |
//! | `OBJECT`, and on x86_64 `OBJECT_5_10`, with feature `object` | the compiled kernel side as bytes |
//!
//! ```
//! use ebpf_programs::abi::reason::{Counter, Stop};
//!
//! assert_eq!(Stop::Unreadable.to_string(), "stack not readable");
//! assert_eq!(Counter::RingFull.text(), "samples lost because the ring was full");
//! ```
//!
//! All other parts are hidden from this documentation: `ebpf-profiler-core` and the kernel side change them together, in any release. To
//! unwind stacks of your own, use `Walk` of `ebpf-profiler-unwind`.
//!
//! # The parts
//!
//! ```text
//!   event ──► registers ──► Walk::step ──► frames ──► record ──► per-CPU buffer or ring
//!                            │   ▲
//!             tables ◄───────┘   └── bpf_loop in the kernel, a bounded loop in older ones, a plain loop on the host
//!             [Machine]
//! ```
//!
//! | folder of the source | contents |
//! | --- | --- |
//! | `abi` | records sent by the kernel side, tables and mappings published to it, the one list of stop reasons |
//! | `machine.rs` | the environment of a walker |
//! | `walk` | one step from a frame to its caller: unwind rows, frame pointers, signal frames, frames of runtimes |
//! | `kernel` | the eBPF programs |
//!
//! # The rules of the kernel side
//!
//! * One walk and one loop, whatever event it is for. A step takes one frame and is independent of the loop that drives it; its state is in a map
//!   value that each iteration fetches again. A step may be followed by a run of further
//!   frames (`Walk::run`).
//! * A walker uses only the trait `Machine`, and any answer may be wrong. It continues, or ends with a [`Stop`](abi::reason::Stop) that
//!   is in the record.
//! * No allocation, no panic, no unbounded loop. In the kernel a search through a table is 15 steps, all but the first in one
//!   block.
//! * Guesses are marked, losses are [counted](abi::reason::Counter).
//! * Integers of fixed width only; layouts are asserted at compile time; [`VERSION`](abi::VERSION) changes with them.
//! * Registers are named in `walk/arch`, `abi/registers.rs`, the files of walkers that are named after an architecture, and where the
//!   kernel saves them (`kernel/arch`).
//!
//! # What it does not do
//!
//! It loads nothing: `ebpf-profiler-core` does. The walkers support x86_64 and arm64, for each of which there is a compiled object. They
//! support interpreters whose frames are a linked list or an array, and compiled code with frame pointers, by a description that user
//! space publishes, and have a walker each for HotSpot, V8, Ruby, PHP, Perl, LuaJIT, BEAM and .NET.
//!
//! # Minimum kernel version
//!
//! 5.17 with BTF for `OBJECT`, on arm64 6.1; 5.10 for `OBJECT_5_10`: the same walkers, without `bpf_loop`. Everything else runs anywhere.
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
//! | `object` | `OBJECT`, `OBJECT_5_10` |
//! | `kernel` | the kernel binary `sampler`, for the BPF target; `cargo xtask object` builds it |
//! | `kernel_5_10` | the same for kernels without `bpf_loop` |
//!
//! # Licence
//!
//! MIT or GPL 2.0 without later versions (`MIT OR GPL-2.0-only`), at your choice. The object declares `Dual MIT/GPL`, because the
//! kernel restricts some helpers to programs compatible with the GPL. A program that embeds the object uses it under MIT.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(missing_docs)]

pub mod abi;

#[doc(hidden)]
pub mod machine;

#[doc(hidden)]
pub mod walk;

#[cfg(feature = "object")]
mod object;

#[cfg(feature = "object")]
pub use object::OBJECT;
#[cfg(all(feature = "object", not(target_arch = "aarch64")))]
pub use object::OBJECT_5_10;
