//! Opens the files that users name: profiles, recordings, spools.
//!
//! The profiler runs as root and its users name paths in `/tmp`. Every file is therefore opened by
//! these rules:
//!
//! | on the path | rule |
//! | --- | --- |
//! | symbolic link, last component | followed if it belongs to this user or to root |
//! | symbolic link, other component | also followed if it belongs to the owner of its folder and nobody else can write there |
//! | regular file | replaced by `rename`, never written through; its mode stays if it belongs to this user |
//! | regular file or pipe of another user in a sticky folder that all can write | refused |
//! | pipe | written without blocking: refused without a reader, an error after 10 s without progress |
//! | character device | written |
//! | block device, socket, folder | refused |
//!
//! The checks are made on file descriptors: `openat2` opens the folder where no link is on the way,
//! otherwise, and on kernels before 5.6, each component is opened alone with `O_NOFOLLOW`. What is
//! created or replaced is named relative to the folder's descriptor, so a folder that is renamed or
//! replaced meanwhile changes nothing.
//!
//! This module is for the crates of this workspace; its interface may change in any release.

mod folder;

mod place;

mod refused;

mod stream;

pub(crate) mod target;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

pub use folder::Folder;
pub use refused::Refused;
pub use stream::Stream;

use place::{Place, Target};

/// An output that [`create_private`] opened.
#[derive(Debug)]
pub enum Output {
    /// A new regular file.
    File(File),
    /// A pipe or a character device.
    Stream(Stream),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a file beside `path` and renames it, so that other programs see all of it or nothing.
///
/// A replaced file of this user keeps its mode; a new one has `0666` without the bits of the umask.
/// A pipe or a character device is written to.
///
/// # Errors
///
/// Fails with [`Refused`] as its source where a rule of this module forbids it, and if the file
/// cannot be written. A failed write leaves no file behind.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let place = Place::resolve(path)?;
    match place.target()? {
        Target::New => place.replace(None, write),
        Target::Replace { mode } => place.replace(mode, write),
        Target::Stream => write_all(place.stream()?, write),
    }
}

/// Checks that [`replace`] can write to `path`, without changing a file that exists.
///
/// Returns the opened stream of a pipe or a character device: a reader of a pipe ends when its last
/// writer closes it, so this is the stream to write to.
///
/// # Errors
///
/// As for [`replace`].
pub fn check(path: &Path) -> io::Result<Option<Stream>> {
    let place = Place::resolve(path)?;
    match place.target()? {
        Target::Stream => place.stream().map(Some),
        Target::New | Target::Replace { .. } => place.try_create().map(|()| None),
    }
}

/// Creates a file with mode `0600` and renames it to `path` at once, so that what is written to it
/// survives a program that is killed.
///
/// # Errors
///
/// As for [`replace`].
pub fn create_private(path: &Path) -> io::Result<Output> {
    let place = Place::resolve(path)?;
    match place.target()? {
        Target::New | Target::Replace { .. } => place.create_private().map(Output::File),
        Target::Stream => place.stream().map(Output::Stream),
    }
}

/// Opens a regular file for reading, without waiting for a pipe and without opening a device.
///
/// # Errors
///
/// Fails with [`Refused`] as its source if it is no regular file, and if it cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let expected = fs::metadata(path)?;
    regular(&expected)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let opened = file.metadata()?;
    regular(&opened)?;
    if (opened.dev(), opened.ino()) != (expected.dev(), expected.ino()) {
        return Err(Refused::Replaced.into());
    }
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// As for [`open`], and with [`Refused::TooLarge`] as its source if the file is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_bounded(&open(path)?, limit)
}

fn regular(metadata: &fs::Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(Refused::kind(rustix::fs::FileType::from_raw_mode(metadata.mode())).into()),
    }
}

/// Reads up to `limit` bytes; the size may have changed since the file was opened.
fn read_bounded(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(Refused::TooLarge { limit }.into()),
        false => Ok(bytes),
    }
}

fn write_all(out: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let written = write(&mut out).and_then(|()| out.flush());
    if written.is_err() {
        // Dropped as it is, a buffer tries once more.
        drop(out.into_parts());
    }
    written
}
