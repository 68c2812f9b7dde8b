//! Static probes of programs and libraries (USDT).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::AttachError;
use super::notes::{Note, Notes};
use super::operand::Operand;
use super::place::{self, Names, Place};
use crate::elf::{Arch, Elf, Symbol, SymbolKind};
use crate::profile::{SampleKind, Unit};

/// The trigger of a static probe (USDT), which the authors of a program or library put into it: in
/// all processes that have the file mapped, now or later.
///
/// A probe can have several locations; all are sampled. Probes with a semaphore, which programs
/// compile to a check that is cheap while no one looks, are enabled as long as the profiler runs.
/// `readelf -n FILE` lists the probes of a file.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Usdt};
/// use std::time::Duration;
///
/// let exceptions = Usdt::new("libstdc++.so.6", "libstdcxx", "throw");
/// let profiler = Profiler::builder()
///     .on(exceptions)
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// println!("{} exceptions", profiler.run_for(Duration::from_secs(10))?.total());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("SDT", "stapsdt", "dtrace"))]
#[derive(Clone, Debug, PartialEq)]
pub struct Usdt {
    pub(super) file: PathBuf,
    pub(super) provider: String,
    pub(super) name: String,
    pub(super) argument: Option<u32>,
}

impl Usdt {
    /// Returns the trigger of a probe. `file` is a path, or the name of a library in a folder of
    /// this system. The last part of the file, the provider and the name can be patterns, with
    /// `*`, `?` and `[a-z]`; at most 256 locations are sampled.
    pub fn new(file: impl Into<PathBuf>, provider: impl Into<String>, name: impl Into<String>) -> Usdt {
        Usdt { file: file.into(), provider: provider.into(), name: name.into(), argument: None }
    }

    /// Takes argument `index` of the probe, from 0, as the value: an integer or pointer. Negative
    /// ones count as 0, as those in memory that is not present.
    #[must_use = "returns the changed trigger"]
    pub fn argument(self, index: u32) -> Usdt {
        Usdt { argument: Some(index), ..self }
    }

    pub(super) fn kind(&self) -> SampleKind {
        SampleKind::new(super::Trigger::from(self.clone()).to_string(), Unit::Count)
    }

    /// Returns its locations.
    pub(super) fn places(&self) -> Result<Vec<Place>, AttachError> {
        place::search(&self.file, |elf, path| self.places_in(elf, path))
    }

    fn places_in(&self, elf: &Elf, path: &Path) -> Result<Vec<Place>, AttachError> {
        if elf.arch() != Arch::HOST {
            return Err(AttachError::invalid(format!("{} is for another architecture", path.display())));
        }
        let (provider, name) = (Names::new(&self.provider)?, Names::new(&self.name)?);
        let notes = Notes::of(elf);
        let mut places = Vec::<Place>::new();
        for note in notes.probes().filter(|note| provider.matches(note.provider) && name.matches(note.name)) {
            let place = self.place(elf, path, &note)?;
            if !places.iter().any(|known| known.offset == place.offset) {
                places.push(place);
            }
        }
        if places.is_empty() {
            let (path, provider, name) = (path.display(), &self.provider, &self.name);
            return Err(AttachError::not_found(format!(
                "{path} has no probe {provider}:{name}; list its probes: readelf -n {path}"
            )));
        }
        Ok(places)
    }

    fn place(&self, elf: &Elf, path: &Path, note: &Note<'_>) -> Result<Place, AttachError> {
        let name = String::from_utf8_lossy(note.name);
        let offset = |address| {
            elf.file_offset(address, 1)
                .ok_or_else(|| AttachError::invalid(format!("{name} is not in {}", path.display())))
        };
        let place = Place::new(path.as_os_str().as_bytes(), offset(note.location)?)?;
        let semaphore = if note.semaphore == 0 { 0 } else { offset(note.semaphore)? };
        if u32::try_from(semaphore).is_err() {
            return Err(AttachError::invalid(format!(
                "the semaphore of {name} is beyond 4 GiB of {}",
                path.display()
            )));
        }
        let Some(index) = self.argument else { return Ok(Place { semaphore, ..place }) };
        if elf.arch() != Arch::X86_64 {
            return Err(AttachError::unsupported("arguments of static probes are read on x86_64 only"));
        }
        let mut arguments = note.arguments.split_ascii_whitespace();
        let text = arguments.nth(index as usize).ok_or_else(|| {
            let count = note.arguments.split_ascii_whitespace().count();
            AttachError::invalid(format!("{name} has {count} arguments at {:#x}, from arg0", note.location))
        })?;
        let distance =
            |symbol: &str| Some(variable(elf, symbol)?.address.wrapping_sub(note.location).cast_signed());
        let operand = Operand::parse(text, distance).ok_or_else(|| {
            AttachError::invalid(format!("argument {index} of {name} cannot be read: {text:?} is no integer"))
        })?;
        Ok(Place { semaphore, cookie: operand.cookie(), ..place })
    }
}

/// Returns the variable with this name.
fn variable(elf: &Elf, name: &str) -> Option<Symbol> {
    let mut found = None;
    let mut each = |bytes: &[u8], symbol: Symbol| {
        if bytes == name.as_bytes() && symbol.kind == SymbolKind::Object {
            found = Some(symbol);
        }
    };
    elf.for_each_dynamic_symbol(&mut each);
    elf.for_each_symbol(&mut each);
    found
}
