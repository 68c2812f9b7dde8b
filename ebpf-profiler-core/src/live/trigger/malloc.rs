//! Allocations of memory.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::allocator::{Allocator, Function, Role};
use super::error::AttachError;
use super::place::{self, Place};
use crate::elf::{Elf, Symbol, SymbolKind};
use crate::profile::{SampleKind, Unit};

/// The trigger of allocations by bytes: `malloc`, `calloc`, `realloc` and their aligned variants of
/// an allocator, and `new` of C++ where the allocator has its own.
///
/// Each call is a sample of the bytes that were asked for, with the stack that called. Each traps
/// into the kernel, which takes 1 to 2 µs; a [period](Malloc::every) or a
/// [budget](crate::live::Budget) lowers the number of samples.
///
/// [`live`](Malloc::live) samples the memory that is in use instead.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::{Malloc, Trigger};
///
/// let c_library: Trigger = Malloc::of_c_library().into();
/// let jemalloc: Trigger = Malloc::of("libjemalloc.so.2").every(64 << 10).into();
/// let in_use: Trigger = Malloc::of_c_library().live().into();
/// assert_eq!(c_library.to_string(), "malloc");
/// assert_eq!(jemalloc.to_string(), "malloc:64KiB:libjemalloc.so.2");
/// assert_eq!(in_use.to_string(), "malloc-live");
/// ```
#[doc(alias("heap", "memleak", "jemalloc"))]
#[derive(Clone, Debug, PartialEq)]
pub struct Malloc {
    pub(super) file: Option<PathBuf>,
    /// Bytes for each sample on average; `None` for the default.
    pub(super) period: Option<u64>,
    pub(super) is_live: bool,
}

/// The C library of most systems.
const C_LIBRARY: &str = "libc.so.6";

/// Bytes for each sample of memory in use by default.
const LIVE_PERIOD: u64 = 512 << 10;

impl Malloc {
    /// Returns the trigger of allocations of the C library, glibc's.
    pub fn of_c_library() -> Malloc {
        Malloc { file: None, period: None, is_live: false }
    }

    /// Returns the trigger of allocations of the allocator in `file`: a library such as jemalloc,
    /// mimalloc, tcmalloc or musl, or a program that contains one. As for a
    /// [`Uprobe`](super::Uprobe), it is a path, or the name of a library in a folder of this
    /// system, and its last part can be a pattern. Before musl 1.2.1, calls of `realloc` may count
    /// twice.
    pub fn of(file: impl Into<PathBuf>) -> Malloc {
        Malloc { file: Some(file.into()), ..Malloc::of_c_library() }
    }

    /// Takes a sample every `bytes` bytes on average: an allocation of fewer is sampled with a
    /// probability in proportion to its size, and counts as `bytes`, so that totals are right
    /// on average. By default 1, which samples each allocation; for memory in use 512 KiB.
    #[must_use = "returns the changed trigger"]
    pub fn every(self, bytes: u64) -> Malloc {
        Malloc { period: Some(bytes.clamp(1, ebpf_programs::abi::budget::MAX_PERIOD)), ..self }
    }

    /// Samples the memory in use: what was allocated since the start of the profiler and is not
    /// freed yet, by the stack that allocated it. The kind of samples is `inuse_space`.
    ///
    /// Each profile shows all that is in use at its end, not the difference to the one before, so
    /// profiles must not be added up. Memory of processes that exited or executed another
    /// program is gone. Memory that `realloc` moves counts for the stack that moved it. The
    /// child of a fork has none of its parent's. A [pause](crate::live::Profiler::pause) or a
    /// change of the settings of a running profiler clears the memory in use.
    ///
    /// Calls of `malloc` and `free` in all processes trap into the kernel, each of `malloc` twice.
    /// At most 131,072 samples are in use at once; further ones are counted as lost. The return
    /// of the functions is sampled, too: `new` of an allocator's own that throws
    /// ends the program, as the unwinder of C++ does not know such returns; `new` of the C++
    /// library is not affected.
    #[doc(alias = "inuse_space")]
    #[must_use = "returns the changed trigger"]
    pub fn live(self) -> Malloc {
        Malloc { is_live: true, ..self }
    }

    pub(super) fn kind(&self) -> SampleKind {
        SampleKind::new(if self.is_live { "inuse_space" } else { "malloc" }, Unit::Bytes)
    }

    /// Returns the number of bytes for each sample.
    pub(super) fn period(&self) -> u64 {
        self.period.unwrap_or(if self.is_live { LIVE_PERIOD } else { 1 })
    }

    /// Returns the places of the functions that allocate.
    pub(super) fn places(&self) -> Result<Vec<Place>, AttachError> {
        self.search(|function| (function.role != Role::Frees).then(|| function.size.cookie()))
    }

    /// Returns the places of the functions that allocate, with cookies for memory in use, and of
    /// those that free.
    pub(super) fn places_in_use(&self) -> Result<(Vec<Place>, Vec<Place>), AttachError> {
        let allocating =
            self.search(|function| function.role.cookie().map(|role| role | function.size.words()))?;
        Ok((allocating, self.search(|function| (function.role == Role::Frees).then_some(0))?))
    }

