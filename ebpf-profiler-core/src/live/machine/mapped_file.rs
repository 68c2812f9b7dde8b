//! The file behind a mapping of a process.

use std::fs::{self, File};
use std::io::{self, Cursor};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use procfs::process::{MMapPath, Process};
use rustix::fs::{Mode, OFlags, Stat};

use super::access::Access;
use super::helpers::Helpers;
use super::inode;
use super::other_thread;
use super::served::is_served;
use crate::elf::{Elf, ReadAt};
use crate::files::target::{Links, TargetFile};
use crate::process::Opener;
use crate::sample::{FileId, MapEvent};

/// The file behind a mapping.
pub(super) struct MappedFile {
    mapping: Arc<Mapping>,
    access: Access,
    helpers: Helpers,
    /// Kept open from the first time on: it may be deleted or replaced before its names are read.
    held: Mutex<Option<HeldFile>>,
}

/// A mapping whose file is opened.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) pid: u32,
    pub(super) range: (u64, u64),
    pub(super) file: FileId,
    pub(super) path: Arc<str>,
    /// Opens files of file systems that other programs or machines serve.
    pub(super) any_file_system: bool,
    /// Set once a file that only root may write was found; no other is opened from then on.
    pub(super) is_proven: OnceLock<()>,
}

/// A file that stays open.
#[derive(Debug)]
struct HeldFile(File);

/// Files that stay open at most, before the limit of this process is known. Further ones can be opened only as long as their
/// process maps them, or their path leads to them.
const DEFAULT_HELD: usize = 256;

static MAX_HELD: AtomicUsize = AtomicUsize::new(DEFAULT_HELD);

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of files that stay open at most.
pub(in crate::live) fn set_max_held(files: usize) {
    MAX_HELD.store(files, Ordering::Relaxed);
}

impl HeldFile {
    /// Keeps a file open if there is room. Those whose path leads to them get half of the room.
    fn new(file: &File, is_reachable: bool) -> Option<HeldFile> {
        let most = MAX_HELD.load(Ordering::Relaxed) >> u32::from(is_reachable);
        if HELD.fetch_add(1, Ordering::Relaxed) < most
            && let Ok(file) = file.try_clone()
        {
            return Some(HeldFile(file));
        }
        HELD.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MappedFile {
    pub(super) fn new(
        pid: u32,
        mapping: &MapEvent,
        access: Access,
        helpers: Helpers,
        any_file_system: bool,
    ) -> MappedFile {
        let mapping = Mapping {
            pid,
            range: (mapping.start, mapping.end),
            file: mapping.file.clone(),
            path: mapping.path.clone(),
            any_file_system,
            is_proven: OnceLock::new(),
        };
        MappedFile { mapping: Arc::new(mapping), access, helpers, held: Mutex::default() }
    }

    fn open_file(&self) -> io::Result<File> {
        if let Some(file) = &*self.held() {
            return file.0.try_clone();
        }
        let (mapping, access) = (self.mapping.clone(), self.access.clone());
        let found = self.helpers.call(mapping.pid, move || access.mapped_file(mapping))?;
        *self.held() = HeldFile::new(&found.file, found.is_reachable);
        Ok(found.file)
    }

    fn held(&self) -> MutexGuard<'_, Option<HeldFile>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opener for MappedFile {
    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        if self.mapping.file == FileId::VDSO {
            return Ok(Box::new(Cursor::new(vdso()?)));
        }
        self.open_file().map(|file| Box::new(file) as Box<dyn ReadAt>)
    }

    fn release(&self) {
        *self.held() = None;
    }

    fn generation(&self) -> Option<u64> {
        if self.mapping.file == FileId::VDSO {
            return None;
        }
        inode::generation(&self.open_file().ok()?)
    }

    fn foreign_inode(&self) -> Option<(u64, u64)> {
        if self.mapping.file == FileId::VDSO {
            return None;
        }
        let metadata = self.open_file().ok()?.metadata().ok()?;
        if is_foreign(metadata.uid(), metadata.gid(), metadata.mode()) {
            return Some((metadata.dev(), metadata.ino()));
        }
        // Its path may lead to another file later.
        let _ = self.mapping.is_proven.set(());
        None
    }
}

/// Returns `true` if another user than root may write a file.
fn is_foreign(uid: u32, gid: u32, mode: u32) -> bool {
    let (is_of_group, is_of_all) = (mode & 0o020 != 0, mode & 0o002 != 0);
    uid != 0 || is_of_all || (is_of_group && gid != 0)
}

fn is_foreign_file(stat: &Stat) -> bool {
    is_foreign(stat.st_uid, stat.st_gid, stat.st_mode)
}

/// A way to a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `/proc/PID/map_files`, which names no path.
    MapFiles,
    /// Its path below the root of the process.
    OwnRoot,
    /// Its path for this program, when the process is gone.
    OwnPath,
}

