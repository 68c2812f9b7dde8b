//! Files in a directory that other users may reach.
//!
//! | access | rule |
//! | --- | --- |
//! | directory | no symlink; owned by us or by root, without write permission for others; or sticky and owned by us |
//! | read | a regular file of ours with one link, up to a number of bytes; never a symlink, FIFO or device |
//! | create | a new file with mode 0600; an existing name is an error |
//!
//! The directory stays open and names are resolved through `/proc/self/fd`, so a directory that is renamed or replaced
//! later cannot redirect an access.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open directory whose files only we write.
#[derive(Debug)]
pub(super) struct Directory {
    handle: File,
    user: u32,
}

impl Directory {
    /// Opens a directory, creating it with mode 0700 if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if the path is a symlink or if another user can write to the directory.
    pub(super) fn open(path: &Path) -> io::Result<Directory> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // A trailing slash would follow a symlink.
        let path: PathBuf = path.components().collect();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let handle = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let user = effective_user()?;
        check_directory(&handle.metadata()?, user)?;
        Ok(Directory { handle, user })
    }

    /// Returns the names in the directory.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = OsString> + use<>> {
        Ok(fs::read_dir(self.path(""))?.filter_map(|entry| Some(entry.ok()?.file_name())))
    }

    /// Returns the size of a regular file of ours.
    pub(super) fn size(&self, name: &str) -> io::Result<u64> {
        let metadata = fs::symlink_metadata(self.path(name))?;
        self.check_file(&metadata)?;
        Ok(metadata.len())
    }

    /// Reads a regular file of ours that has at most `limit` bytes.
    pub(super) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path(name))?;
        self.check_file(&file.metadata()?)?;
        read_at_most(file, limit)
    }

    /// Creates a file with mode 0600 and writes it to disk.
    pub(super) fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(self.path(name))?;
        file.write_all(content)?;
        file.sync_data()
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.handle.as_raw_fd()).into()
    }

    fn check_file(&self, file: &Metadata) -> io::Result<()> {
        match file.file_type().is_file() && file.uid() == self.user && file.nlink() == 1 {
            true => Ok(()),
            false => Err(denied("it is no regular file of this user")),
        }
    }
}

/// Reads a regular file of any owner that has at most `limit` bytes; symlinks are followed, FIFOs are not waited for.
#[cfg(feature = "tls")]
pub(super) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => read_at_most(file, limit),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

fn read_at_most(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than the limit distinguishes a file that is too large.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    match content.len() as u64 <= limit {
        true => Ok(content),
        false => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
    }
}

fn check_directory(directory: &Metadata, user: u32) -> io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let is_ours = directory.uid() == user;
    if !is_ours && directory.uid() != 0 {
        return Err(denied("it belongs to another user"));
    }
    match directory.mode() & WRITABLE_BY_OTHERS == 0 || (is_ours && directory.mode() & STICKY != 0) {
        true => Ok(()),
        false => Err(denied("other users can write to it; remove that permission with chmod go-w")),
    }
}

fn denied(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, reason)
}

/// Returns the user id that new files get: the fourth number of `Uid:` in `/proc/self/status`.
///
/// The owner of `/proc/self` is root in a program with file capabilities.
fn effective_user() -> io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let id = ids.and_then(|ids| ids.split_ascii_whitespace().nth(3)?.parse().ok());
    id.ok_or(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::export::testing::Folder;

    #[test]
    fn directory_that_others_can_write_is_refused() {
        let folder = Folder::new("files-mode");
        fs::create_dir(&folder.0).unwrap();
        for (mode, is_accepted) in
            [(0o700, true), (0o755, true), (0o775, false), (0o777, false), (0o1777, true)]
        {
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
            let opened = Directory::open(&folder.0);
            assert_eq!(opened.is_ok(), is_accepted, "{mode:o}: {opened:?}");
        }
    }

    #[test]
    fn symlink_to_a_directory_is_refused() {
        let folder = Folder::new("files-link");
        fs::create_dir_all(folder.0.join("target")).unwrap();
        symlink("target", folder.0.join("link")).unwrap();
        assert!(Directory::open(&folder.0.join("link/")).is_err());
        assert!(Directory::open(&folder.0.join("target")).is_ok());
    }

    #[test]
    fn files_that_are_not_plain_are_refused() {
        let folder = Folder::new("files-kinds");
        let directory = Directory::open(&folder.0).unwrap();
        directory.create("file", b"12345").unwrap();
        assert_eq!(fs::metadata(folder.0.join("file")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(directory.read("file", 5).unwrap(), b"12345");
        assert_eq!(directory.read("file", 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(directory.create("file", b"").unwrap_err().kind(), ErrorKind::AlreadyExists);

        symlink("file", folder.0.join("link")).unwrap();
        fs::hard_link(folder.0.join("file"), folder.0.join("second")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(folder.0.join("fifo")).status().unwrap().success());
        fs::create_dir(folder.0.join("directory")).unwrap();
        for name in ["link", "file", "second", "fifo", "directory", "missing"] {
            assert!(directory.size(name).is_err() && directory.read(name, 5).is_err(), "{name}");
        }
        assert!(directory.create("link", b"").is_err());
    }

    #[test]
    fn renamed_directory_is_still_the_one_that_was_opened() {
        let folder = Folder::new("files-renamed");
        let directory = Directory::open(&folder.0.join("first")).unwrap();
        fs::rename(folder.0.join("first"), folder.0.join("second")).unwrap();
        fs::create_dir(folder.0.join("first")).unwrap();
        directory.create("file", b"1").unwrap();
        assert!(folder.0.join("second/file").exists());
    }
}
