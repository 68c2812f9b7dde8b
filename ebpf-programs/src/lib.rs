//! The kernel side of ebpf-profiler: what both sides of the kernel border agree on, and the stack walkers
//! that run on either.
//!
//! ```text
//!   abi       records that leave the kernel, tables that go down to it, the one list of reasons
//!   machine   what a walker may ask of whatever runs it
//!   walk      one step from a frame to its caller: unwind rows, frame pointers, signal frames
//! ```
//!
//! Everything here is `no_std`, allocates nothing and panics on no input. Compiled for BPF the walkers run in
//! the sampling interrupt; compiled for the host the same lines walk recorded samples and core dumps.
#![no_std]
#![deny(missing_docs)]

pub mod abi;

pub mod machine;

pub mod walk;

#[cfg(feature = "object")]
mod object;

#[cfg(feature = "object")]
pub use object::OBJECT;