/// A file that was opened.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: File,
    /// `true` if its path leads to it for this program, too.
    pub(super) is_reachable: bool,
    /// `true` if the process has it mapped now.
    pub(super) is_mapped: bool,
}

impl Mapping {
    /// Finds the file and opens it with the privileges of this program.
    pub(super) fn find(&self) -> io::Result<Found> {
        let id = other_thread::of(self.pid).unwrap_or(self.pid);
        let (start, end) = self.range;
        if !self.any_file_system && is_served(&Access::Own, id, start) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let link = PathBuf::from(format!("/proc/{id}/map_files/{start:x}-{end:x}"));
        let mapped = TargetFile::of_kernel_link(&link);
        let now = mapped.as_ref().ok().and_then(|mapped| mapped.attributes().ok());
        let by_root = || self.below(&format!("/proc/{id}/root"));
        let by_path = || self.below("/");
        let mut refused = None;
        let mut open = |way, found: io::Result<TargetFile>| {
            let opened = found.and_then(|found| self.open(&found, way, now.as_ref()));
            opened.map_err(|error| refused = Some(error)).ok()
        };
        let file = open(Way::MapFiles, mapped)
            .or_else(|| open(Way::OwnRoot, by_root()))
            .or_else(|| open(Way::OwnPath, by_path()));
        let file = file.ok_or_else(|| refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()))?;
        let is_reachable = by_path().and_then(|found| is_same(&found.attributes()?, &file)).unwrap_or(false);
        let is_mapped = now.is_some_and(|now| is_same(&now, &file).unwrap_or(false));
        Ok(Found { file, is_reachable, is_mapped })
    }

    /// Finds the path of the file below a root folder.
    fn below(&self, root: &str) -> io::Result<TargetFile> {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        if !path.starts_with('/') || path.starts_with("//") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        TargetFile::find(Some(root.as_fd()), Path::new(path), Links::None)
    }

    /// Opens a file if it is the mapped one. `mapped` are the attributes of the file that is mapped now.
    fn open(&self, found: &TargetFile, way: Way, mapped: Option<&Stat>) -> io::Result<File> {
        let other = || io::Error::from(io::ErrorKind::NotFound);
        let attributes = found.attributes()?;
        if !self.may_be(&attributes, way, mapped) {
            return Err(other());
        }
        let file = found.open(self.any_file_system)?;
        let is_it = match &self.file {
            FileId::BuildId(expected) => {
                let elf = Elf::open(file.try_clone()?).map_err(|_| other())?;
                elf.build_id().is_some_and(|found| *found == **expected)
            }
            // The inode may be that of another file by now.
            FileId::InodeGeneration { generation, .. } => {
                inode::generation(&file).is_none_or(|found| found == *generation)
            }
            _ => true,
        };
        if is_it { Ok(file) } else { Err(other()) }
    }

    /// Returns `false` if a file of these attributes is not the mapped one.
    fn may_be(&self, attributes: &Stat, way: Way, mapped: Option<&Stat>) -> bool {
        let is_foreign = is_foreign_file(attributes);
        if is_foreign && self.is_proven.get().is_some() {
            return false;
        }
        let (device, inode) = (attributes.st_dev, attributes.st_ino);
        match &self.file {
            FileId::Inode { device: expected, inode: number }
            | FileId::InodeGeneration { device: expected, inode: number, .. } => {
                let device = (libc::major(device), libc::minor(device));
                // Some file systems show another device in a mapping than in the file itself, so a file that was found
                // through the process may differ in it. One that was found by our own path must not: it may be of
                // another mount namespace.
                inode == *number && (way != Way::OwnPath || device == *expected)
            }
            // Anyone may have given this build id to a file of their own. After the exit of the process there is no
            // better proof.
            FileId::BuildId(_) if is_foreign => {
                mapped.is_none_or(|mapped| (mapped.st_dev, mapped.st_ino) == (device, inode))
            }
            _ => true,
        }
    }
}

/// Returns `true` if a file that was found is the opened one.
fn is_same(found: &Stat, file: &File) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok((found.st_dev, found.st_ino) == (file.dev(), file.ino()))
}

/// Returns the image of the vDSO, which is the same in every process.
pub(super) fn vdso() -> io::Result<Vec<u8>> {
    static IMAGE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let maps = Process::myself().and_then(|process| process.maps()).ok()?;
        let map = maps.into_iter().find(|map| map.pathname == MMapPath::Vdso)?;
        let mut image = vec![0; (map.address.1 - map.address.0) as usize];
        fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, map.address.0).ok()?;
        Some(image)
    });
    image.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
}
