//! A folder, opened, and a name in it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fchmod, fstat, fstatfs,
    mkdirat, openat, openat2, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Refused, Stream, write_all};

/// Most symbolic links on one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Most names that are tried for a new file.
const ATTEMPTS: usize = 8;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A place in the file system: a folder, held open, and a name in it that is no symbolic link to be
/// followed.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    name: OsString,
    found: Option<Stat>,
    /// The name is a link of procfs, such as `/proc/self/fd/1`, which only the kernel can follow.
    is_magic: bool,
}

/// The way to write to a place.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// A new name.
    New,
    /// A regular file. `mode` is its mode if it belongs to this user.
    Replace { mode: Option<Mode> },
    /// A pipe or a character device.
    Stream,
}

impl Place {
    /// Follows a path, without the links that the rules of this module refuse.
    pub(super) fn resolve(path: &Path) -> io::Result<Place> {
        Walk::new(path)?.resolve()
    }

    /// Follows a path to a folder, creates it with mode `0700` where it is missing, and returns it
    /// opened.
    pub(super) fn make_folder(path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if path.file_name().is_none() {
            return Ok(openat(CWD, path, flags, Mode::empty())?);
        }
        let mut walk = Walk::new(path)?;
        walk.creates = true;
        let place = walk.resolve()?;
        if place.found.is_none() {
            make(&place.folder, &place.name)?;
        }
        Ok(openat(&place.folder, &place.name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Decides how to write here.
    pub(super) fn target(&self) -> io::Result<Target> {
        let Some(found) = &self.found else { return Ok(Target::New) };
        let user = geteuid().as_raw();
        let kind = FileType::from_raw_mode(found.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice) {
            return Err(Refused::kind(kind).into());
        }
        if self.is_magic || kind == FileType::CharacterDevice {
            return Ok(Target::Stream);
        }
        if ![user, 0].contains(&found.st_uid) && is_shared(&fstat(&self.folder)?) {
            return Err(Refused::Owner { owner: found.st_uid }.into());
        }
        let mode = Mode::from_raw_mode(found.st_mode & 0o777);
        match kind {
            FileType::Fifo => Ok(Target::Stream),
            _ => Ok(Target::Replace { mode: (found.st_uid == user).then_some(mode) }),
        }
    }

    /// Opens the pipe or device that is here.
    pub(super) fn stream(&self) -> io::Result<Stream> {
        let follow = if self.is_magic { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | follow;
        let opened = openat(&self.folder, &self.name, flags, Mode::empty()).map_err(|error| match error {
            Errno::NXIO => Refused::NoReader.into(),
            error => io::Error::from(error),
        })?;
        let same = |found: &Stat, opened: Stat| {
            (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino) || self.is_magic
        };
        match &self.found {
            Some(found) if same(found, fstat(&opened)?) => Ok(Stream::new(opened)),
            _ => Err(Refused::Replaced.into()),
        }
    }

    /// Writes a new file and gives it this name.
    pub(super) fn replace(
        &self,
        mode: Option<Mode>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = Beside::create(self.folder.as_fd(), if mode.is_some() { 0o600 } else { 0o666 })?;
        write_all(&new.file, write)?;
        if let Some(mode) = mode {
            fchmod(&new.file, mode)?;
        }
        new.rename(&self.name).map(drop)
    }

    /// Creates a file that only this user can read and write, and gives it this name.
    pub(super) fn create_private(&self) -> io::Result<File> {
        Beside::create(self.folder.as_fd(), 0o600)?.rename(&self.name)
    }

    /// Creates a file in this folder and removes it.
    pub(super) fn try_create(&self) -> io::Result<()> {
        Beside::create(self.folder.as_fd(), 0o600).map(drop)
    }
}

/// A new file under a hidden name, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Beside<'f> {
    folder: rustix::fd::BorrowedFd<'f>,
    name: String,
    pub(super) file: File,
}

impl<'f> Beside<'f> {
    pub(super) fn create(folder: rustix::fd::BorrowedFd<'f>, mode: u32) -> io::Result<Beside<'f>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            // Without the file's own name, which may be as long as a name can be.
            let name = format!(".profile.{:016x}.part", RandomState::new().build_hasher().finish());
            match openat(folder, &name, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => return Ok(Beside { folder, name, file: file.into() }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Gives the file its name and returns it.
    pub(super) fn rename(self, name: &OsStr) -> io::Result<File> {
        renameat(self.folder, &self.name, self.folder, name)?;
        self.file.try_clone()
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing under this name.
        let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
    }
}

/// Follows a path component by component.
struct Walk {
    folder: OwnedFd,
    left: VecDeque<OsString>,
    links: usize,
    /// Missing folders are created.
    creates: bool,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Walk> {
        let mut walk = Walk { folder: start(path)?, left: VecDeque::new(), links: 0, creates: false };
        walk.push(path);
        if walk.left.is_empty() {
            return Err(Refused::kind(FileType::Directory).into());
        }
        walk.skip_plain(path);
        Ok(walk)
    }

    /// Opens the folder at once where no link is on the way.
    fn skip_plain(&mut self, path: &Path) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (Some(parent), true) = (parent, path.file_name().is_some()) else { return };
        // An older kernel, or a filter of system calls, has no `openat2`.
        if let Ok(folder) = openat2(CWD, parent, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            self.folder = folder;
            self.left.drain(..self.left.len() - 1);
        }
    }

    fn push(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.left.push_front(name.to_owned()),
                Component::ParentDir => self.left.push_front("..".into()),
                _ => {}
            }
        }
    }

    fn resolve(mut self) -> io::Result<Place> {
        while let Some(name) = self.left.pop_front() {
            let is_last = self.left.is_empty();
            let opened = match self.open(&name, OFlags::NOFOLLOW) {
                Err(Errno::NOENT) if is_last => return Ok(self.place(name, None, false)),
                Err(Errno::NOENT) if self.creates => {
                    make(&self.folder, &name)?;
                    self.open(&name, OFlags::NOFOLLOW)?
                }
                opened => opened?,
            };
            let found = fstat(&opened)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink => {
                    if let Some(place) = self.link(name, &opened, &found)? {
                        return Ok(place);
                    }
                }
                FileType::Directory if !is_last || name == ".." => self.folder = opened,
                _ if is_last => return Ok(self.place(name, Some(found), false)),
                _ => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        Err(Refused::kind(FileType::Directory).into())
    }

    /// Follows a link, or returns the place of one that only the kernel can follow.
    fn link(&mut self, name: OsString, link: &OwnedFd, found: &Stat) -> io::Result<Option<Place>> {
        let is_last = self.left.is_empty();
        if !may_follow(found.st_uid, geteuid().as_raw(), &fstat(&self.folder)?, is_last) {
            return Err(Refused::Link { owner: found.st_uid }.into());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if fstatfs(link)?.f_type == PROC_SUPER_MAGIC {
            if is_last {
                let found = statat(&self.folder, &name, AtFlags::empty())?;
                let folder = self.folder.try_clone()?;
                return Ok(Some(Place { folder, name, found: Some(found), is_magic: true }));
            }
            self.folder = self.open(&name, OFlags::DIRECTORY)?;
            return Ok(None);
        }
        let target = OsString::from_vec(readlinkat(link, "", Vec::new())?.into_bytes());
        let target = Path::new(&target);
        if target.is_absolute() {
            self.folder = start(target)?;
        }
        self.push(target);
        Ok(None)
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.folder, name, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
    }

    fn place(self, name: OsString, found: Option<Stat>, is_magic: bool) -> Place {
        Place { folder: self.folder, name, found, is_magic }
    }
}

/// Opens the folder that a path is relative to.
fn start(path: &Path) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    Ok(openat(CWD, start, FOLDER, Mode::empty())?)
}

fn make(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match mkdirat(folder, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns `true` if a link of `owner` in `folder` may be followed for `user`.
pub(super) fn may_follow(owner: u32, user: u32, folder: &Stat, is_last: bool) -> bool {
    let is_owners_alone = owner == folder.st_uid && folder.st_mode & 0o022 == 0;
    owner == user || owner == 0 || !is_last && is_owners_alone
}

/// Returns `true` for a folder in which everybody can create files but only their owner can remove
/// them.
fn is_shared(folder: &Stat) -> bool {
    folder.st_mode & 0o1000 != 0 && folder.st_mode & 0o022 != 0
}