    /// Returns the places of the functions for which `cookie` returns a cookie.
    fn search(&self, cookie: impl Fn(&Function) -> Option<u64>) -> Result<Vec<Place>, AttachError> {
        let file = self.file.as_deref().unwrap_or(Path::new(C_LIBRARY));
        place::search(file, |elf, path| {
            let functions = functions(elf);
            if !functions.values().any(|function| function.name == b"malloc") {
                return Err(AttachError::not_found(format!("{} has no function malloc", path.display())));
            }
            let outside =
                || AttachError::invalid(format!("a function of the allocator is not in {}", path.display()));
            let wanted =
                functions.iter().filter_map(|(&address, function)| Some((address, cookie(function)?)));
            let places = wanted.map(|(address, cookie)| {
                let emulated = Entry::read(elf, address).map_or(0, |entry| entry.emulated());
                let offset = elf.file_offset(address, 1).ok_or_else(outside)? + emulated;
                Ok(Place { cookie, ..Place::new(path.as_os_str().as_bytes(), offset)? })
            });
            places.collect()
        })
    }
}

/// Returns the functions of a file's allocator by address: each once, as some have several names.
fn functions(elf: &Elf) -> BTreeMap<u64, &'static Function> {
    let mut allocator = Allocator::default();
    let mut symbols: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut take = |name: &[u8], symbol: Symbol, is_dynamic| {
        if symbol.address == 0 {
            return;
        }
        allocator.see(name, is_dynamic);
        if symbol.kind == SymbolKind::Function && Allocator::is_named(name) {
            symbols.push((name.to_owned(), symbol.address));
        }
    };
    elf.for_each_dynamic_symbol(|name, symbol| take(name, symbol, true));
    elf.for_each_symbol(|name, symbol| take(name, symbol, false));
    let mut found = BTreeMap::new();
    for function in allocator.functions() {
        for (_, address) in symbols.iter().filter(|(name, _)| name == function.name) {
            found.entry(*address).or_insert(function);
        }
    }
    let addresses: Vec<u64> = found.keys().copied().collect();
    // A call of a function that jumps to another one is a call of that one.
    found.retain(|&address, function| {
        let target = Entry::read(elf, address).and_then(|entry| entry.jump(address));
        let is_found = target.is_some_and(|target| addresses.binary_search(&target).is_ok());
        function.role == Role::Frees || !is_found
    });
    found
}

/// The first instructions of a function, from the second on after an `endbr64`.
struct Entry {
    code: [u8; 16],
    start: usize,
}

impl Entry {
    fn read(elf: &Elf, address: u64) -> Option<Entry> {
        const BRANCH_TARGET: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let mut code = [0; 16];
        elf.read(address, &mut code).ok()?;
        let start = if code.starts_with(&BRANCH_TARGET) { BRANCH_TARGET.len() } else { 0 };
        Some(Entry { code, start })
    }

    /// Returns the target of `jmp rel32`, if the function at `address` begins with it.
    fn jump(&self, address: u64) -> Option<u64> {
        let [0xe9, a, b, c, d, ..] = self.code[self.start..] else { return None };
        let end = address.wrapping_add(self.start as u64 + 5);
        Some(end.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()))
    }

    /// Returns the offset of the first instruction that the kernel emulates at a probe, which costs
    /// a fraction of a single step: a `push`, or the jump after `test %rdi,%rdi`. Up to it the
    /// arguments and the stack are those of the call. 0 for others.
    fn emulated(&self) -> u64 {
        let behind = match self.code[self.start..] {
            [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => 0,
            [0x48, 0x85, 0xff, 0x70..=0x7f, ..] | [0x48, 0x85, 0xff, 0x0f, 0x80..=0x8f, ..] => 3,
            _ => return 0,
        };
        (self.start + behind) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: usize, code: &[u8]) -> Entry {
        let mut entry = Entry { code: [0; 16], start };
        entry.code[start..start + code.len()].copy_from_slice(code);
        entry
    }

    #[test]
    fn probes_are_at_instructions_that_are_emulated() {
        let test_and_jump = [0x48, 0x85, 0xff, 0x0f, 0x84, 1, 0, 0, 0];
        assert_eq!([0, 4].map(|start| entry(start, &test_and_jump).emulated()), [3, 7]);
        assert_eq!(entry(4, &[0x41, 0x54]).emulated(), 4);
        // Another instruction after the test, and a move.
        assert_eq!(entry(4, &[0x48, 0x85, 0xff, 0x55]).emulated(), 0);
        assert_eq!(entry(0, &[0x48, 0x89, 0xfb]).emulated(), 0);
    }

    #[test]
    fn jumps_at_the_entry_are_followed() {
        assert_eq!(entry(0, &[0xe9, 0x1b, 0xff, 0xff, 0xff]).jump(0xadf10), Some(0xade30));
        assert_eq!(entry(4, &[0xe9, 0, 0, 0, 0]).jump(0x10), Some(0x19));
        assert_eq!(entry(0, &[0xe8, 0, 0, 0, 0]).jump(0x10), None);
        assert_eq!(entry(4, &[0xe9, 0, 0, 0, 0x7f]).jump(u64::MAX), Some(0x7f00_0008));
    }
}
