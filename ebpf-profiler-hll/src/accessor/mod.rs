//! Reads from the machine code of accessor functions where a runtime keeps its state: the facts
//! that no symbol gives.
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
//! The code is untrusted input: at most 256 instructions of one function are followed.

mod follow;

mod value;

mod aarch64;

mod x86_64;

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};

/// Maximum number of bytes of one function that are searched for jumps.
const MAX_FUNCTION: u64 = 1 << 20;

/// Storage of a word of the running thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A value of `pthread_getspecific`, whose key is the four bytes at `number`.
    Key {
        number: Location,
        /// A word that is 0 until the key has been created.
        created: Option<Location>,
    },
    /// At a fixed distance from the thread pointer.
    Static { offset: i64 },
    /// At the distance from the thread pointer that is stored at `slot`.
    Slot { slot: u64, plus: i64 },
    /// In the thread-local storage of a module: `pair` holds the module's number and the offset in
    /// its storage.
    Module { pair: u64, plus: i64 },
    /// At the distance that the TLS descriptor at `pair` resolves to.
    Descriptor { pair: u64, plus: i64 },
}

/// An address in a process, in terms of the runtime's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The virtual address of a pointer to the base; `None` if the base is address 0 of the file.
    pub(crate) pointer: Option<u64>,
    /// Distance from the base.
    pub(crate) plus: u64,
}

impl Location {
    /// Returns the location of a virtual address of the file.
    pub(crate) fn at(address: u64) -> Location {
        Location { pointer: None, plus: address }
    }

    fn add(self, distance: i64) -> Location {
        Location { plus: self.plus.wrapping_add_signed(distance), ..self }
    }
}

/// Returns the origin of the word of the running thread that the function at `address` returns.
///
/// `is_key` returns `true` for the address of a thread-specific key (`Py_tss_t`), as opposed to a
/// TLS descriptor. The number of the key is the four bytes at distance 4 from that address.
pub(crate) fn returned(elf: &Elf, address: u64, is_key: &dyn Fn(u64) -> bool) -> Option<Origin> {
    match elf.arch() {
        Arch::X86_64 => follow::returned::<x86_64::State>(elf, address, is_key),
        _ => follow::returned::<aarch64::State>(elf, address, is_key),
    }
}

/// Returns the location of the eight bytes that the function at `address` returns.
pub(crate) fn word(elf: &Elf, address: u64) -> Option<Location> {
    match elf.arch() {
        Arch::X86_64 => follow::word::<x86_64::State>(elf, address),
        _ => follow::word::<aarch64::State>(elf, address),
    }
}

/// Returns the origin of the first word of the running thread that the function at `address`
/// dereferences.
///
/// ```text
///   rb_errinfo:
///     mov  $-8,%rax
///     mov  %fs:(%rax),%rax        ────►       offset: -8
///     mov  0x70(%rax),%rax
/// ```
pub(crate) fn dereferenced(elf: &Elf, address: u64) -> Option<Origin> {
    match elf.arch() {
        Arch::X86_64 => follow::dereferenced::<x86_64::State>(elf, address),
        _ => follow::dereferenced::<aarch64::State>(elf, address),
    }
}

/// Returns the addresses of the variables, eight bytes each, that the function at `address` loads,
/// in order.
pub(crate) fn loads(elf: &Elf, address: u64) -> Vec<u64> {
    match elf.arch() {
        Arch::X86_64 => follow::loads::<x86_64::State>(elf, address),
        _ => follow::loads::<aarch64::State>(elf, address),
    }
}

/// Returns the first distance from the thread pointer that the function at `address` reads at.
pub(crate) fn field(elf: &Elf, address: u64) -> Option<i64> {
    match elf.arch() {
        Arch::X86_64 => follow::field::<x86_64::State>(elf, address),
        _ => follow::field::<aarch64::State>(elf, address),
    }
}

/// Returns the addresses of what looks like direct calls of `callee` in code that begins at
/// `start`.
pub(crate) fn calls(arch: Arch, code: &[u8], start: u64, callee: u64) -> Vec<u64> {
    match arch {
        Arch::X86_64 => x86_64::calls(code, start, callee),
        _ => aarch64::calls(code, start, callee),
    }
}

/// Returns the targets of the jumps that leave a function, sorted. Calls are not jumps.
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
