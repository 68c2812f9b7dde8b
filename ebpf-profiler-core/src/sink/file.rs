//! Profiles in files.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Html, Sink, SinkError, Svg, folded};
use crate::files::{self, Refused, Stream};
use crate::profile::Profile;

/// File format of a profile, named by the ending of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `.html`: an interactive flame graph.
    Html,
    /// `.svg`: a static flame graph.
    Svg,
    /// `.folded`: [folded text](folded).
    Folded,
}

impl Format {
    /// Returns the format that the ending of `path` names.
    ///
    /// # Errors
    ///
    /// Fails with [`WriteError::UnknownEnding`] for any ending but those of the variants.
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
    /// Fails if `out` does.
    pub fn write(self, profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
        match self {
            Format::Html => Html::new(profile).write(out),
            Format::Svg => Svg::new(profile).write(out),
            Format::Folded => folded::write(profile, out),
        }
    }
}

impl Profile {
    /// Writes the profile to a file in the [`Format`] that the ending of the path names.
    ///
    /// A profile with several kinds of samples becomes a page with a menu of them, and in the other formats a file for each,
    /// with the name of the kind before the ending: `machine.cpu.folded`, `machine.off-cpu.folded`.
    ///
    /// A regular file is written under a hidden name in the same folder and renamed when it is complete. A file that it
    /// replaces keeps its mode if it belongs to this user. A pipe or a character device is written to.
    ///
    /// # Errors
    ///
    /// Fails if the ending is unknown or the file cannot be written, and then leaves no partial file. A symbolic link of
    /// another user, a file of another user in a folder such as `/tmp`, and a pipe without a reader are refused.
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
        for (path, profile) in parts(path, format, self) {
            files::replace(&path, |out| format.write(&profile, out))
                .map_err(|source| WriteError::Io { path, source })?;
        }
        Ok(())
    }
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
    number: Option<u32>,
    /// The pipe or device for the first profile, open since the check. Its reader would end if it were closed.
    stream: Arc<Mutex<Option<Stream>>>,
}

impl File {
    /// Returns a sink that replaces one file with each profile.
    ///
    /// It checks that the file can be written, by creating and removing an empty file beside it. A pipe is opened and
    /// kept open for the first profile.
    ///
    /// # Errors
    ///
    /// As for [`Profile::write`].
    pub fn new(path: impl Into<PathBuf>) -> Result<File, WriteError> {
        let path = path.into();
        Format::of(&path)?;
        match files::check(&path) {
            Ok(stream) => Ok(File { path, number: None, stream: Arc::new(Mutex::new(stream)) }),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }

    /// Returns a sink that writes a file for each profile, with a number from 1 on before the ending of the path.
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
        let path = self.next_path();
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stream {
            Some(stream) => {
                let format = Format::of(&path)?;
                stream
                    .write_with(|out| format.write(profile, out))
                    .map_err(|source| WriteError::Io { path, source })
            }
            None => profile.write(path),
        }
    }

    fn next_path(&mut self) -> PathBuf {
        let Some(number) = &mut self.number else { return self.path.clone() };
        *number += 1;
        let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, ending) = (part(self.path.file_stem()), part(self.path.extension()));
        self.path.with_file_name(format!("{stem}-{number:04}.{ending}"))
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
            WriteError::UnknownEnding { path } => write!(
                f,
                "the ending of {} names no format; use .html, .svg or .folded (.pb.gz is written by ebpf-profiler-otlp)",
                path.display()
            ),
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
    if profile.kinds().len() < 2 || format == Format::Html {
        return vec![(path.into(), profile.clone())];
    }
    profile.by_kind().map(|profile| (kind_path(path, profile.kind().name()), profile)).collect()
}

/// Returns the path of the file for a kind of samples: its name before the ending. Names come from options, and only
/// characters that are safe in file names are kept.
fn kind_path(path: &Path, kind: &str) -> PathBuf {
    let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = (part(path.file_stem()), part(path.extension()));
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let kind: String = kind.chars().map(|it| if is_safe(it) { it } else { '-' }).take(100).collect();
    path.with_file_name(format!("{stem}.{kind}.{ending}"))
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
