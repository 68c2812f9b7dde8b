//! A folder of this user alone.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::process::geteuid;

use super::place::{Beside, Place};
use super::{Refused, read_bounded};

/// A folder that belongs to this user and that nobody else can write, held open.
///
/// It reads and writes regular files with mode `0600` that belong to this user and have one name.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::internal::files::Folder;
///
/// let path = std::env::temp_dir().join(format!("spool-{}", std::process::id()));
/// let folder = Folder::private(&path)?;
/// folder.write("1.otlp".as_ref(), b"message")?;
/// assert_eq!(folder.read("1.otlp".as_ref(), 100)?, b"message");
/// folder.remove("1.otlp".as_ref())?;
/// # std::fs::remove_dir(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder. Missing folders on the path are created with mode `0700`.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`] as its source if the folder belongs to another user, or others can
    /// write it, and if it cannot be created or opened.
    pub fn private(path: &Path) -> io::Result<Folder> {
        let folder = Place::make_folder(path)?;
        let found = fstat(&folder)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(Refused::Owner { owner: found.st_uid }.into());
        }
        match found.st_mode & 0o022 {
            0 => Ok(Folder(folder)),
            _ => Err(Refused::Writable.into()),
        }
    }

    /// Returns the names in the folder, in no order.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let entries = Dir::read_from(&self.0)?;
        let name = |entry: rustix::fs::DirEntry| OsString::from_vec(entry.file_name().to_bytes().to_vec());
        let is_entry = |name: &io::Result<OsString>| !name.as_ref().is_ok_and(|n| n == "." || n == "..");
        Ok(entries.map(move |entry| entry.map(name).map_err(io::Error::from)).filter(is_entry))
    }

    /// Returns the size of a file in bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`] as its source if it is no regular file, belongs to another user or
    /// has further names, and if it does not exist.
    pub fn size(&self, name: &OsStr) -> io::Result<u64> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        own(&found)?;
        Ok(found.st_size as u64)
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// As for [`size`](Folder::size), with [`Refused::TooLarge`] as its source if it is larger, and
    /// if it cannot be read.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        self.size(name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty())?;
        own(&fstat(&file)?)?;
        read_bounded(&File::from(file), limit)
    }

    /// Writes a file under a hidden name, brings it to the disk, and renames it: after a crash it
    /// is whole or not there.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written; then nothing of it is left.
    pub fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let new = Beside::create(self.0.as_fd(), 0o600)?;
        (&new.file).write_all(bytes)?;
        new.file.sync_data()?;
        new.rename(name).map(drop)
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    ///
    /// Fails if it does not exist or cannot be removed.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Returns `true` for the name of a file that [`write`](Folder::write) left behind when the
    /// program was killed.
    pub fn is_leftover(name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        name.starts_with(b".profile.") && name.ends_with(b".part")
    }
}

/// Checks that a file is regular, belongs to this user and has one name.
fn own(found: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if found.st_uid != geteuid().as_raw() => {
            Err(Refused::Owner { owner: found.st_uid }.into())
        }
        FileType::RegularFile if found.st_nlink > 1 => Err(Refused::HardLinks.into()),
        FileType::RegularFile => Ok(()),
        kind => Err(Refused::kind(kind).into()),
    }
}
