//! Places of probes, and the files and names in which they are searched.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::AttachError;
use super::operand::Operand;
use super::pattern::Pattern;
use crate::elf::Elf;

/// A place at which the kernel sets a probe.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// Path of a file, or name of a function of the kernel.
    pub(super) target: CString,
    /// Offset in the file or function.
    pub(super) offset: u64,
    /// Offset of a semaphore in the file; 0 for none.
    pub(super) semaphore: u64,
    /// Bits of the cookie beside the number of the kind of samples.
    pub(super) cookie: u64,
}

/// Maximum number of places of a trigger, and of files that are searched for them. Each place takes
/// a descriptor, and some milliseconds to attach.
pub(super) const MAX_PLACES: usize = 256;

impl Place {
    /// Returns a place without value and semaphore.
    pub(super) fn new(target: &[u8], offset: u64) -> Result<Place, AttachError> {
        let target = CString::new(target).map_err(|error| AttachError::invalid(error.to_string()))?;
        Ok(Place { target, offset, semaphore: 0, cookie: Operand::ONE.cookie() })
    }

    /// Returns the error of an event that cannot be opened.
    pub(super) fn failed(&self, error: io::Error) -> io::Error {
        let (target, offset) = (self.target.to_string_lossy(), self.offset);
        io::Error::new(error.kind(), format!("no probe at {target}+{offset:#x}: {error}"))
    }
}

/// A name, or a pattern of names.
pub(super) enum Names<'a> {
    One(&'a str),
    All(Pattern),
}

impl Names<'_> {
    pub(super) fn new(text: &str) -> Result<Names<'_>, AttachError> {
        if !Pattern::is_one(text) {
            return Ok(Names::One(text));
        }
        let failed = |what| AttachError::invalid(format!("the pattern {text:?} cannot be used: {what}"));
        Pattern::parse(text.as_bytes()).map(Names::All).map_err(failed)
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Names::One(text) => text.as_bytes() == name,
            Names::All(pattern) => pattern.matches(name),
        }
    }
}

/// Searches the files that `file` names for places. Files of a pattern that do not have any are
/// skipped.
pub(super) fn search(
    file: &Path,
    mut places: impl FnMut(&Elf, &Path) -> Result<Vec<Place>, AttachError>,
) -> Result<Vec<Place>, AttachError> {
    let paths = files(file)?;
    let (mut found, mut seen, mut failed) = (Vec::new(), HashSet::new(), None);
    for path in &paths {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let searched = match opened {
            Ok((metadata, _)) if !seen.insert((metadata.dev(), metadata.ino())) => continue,
            Ok((_, file)) => Elf::open(file)
                .map_err(|error| AttachError::invalid(format!("{} cannot be read: {error}", path.display()))),
            Err(error) => Err(AttachError::System {
                what: format!("{} cannot be opened, {LATER}", path.display()),
                error,
            }),
        };
        match searched.and_then(|elf| places(&elf, path)) {
            Ok(places) => found.extend(places),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if paths.len() == 1 => Err(error),
        _ if found.is_empty() => {
            Err(AttachError::not_found(format!("none of {} files has a match", seen.len())))
        }
        _ => bounded(found, MAX_PLACES, "places"),
    }
}

/// The condition under which probes of a file fire.
const LATER: &str = "the file has to exist when the profiler starts; programs that load it later are sampled";

/// Returns the paths of a file, of a library by its name alone, or of all files that match a
/// pattern in the last part.
fn files(file: &Path) -> Result<Vec<PathBuf>, AttachError> {
    let is_path = file.components().count() > 1;
    let name = file.file_name().unwrap_or_default();
    let is_pattern = Pattern::is_one(&name.to_string_lossy()) && !(is_path && file.exists());
    if !is_pattern {
        return if is_path { Ok(vec![file.into()]) } else { library(file).map(|path| vec![path]) };
    }
    let name = name.to_string_lossy();
    let names = Names::new(&name)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let folders: Vec<&Path> = if is_path { vec![folder] } else { FOLDERS.map(Path::new).to_vec() };
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_match = |name: &std::ffi::OsStr| names.matches(name.as_bytes());
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| is_match(&entry.file_name())).map(|entry| entry.path()).collect();
    found.retain(|path| path.is_file());
    found.sort_unstable();
    if found.is_empty() {
        return Err(AttachError::not_found(format!("no file matches {}; {LATER}", file.display())));
    }
    bounded(found, MAX_PLACES, "files")
}

/// Returns `found` unless it has more than `most` elements.
pub(super) fn bounded<T>(found: Vec<T>, most: usize, what: &'static str) -> Result<Vec<T>, AttachError> {
    if found.len() <= most {
        return Ok(found);
    }
    Err(AttachError::TooMany { what, count: found.len(), limit: most })
}

/// Folders of libraries.
const FOLDERS: [&str; 7] = [
    if cfg!(target_arch = "aarch64") { "/lib/aarch64-linux-gnu" } else { "/lib/x86_64-linux-gnu" },
    if cfg!(target_arch = "aarch64") { "/usr/lib/aarch64-linux-gnu" } else { "/usr/lib/x86_64-linux-gnu" },
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// Returns the path of a library by its name.
fn library(name: &Path) -> Result<PathBuf, AttachError> {
    let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let found = paths.find(|path| path.is_file());
    found.ok_or_else(|| {
        AttachError::not_found(format!(
            "no library {} in the folders of this system; give its path",
            name.display()
        ))
    })
}
