//! High-level languages for ebpf-profiler: names for the frames of interpreters and JIT compilers.
//!
//! **No language is supported yet**, and this version exports nothing. It holds the crate's place among the layers.
//!
//! # What a profile shows until then
//!
//! The native side of an interpreter is walked and named like any other program: CPython's evaluation loop, its
//! allocator, the libraries that it calls. Which function of the script runs is not in the profile. Code made at
//! run time is walked by guesses that are checked and marked, and has no name.
//!
//! # What it will hold
//!
//! One folder a language, each with the same files:
//!
//! ```text
//!   find ──────► offsets ──────► attach ──────────► name ─────────► lines
//!   is it one?   of its fields   state of one       of one frame    of one frame
//!   once a file  once a file     process            once a frame
//! ```
//!
//! A language's walker, which takes its frames in the kernel, goes into `walk` of `ebpf-programs`; the seam for names
//! goes into `ebpf-profiler-core`, beside [`Symbolizer`](ebpf_profiler_core::symbol::Symbolizer), so that a language of
//! one's own plugs in where these do.
//!
//! # Requirements
//!
//! None yet.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
