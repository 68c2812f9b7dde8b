//! Probes at functions of programs and libraries.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::call::Call;
use super::error::AttachError;
use super::place::{self, Names, Place};
use crate::elf::{Elf, Symbol, SymbolKind};
use crate::profile::SampleKind;

/// The trigger of calls or returns of a function of a program or library, in all processes that
/// have the file mapped, now or later.
///
/// Each event traps into the kernel, which takes 1 to 2 µs: choose functions that are not called
/// millions of times a second.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Uprobe};
/// use std::time::Duration;
///
/// let profiler = Profiler::builder()
///     .on(Uprobe::entry("libc.so.6", "getaddrinfo"))
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// println!("{} look-ups", profiler.run_for(Duration::from_secs(10))?.total());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "uretprobe")]
#[derive(Clone, Debug, PartialEq)]
pub struct Uprobe {
    pub(super) file: PathBuf,
    pub(super) function: String,
    pub(super) call: Call,
}

impl Uprobe {
    /// Returns the trigger of calls of `function`. `file` is a path, or the name of a library in a
    /// folder of this system.
    ///
    /// The last part of the file and the function can be patterns, with `*`, `?` and `[a-z]`, such
    /// as `libc.so*` and `pthread_*`. At most 256 functions are sampled; functions whose
    /// implementation the loader chooses (ifunc), such as glibc's `memcpy`, do not match.
    pub fn entry(file: impl Into<PathBuf>, function: impl Into<String>) -> Uprobe {
        Uprobe { file: file.into(), function: function.into(), call: Call::ENTRY }
    }

    /// Returns the trigger of returns of `function`; as [`entry`](Uprobe::entry).
    pub fn exit(file: impl Into<PathBuf>, function: impl Into<String>) -> Uprobe {
        Uprobe { call: Call::EXIT, ..Uprobe::entry(file, function) }
    }

    /// Takes argument `index`, from 0 to 5, as the value of a call: an integer or pointer in a
    /// register. Other indices leave the value at 1.
    #[must_use = "returns the changed trigger"]
    pub fn argument(self, index: u32) -> Uprobe {
        Uprobe { call: self.call.argument(index), ..self }
    }

    /// Takes the result of the function, a signed integer, as the value of a return. Negative ones
    /// count as 0.
    #[must_use = "returns the changed trigger"]
    pub fn result(self) -> Uprobe {
        Uprobe { call: self.call.result(), ..self }
    }

    /// Takes the time from a call to its return as the value, in nanoseconds. The sample is taken
    /// at the return, with the stack of the caller. Calls that began before the profiler are
    /// not counted, nor those that are left by a jump.
    #[must_use = "returns the changed trigger"]
    pub fn time(self) -> Uprobe {
        Uprobe { call: self.call.time(), ..self }
    }

    pub(super) fn kind(&self) -> SampleKind {
        SampleKind::new(super::Trigger::from(self.clone()).to_string(), self.call.unit())
    }

    /// Returns the places of its functions.
    pub(super) fn places(&self) -> Result<Vec<Place>, AttachError> {
        place::search(&self.file, |elf, path| self.places_in(elf, path))
    }

    fn places_in(&self, elf: &Elf, path: &Path) -> Result<Vec<Place>, AttachError> {
        let (names, function) = (Names::new(&self.function)?, &self.function);
        let addresses = functions(elf, &names).ok_or_else(|| {
            AttachError::invalid(format!(
                "the loader chooses the implementation of {function} in {} (ifunc), which has another name",
                path.display()
            ))
        })?;
        if addresses.is_empty() {
            return Err(AttachError::not_found(format!("{} has no function {function}", path.display())));
        }
        let outside = || AttachError::invalid(format!("{function} is not in {}", path.display()));
        let places = addresses.into_iter().map(|address| {
            let offset = elf.file_offset(address, 1).ok_or_else(outside)?;
            Ok(self.call.place(Place::new(path.as_os_str().as_bytes(), offset)?))
        });
        places.collect()
    }
}

/// Returns the addresses of the functions with these names: of exported ones and those of the
/// symbol table. `None` if the loader chooses the implementation of a single one.
fn functions(elf: &Elf, names: &Names<'_>) -> Option<BTreeSet<u64>> {
    let (mut found, mut is_resolved) = (BTreeSet::new(), false);
    let mut each = |name: &[u8], symbol: Symbol| match symbol.kind {
        _ if symbol.address == 0 || !names.matches(name) => {}
        SymbolKind::Function => drop(found.insert(symbol.address)),
        SymbolKind::Resolver => is_resolved = true,
        _ => {}
    };
    if let Names::One(name) = names {
        match elf.exports().and_then(|exports| exports.get(name)) {
            Some(symbol) => each(name.as_bytes(), symbol),
            None => elf.for_each_symbol(each),
        }
        return (!is_resolved).then_some(found);
    }
    elf.for_each_dynamic_symbol(&mut each);
    elf.for_each_symbol(each);
    Some(found)
}
