//! What can be learnt from machine code: the few facts about a runtime that only its code says.
//!
//! ```text
//!   PyGILState_GetThisThreadState:          Origin::Key
//!     mov  0x563d50(%rip),%edi    ────►       number: the four bytes there
//!     jmp  pthread_getspecific
//!
//!   _PyThreadState_GetCurrent:              Origin::Module
//!     lea  0x25a474(%rip),%rdi    ────►       pair: a module's number and an offset in its storage
//!     call __tls_get_addr
//!     mov  (%rax),%rax
//! ```
//!
//! The code is of a file that somebody else wrote: at most some hundred instructions are looked at, each once.

mod follow;

mod value;

mod aarch64;

mod x86_64;

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};

/// The most of one function that is read.
const MAX_FUNCTION: u64 = 1 << 20;

/// Where a word of the running thread comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A value of `pthread_getspecific`: the number of its key is the four bytes at `number`.
    Key {
        number: Place,
        /// As long as what lies there is 0, the key isn't made yet.
        made: Option<Place>,
    },
    /// At a distance from the thread pointer.
    Static { offset: i64 },
    /// At a distance from the thread pointer, which lies at `slot`.
    Slot { slot: u64, plus: i64 },
    /// In the thread-local storage of a module: its number lies at `pair`, an offset behind it.
    Module { pair: u64, plus: i64 },
    /// As a descriptor at `pair` says.
    Descriptor { pair: u64, plus: i64 },
}

/// A place in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// A virtual address of the file at which an address lies; without, it is 0 of the file.
    pub(crate) pointer: Option<u64>,
    /// Added to it.
    pub(crate) plus: u64,
}

impl Place {
    /// A virtual address of the file.
    pub(crate) fn at(address: u64) -> Place {
        Place { pointer: None, plus: address }
    }

    fn add(self, distance: i64) -> Place {
        Place { plus: self.plus.wrapping_add_signed(distance), ..self }
    }
}

/// What the function at `address` returns: a word of the running thread.
///
/// `is_key` says of an address that is handed to a function whether a key lies there, and no descriptor of
/// thread-local storage. The key of a [`Origin::Key`] lies four bytes behind such an address.
pub(crate) fn returned(elf: &Elf, address: u64, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
    match elf.arch() {
        Arch::X86_64 => follow::returned::<x86_64::State>(elf, address, is_key),
        _ => follow::returned::<aarch64::State>(elf, address, is_key),
    }
}

/// The place in memory of which the function at `address` returns the eight bytes.
pub(crate) fn word(elf: &Elf, address: u64) -> Option<Place> {
    match elf.arch() {
        Arch::X86_64 => follow::word::<x86_64::State>(elf, address),
        _ => follow::word::<aarch64::State>(elf, address),
    }
}

/// The first distance from the thread pointer at which the function at `address` reads.
pub(crate) fn field(elf: &Elf, address: u64) -> Option<i64> {
    match elf.arch() {
        Arch::X86_64 => follow::field::<x86_64::State>(elf, address),
        _ => follow::field::<aarch64::State>(elf, address),
    }
}

/// Where jumps out of a function lead to; calls are none.
pub(crate) fn jumps(elf: &Elf, function: &Range<u64>) -> Vec<u64> {
    let size = function.end.saturating_sub(function.start).min(MAX_FUNCTION);
    let mut bytes = vec![0; size as usize];
    if elf.read(function.start, &mut bytes).is_err() {
        return Vec::new();
    }
    let mut targets = match elf.arch() {
        Arch::X86_64 => x86_64::jumps(&bytes, function.start),
        _ => aarch64::jumps(&bytes, function.start),
    };
    targets.retain(|target| !function.contains(target));
    targets.sort_unstable();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests;
