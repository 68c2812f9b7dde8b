//! Opens the files that profiled processes name.
//!
//! Such a name leads where its process likes: to a device whose opening starts a timer, to a pipe,
//! to a file system whose server never answers. So nothing is opened before it was checked:
//!
//! ```text
//!   name ──► descriptor without access (O_PATH) ──► regular file? ──► local file system? ──► reopened for reading
//!            links within the root, or none         fstat             fstatfs                /proc/self/fd/N
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat2};
use rustix::io::Errno;

/// The symbolic links of a name that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// No link is followed: the kernel's names of mapped files have none.
    None,
    /// Those of folders.
    #[cfg(feature = "live")]
    Folders,
    /// All of them.
    All,
}

/// A file that was found and not opened.
#[derive(Debug)]
pub(crate) struct TargetFile(OwnedFd);

impl TargetFile {
    /// Finds a file by its name below `root`, beyond which neither links nor `..` lead; by its name
    /// for this program without a root.
    pub(crate) fn find(root: Option<BorrowedFd<'_>>, path: &Path, links: Links) -> io::Result<TargetFile> {
        let mut resolve = ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::IN_ROOT, root.is_some());
        resolve.set(ResolveFlags::NO_SYMLINKS, links == Links::None);
        let mut flags = PATH;
        flags.set(OFlags::NOFOLLOW, links != Links::All);
        let folder = root.unwrap_or(CWD);
        let mut found = Err(Errno::AGAIN);
        // A folder that is renamed meanwhile makes the kernel give up.
        for _ in 0..ATTEMPTS {
            found = openat2(folder, path, flags, Mode::empty(), resolve);
            if !matches!(found, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        Ok(TargetFile(found?))
    }

    /// Finds the file that a link of `/proc` leads to. The kernel goes there without any name.
    #[cfg(feature = "live")]
    pub(crate) fn of_kernel_link(link: &Path) -> io::Result<TargetFile> {
        Ok(TargetFile(rustix::fs::open(link, PATH, Mode::empty())?))
    }

    /// Returns the attributes of the file.
    pub(crate) fn attributes(&self) -> io::Result<Stat> {
        Ok(fstat(&self.0)?)
    }

    /// Opens it for reading, if it is a regular file of a local file system. `any_file_system`
    /// permits others.
    pub(crate) fn open(&self, any_file_system: bool) -> io::Result<File> {
        let attributes = self.attributes()?;
        if FileType::from_raw_mode(attributes.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if !any_file_system && !self.is_local(&attributes)? {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not on a local file system"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let link = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        Ok(rustix::fs::open(link, flags, Mode::empty())?.into())
    }

    /// Returns `true` if reads cannot wait for another program or machine. The file system of `/`
    /// is trusted: this program depends on it anyway.
    fn is_local(&self, attributes: &Stat) -> io::Result<bool> {
        static ROOT: OnceLock<Option<u64>> = OnceLock::new();
        let root = ROOT.get_or_init(|| Some(rustix::fs::stat("/").ok()?.st_dev));
        if *root == Some(attributes.st_dev) {
            return Ok(true);
        }
        Ok(LOCAL.contains(&(fstatfs(&self.0)?.f_type as u32)))
    }
}

impl AsFd for TargetFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Number of attempts to resolve a name.
const ATTEMPTS: u32 = 8;

/// Local file systems, by the magic numbers of `statfs`. All others can be served by a program
/// (FUSE) or another machine, or their files act when they are opened (procfs, tracefs).
const LOCAL: [u32; 25] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x0102_1994, // tmpfs, memfd
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x9660,      // iso9660
    0x4d44,      // vfat
    0x2011_bab0, // exfat
    0x7366_746e, // ntfs3
    0x5346_544e, // ntfs
    0x9584_58f6, // hugetlbfs
    0x3153_464a, // jfs
    0x5265_4973, // reiserfs
    0x3434,      // nilfs2
    0x1501_3346, // udf
    0xf15f,      // ecryptfs
    0x6175_6673, // aufs
    0x7461_636f, // ocfs2
    0x0116_1970, // gfs2
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("target-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        fn root(&self) -> File {
            File::open(&self.0).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn error(found: io::Result<TargetFile>) -> Option<io::ErrorKind> {
        found.and_then(|found| found.open(false)).err().map(|error| error.kind())
    }

    #[test]
    fn nothing_but_regular_files_is_opened() {
        let scratch = Scratch::new("kinds");
        let fifo = scratch.0.join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR).unwrap();
        fs::write(scratch.0.join("file"), "x").unwrap();
        let open = |path: &Path| error(TargetFile::find(None, path, Links::All));
        assert_eq!(open(&scratch.0.join("file")), None);
        for other in [&*fifo, Path::new("/dev/ptmx"), Path::new("/dev/null"), &*scratch.0] {
            assert_eq!(open(other), Some(io::ErrorKind::InvalidInput), "{}", other.display());
        }
        // A regular file, and reading it takes the kernel's messages away.
        assert_eq!(open(Path::new("/proc/kmsg")), Some(io::ErrorKind::Unsupported));
    }

    #[test]
    fn links_lead_nowhere_beyond_the_root() {
        let scratch = Scratch::new("links");
        let outside = std::env::current_exe().unwrap();
        fs::write(scratch.0.join("file"), "x").unwrap();
        symlink(&outside, scratch.0.join("out")).unwrap();
        symlink("/file", scratch.0.join("in")).unwrap();
        symlink("/", scratch.0.join("folder")).unwrap();
        let root = scratch.root();
        let open = |path: &str, links| error(TargetFile::find(Some(root.as_fd()), Path::new(path), links));
        for links in [Links::None, Links::All] {
            assert!(open("/out", links).is_some());
            assert_eq!(open(outside.to_str().unwrap(), links), Some(io::ErrorKind::NotFound));
            assert_eq!(open("/../../file", links), None);
        }
        assert_eq!([open("/in", Links::All), open("/folder/in", Links::All)], [None, None]);
        assert!(open("/in", Links::None).is_some() && open("/folder/file", Links::None).is_some());
        #[cfg(feature = "live")]
        assert_eq!(
            (open("/folder/file", Links::Folders), open("/in", Links::Folders).is_some()),
            (None, true)
        );
    }
}
