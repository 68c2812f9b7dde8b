//! Allocations of memory.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::operand::Operand;
use super::place::{self, Place};
use crate::elf::{Elf, Symbol, SymbolKind};
use crate::profile::{SampleKind, Unit};

/// The trigger of allocations by bytes: `malloc`, `calloc`, `realloc` and their aligned variants of an allocator, and `new` of C++
/// where the allocator has its own.
///
/// Each call is a sample of the bytes that were asked for, with the stack that called. Each traps into the kernel, which takes 1 to
/// 2 µs; a [budget](super::super::Budget) lowers the number of samples.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::live::{Malloc, Trigger};
///
/// let c_library: Trigger = Malloc::of_c_library().into();
/// let jemalloc: Trigger = Malloc::of("libjemalloc.so.2").into();
/// assert_eq!(c_library.to_string(), "malloc");
/// assert_eq!(jemalloc.to_string(), "malloc:libjemalloc.so.2");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Malloc {
    pub(super) file: Option<PathBuf>,
}

/// The C library of most systems.
const C_LIBRARY: &str = "libc.so.6";

/// Functions that allocate, and the place of the number of bytes. In musl the others call the first three, in tcmalloc the first six.
const FUNCTIONS: &[(&[u8], Operand)] = &[
    (b"malloc", Operand::argument(0)),
    (b"realloc", Operand::argument(1)),
    (b"aligned_alloc", Operand::argument(1)),
    (b"memalign", Operand::argument(1)),
    (b"calloc", Operand::product(0, 1)),
    (b"reallocarray", Operand::product(1, 2)),
    (b"posix_memalign", Operand::argument(2)),
    (b"valloc", Operand::argument(0)),
    (b"pvalloc", Operand::argument(0)),
];

const OF_MUSL: usize = 3;
const OF_TCMALLOC: usize = 6;

/// The same for `new`: plain, of arrays, without exceptions, aligned.
const NEW: &[(&[u8], Operand)] = &[
    (b"_Znwm", Operand::argument(0)),
    (b"_Znam", Operand::argument(0)),
    (b"_ZnwmRKSt9nothrow_t", Operand::argument(0)),
    (b"_ZnamRKSt9nothrow_t", Operand::argument(0)),
    (b"_ZnwmSt11align_val_t", Operand::argument(0)),
    (b"_ZnamSt11align_val_t", Operand::argument(0)),
];

impl Malloc {
    /// Returns the trigger of allocations of the C library, glibc's.
    pub fn of_c_library() -> Malloc {
        Malloc { file: None }
    }

    /// Returns the trigger of allocations of the allocator in `file`: a library such as jemalloc, mimalloc, tcmalloc or musl, or a
    /// program that contains one. As for a [`Uprobe`](super::Uprobe), it is a path, or the name of a library in a folder of this
    /// system, and its last part can be a pattern. Before musl 1.2.1, calls of `realloc` may count twice.
    pub fn of(file: impl Into<PathBuf>) -> Malloc {
        Malloc { file: Some(file.into()) }
    }

    pub(super) fn kind() -> SampleKind {
        SampleKind::new("malloc", Unit::Bytes)
    }

    /// Returns the places of the functions.
    pub(super) fn places(&self) -> Result<Vec<Place>, String> {
        place::search(self.file.as_deref().unwrap_or(Path::new(C_LIBRARY)), places_in)
    }
}

/// The functions of a file that allocate, and what tells its allocator.
#[derive(Default)]
struct Found {
    /// Addresses and operands by the number of the function.
    functions: BTreeSet<(u64, usize)>,
    has_malloc: bool,
    exports_malloc: bool,
    exports_new: bool,
    exports_start: bool,
    is_glibc: bool,
    is_musl: bool,
    is_tcmalloc: bool,
}

fn places_in(elf: &Elf, path: &Path) -> Result<Vec<Place>, String> {
    let mut found = Found::default();
    elf.for_each_dynamic_symbol(|name, symbol| found.take(name, symbol, true));
    elf.for_each_symbol(|name, symbol| found.take(name, symbol, false));
    if !found.has_malloc {
        return Err(format!("{} has no function malloc", path.display()));
    }
    let outside = || format!("an allocating function is not in {}", path.display());
    let mut addresses = BTreeSet::new();
    let mut places = Vec::new();
    for &(address, number) in found.functions.iter().filter(|(_, number)| found.counts(*number)) {
        // One function may have several names.
        if addresses.insert(address) {
            let offset = elf.file_offset(address, 1).ok_or_else(outside)?;
            let (_, operand) = function(number);
            places.push(Place { operand, ..Place::new(path.as_os_str().as_bytes(), offset)? });
        }
    }
    Ok(places)
}

/// Returns a function by its number.
fn function(number: usize) -> (&'static [u8], Operand) {
    FUNCTIONS.get(number).copied().unwrap_or_else(|| NEW[(number - FUNCTIONS.len()) % NEW.len()])
}

impl Found {
    fn take(&mut self, name: &[u8], symbol: Symbol, is_dynamic: bool) {
        if symbol.address == 0 {
            return;
        }
        match name {
            b"__libc_malloc_impl" | b"__malloc_donate" => self.is_musl = true,
            b"tc_memalign" => self.is_tcmalloc = true,
            b"__libc_start_main" => self.exports_start |= is_dynamic,
            b"gnu_get_libc_version" => self.is_glibc = true,
            _ => {}
        }
        if symbol.kind != SymbolKind::Function {
            return;
        }
        let all = FUNCTIONS.iter().chain(NEW);
        let Some(number) = all.map(|(name, _)| *name).position(|known| known == name) else { return };
        self.functions.insert((symbol.address, number));
        self.has_malloc |= number == 0;
        self.exports_malloc |= number == 0 && is_dynamic;
        self.exports_new |= number == FUNCTIONS.len() && is_dynamic;
    }

    /// Returns `true` if calls of a function do not count as those of another one.
    fn counts(&self, number: usize) -> bool {
        let is_musl = self.is_musl || self.exports_start && !self.is_glibc;
        // `new` of the C++ library calls `malloc`; an allocator that replaces both does not.
        let has_new = self.exports_malloc && self.exports_new;
        match number.checked_sub(FUNCTIONS.len()) {
            Some(_) => has_new,
            None if is_musl => number < OF_MUSL,
            None if self.is_tcmalloc => number < OF_TCMALLOC,
            None => true,
        }
    }
}
