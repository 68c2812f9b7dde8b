//! Profiles in files.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::format::endings;
use super::{Format, Sink, SinkError};
use crate::files::{self, Refused, Stream};
use crate::profile::Profile;

impl Profile {
    /// Writes the profile to a file in the [`Format`] that the ending of the path names.
    ///
    /// Some formats hold several kinds of samples. The others get a file for each, with the name of
    /// the kind before the ending: `machine.cpu.folded`, `machine.off-cpu.folded`.
    ///
    /// A regular file is written under a hidden name in the same folder and renamed when it is
    /// complete. A file that it replaces keeps its mode if it belongs to this user. A pipe or a
    /// character device is written to.
    ///
    /// # Errors
    ///
    /// Fails if the ending is unknown or the file cannot be written, and then leaves no partial
    /// file. A symbolic link of another user, a file of another user in a folder such as
    /// `/tmp`, and a pipe without a reader are refused.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let profile = ebpf_profiler_core::testing::profile("cat;main 1");
    /// profile.write("machine.html")?; // or another ending of Format
    /// # Ok::<(), ebpf_profiler_core::sink::WriteError>(())
    /// ```
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        let path = path.as_ref();
        write(self, path, Format::of(path)?)
    }
}

fn write(profile: &Profile, path: &Path, format: Format) -> Result<(), WriteError> {
    for (path, profile) in parts(path, format, profile) {
        files::replace(&path, |out| format.write(&profile, out))
            .map_err(|source| WriteError::Io { path, source })?;
    }
    Ok(())
}

/// A sink that writes each profile to a file.
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
    format: Format,
    number: Option<u32>,
    /// The pipe or device for the first profile, open since the check. Its reader would end if it
    /// were closed.
    stream: Arc<Mutex<Option<Stream>>>,
}

impl File {
    /// Returns a sink that replaces one file with each profile.
    ///
    /// It checks that the file can be written, by creating and removing an empty file beside it. A
    /// pipe is opened and kept open for the first profile.
    ///
    /// # Errors
    ///
    /// As for [`Profile::write`].
    pub fn new(path: impl Into<PathBuf>) -> Result<File, WriteError> {
        let path = path.into();
        let format = Format::of(&path)?;
        match files::check(&path) {
            Ok(stream) => Ok(File { path, format, number: None, stream: Arc::new(Mutex::new(stream)) }),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }

    /// Returns a sink that writes a file for each profile, with a number from 1 on before the
    /// ending of the path.
    ///
    /// # Errors
    ///
    /// As for [`new`](File::new).
    pub fn numbered(path: impl Into<PathBuf>) -> Result<File, WriteError> {
        Ok(File { number: Some(0), stream: Arc::default(), ..File::new(path)? })
    }

    /// Writes a profile, as [`Sink::take`] does.
    ///
    /// # Errors
    ///
    /// As for [`Profile::write`].
    pub fn write(&mut self, profile: &Profile) -> Result<(), WriteError> {
        let (path, format) = (self.next_path(), self.format);
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stream {
            Some(stream) => stream
                .write_with(|out| format.write(profile, out))
                .map_err(|source| WriteError::Io { path, source }),
            None => write(profile, &path, format),
        }
    }

    fn next_path(&mut self) -> PathBuf {
        let Some(number) = &mut self.number else { return self.path.clone() };
        *number += 1;
        with_part(&self.path, self.format, &format!("-{number:04}"))
    }
}

impl Sink for File {
    fn take(&mut self, profile: &Profile) -> Result<(), SinkError> {
        Ok(self.write(profile)?)
    }
}

/// An error of writing a profile to a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The ending of the path names no format.
    UnknownEnding {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be written.
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system, or the rule that refused the file.
        source: io::Error,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::UnknownEnding { path } => {
                write!(f, "the ending of {} names no format; use {}", path.display(), endings())
            }
            WriteError::Io { path, source } => {
                write!(f, "cannot write {}: {source}; {}", path.display(), remedy(source))
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

/// Returns the files of a profile: one for each kind of samples, unless the format holds several.
fn parts(path: &Path, format: Format, profile: &Profile) -> Vec<(PathBuf, Profile)> {
    if profile.kinds().len() < 2 || format.holds_all_kinds() {
        return vec![(path.into(), profile.clone())];
    }
    profile.by_kind().map(|profile| (kind_path(path, format, profile.kind().name()), profile)).collect()
}

/// Returns the path of the file for a kind of samples: its name before the ending. Names come from
/// options, and only characters that are safe in file names are kept.
fn kind_path(path: &Path, format: Format, kind: &str) -> PathBuf {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let kind: String = kind.chars().map(|it| if is_safe(it) { it } else { '-' }).take(100).collect();
    with_part(path, format, &format!(".{kind}"))
}

/// Returns the path with `part` before the ending of its format.
fn with_part(path: &Path, format: Format, part: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.len().saturating_sub(format.ending().len() + 1);
    let (stem, ending) = name.split_at_checked(stem).unwrap_or((&name, ""));
    path.with_file_name(format!("{stem}{part}{ending}"))
}

fn remedy(error: &io::Error) -> &'static str {
    if let Some(refused) = Refused::of(error) {
        return refused.remedy();
    }
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "make its folder first, or choose another one"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room, or choose another folder",
        _ => "choose another path",
    }
}
