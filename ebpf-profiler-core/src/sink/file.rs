//! Profiles in files.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Html, Sink, SinkError, Svg, folded};
use crate::profile::Profile;

/// What a file holds; the ending of its path says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `.html`: an interactive flame graph.
    Html,
    /// `.svg`: a flame graph that stands still.
    Svg,
    /// `.folded`: [folded text](folded).
    Folded,
}

impl Format {
    /// The format for a path, by its ending.
    ///
    /// # Errors
    ///
    /// [`WriteError::UnknownEnding`] when it is none of those known here.
    pub fn of(path: impl AsRef<Path>) -> Result<Format, WriteError> {
        let path = path.as_ref();
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("html") => Ok(Format::Html),
            Some("svg") => Ok(Format::Svg),
            Some("folded") => Ok(Format::Folded),
            _ => Err(WriteError::UnknownEnding { path: path.into() }),
        }
    }

    /// Writes the profile in this format.
    ///
    /// # Errors
    ///
    /// When `out` can't take it.
    pub fn write(self, profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
        match self {
            Format::Html => Html::new(profile).write(out),
            Format::Svg => Svg::new(profile).write(out),
            Format::Folded => folded::write(profile, out),
        }
    }
}

impl Profile {
    /// Writes it to a file, in the [`Format`] that the ending of the path names.
    ///
    /// The file appears under its name when it is complete; one that was there before is replaced then. A pipe or a
    /// device is written to.
    ///
    /// # Errors
    ///
    /// When the ending is unknown or the file can't be written; nothing half-written stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let profile = ebpf_profiler_core::testing::profile("cat;main 1");
    /// profile.write("machine.html")?; // .svg, .folded by their ending
    /// # Ok::<(), ebpf_profiler_core::sink::WriteError>(())
    /// ```
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        let path = path.as_ref();
        let format = Format::of(path)?;
        replace(path, |out| format.write(self, out))
            .map_err(|source| WriteError::Io { path: path.into(), source })
    }
}

/// Writes each profile that it takes to a file.
///
/// # Examples
///
/// ```no_run
/// use ebpf_profiler_core::sink::File;
///
/// let latest = File::new("machine.html")?; // the latest profile
/// let all = File::numbered("machine.html")?; // machine-0001.html, machine-0002.html, ...
/// # Ok::<(), ebpf_profiler_core::sink::WriteError>(())
/// ```
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    number: Option<u32>,
}

impl File {
    /// A file that holds the latest profile.
    ///
    /// Whether it can be written is found out here, not when there is a profile to lose: an empty file appears
    /// beside it for a moment.
    ///
    /// # Errors
    ///
    /// When the ending of the path is unknown, or no file can be written there.
    pub fn new(path: impl Into<PathBuf>) -> Result<File, WriteError> {
        let path = path.into();
        Format::of(&path)?;
        match attempt(&path) {
            Ok(()) => Ok(File { path, number: None }),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }

    /// A file for each profile: a number from 1 on stands before the ending of the path.
    ///
    /// # Errors
    ///
    /// As for [`new`](File::new).
    pub fn numbered(path: impl Into<PathBuf>) -> Result<File, WriteError> {
        Ok(File { number: Some(0), ..File::new(path)? })
    }

    fn next_path(&mut self) -> PathBuf {
        let Some(number) = &mut self.number else { return self.path.clone() };
        *number += 1;
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, ending) = (part(self.path.file_stem()), part(self.path.extension()));
        self.path.with_file_name(format!("{stem}-{number:04}.{ending}"))
    }
}

impl Sink for File {
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        Ok(profile.write(self.next_path())?)
    }
}

/// Why a profile is not in a file now.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The ending of the path names no format.
    UnknownEnding {
        /// The path.
        path: PathBuf,
    },
    /// The file can't be written.
    Io {
        /// The path.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::UnknownEnding { path } => write!(
                f,
                "the ending of {} names no format; use .html, .svg or .folded (.pb.gz is written by ebpf-profiler-otlp)",
                path.display()
            ),
            WriteError::Io { path, source } => {
                write!(f, "cannot write {}: {source}; {}", path.display(), remedy(source.kind()))
            }
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WriteError::UnknownEnding { .. } => None,
            WriteError::Io { source, .. } => Some(source),
        }
    }
}

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "make its folder first, or choose another one"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room, or choose another folder",
        io::ErrorKind::IsADirectory => "it is a folder: choose another name",
        _ => "choose another path",
    }
}

/// Writes beside the file and renames, so that it is seen complete or not at all.
fn replace(path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    if is_no_file(path) {
        return write_to(fs::OpenOptions::new().write(true).open(path)?, write);
    }
    // What a link leads to is replaced, and the link stays.
    let path = &path.canonicalize().unwrap_or_else(|_| path.into());
    let beside = beside(path);
    let written = write_new(&beside, write).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of it may never have been made; the first error is the one that counts.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Goes as far as one can without touching what is there.
fn attempt(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_no_file(path) {
        return Ok(());
    }
    let path = &path.canonicalize().unwrap_or_else(|_| path.into());
    let beside = beside(path);
    write_new(&beside, |_| Ok(()))?;
    fs::remove_file(&beside)
}

fn write_new(path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    write_to(fs::OpenOptions::new().write(true).create_new(true).open(path)?, write)
}

fn write_to(file: fs::File, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// Whether a pipe or a device is there, which can only be written to.
fn is_no_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// A hidden name in the same folder that no other writer uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Without the file's own name, which may be as long as a name can be.
    path.with_file_name(format!(".profile.{}-{number}.part", std::process::id()))
}
