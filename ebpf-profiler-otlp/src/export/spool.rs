//! Messages on disk: for outages longer than the queue can bridge, and across restarts.
//!
//! ```text
//! DIRECTORY/00000000000000000007.otlp.gz     one message as it is sent, the oldest first
//! DIRECTORY/00000000000000000008.otlp.zst    compressed with zstd
//! DIRECTORY/00000000000000000009.otlp        uncompressed
//! ```
//!
//! One exporter uses a directory at a time. [`Folder`] opens it and its files: files that are not
//! regular, belong to another user, have further names or are too large stay untouched. Files that
//! a killed run left incomplete are removed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use bytes::Bytes;
use ebpf_profiler_core::internal::files::Folder;

use super::compression::Coding;

/// Messages in a directory, with a limit on their total size.
#[derive(Debug)]
pub(super) struct Spool {
    folder: Folder,
    max_bytes: u64,
    max_message: u64,
    files: BTreeMap<u64, File>,
    bytes: u64,
    next: u64,
    skipped: u64,
}

#[derive(Clone, Copy, Debug)]
struct File {
    coding: Coding,
    size: u64,
}

/// A message read from the spool.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) number: u64,
    pub(super) coding: Coding,
    pub(super) body: Bytes,
}

/// Maximum number of names that are read at the start; the next start finds the others.
const MAX_NAMES: usize = 1 << 16;

/// File numbers at or above this one belong to somebody else: no exporter writes as many messages.
const FOREIGN_NUMBER: u64 = 1 << 63;

impl Spool {
    /// Opens the directory, creating it if it is missing, and lists the messages that an earlier
    /// run left in it.
    ///
    /// The messages take at most `max_bytes` together and `max_message` each.
    pub(super) fn open(path: &Path, max_bytes: u64, max_message: u64) -> io::Result<Spool> {
        let folder = Folder::private(path)?;
        let names: Vec<OsString> = folder.names()?.take(MAX_NAMES).collect::<io::Result<_>>()?;
        let files = BTreeMap::new();
        let mut spool = Spool { folder, max_bytes, max_message, files, bytes: 0, next: 0, skipped: 0 };
        names.iter().for_each(|name| spool.add_found(name));
        Ok(spool)
    }

    fn add_found(&mut self, name: &OsStr) {
        if Folder::is_leftover(name) {
            // A file that stays has no other effect than its size.
            let _ = self.remove_own(name);
            return;
        }
        let Some((number, ending)) = name.to_str().and_then(|name| name.split_once('.')) else { return };
        let Some(number) = number.parse().ok().filter(|&number| number < FOREIGN_NUMBER) else { return };
        let coding = match ending {
            "otlp.gz" => Coding::Gzip,
            "otlp.zst" => Coding::Zstd,
            "otlp" => Coding::Identity,
            _ => return,
        };
        // A new file must not get this number, whatever the file is.
        self.next = self.next.max(number + 1);
        let file = File { coding, size: self.folder.size(name).unwrap_or(u64::MAX) };
        if file.size > self.max_message || self.files.contains_key(&number) || file.name(number) != name {
            self.skipped += 1;
            return;
        }
        self.files.insert(number, file);
        self.bytes += file.size;
    }

    fn remove_own(&self, name: &OsStr) -> io::Result<()> {
        self.folder.size(name).and_then(|_| self.folder.remove(name))
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns the number of files that have the name of a message and were not accepted as one.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Writes a message completely or not at all.
    pub(super) fn add(&mut self, body: &[u8], coding: Coding) -> io::Result<()> {
        let size = body.len() as u64;
        if self.bytes.saturating_add(size) > self.max_bytes {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let (number, file) = (self.next, File { coding, size });
        self.next += 1;
        self.folder.write(&file.name(number), body)?;
        self.files.insert(number, file);
        self.bytes += size;
        Ok(())
    }

    /// Reads the oldest message.
    ///
    /// # Errors
    ///
    /// Returns the number of a message that cannot be read, so that the caller removes it.
    pub(super) fn oldest(&self) -> Option<Result<Spooled, (u64, io::Error)>> {
        let (&number, &file) = self.files.first_key_value()?;
        let body = self.folder.read(&file.name(number), self.max_message);
        let spooled = |body: Vec<u8>| Spooled { number, coding: file.coding, body: body.into() };
        Some(body.map(spooled).map_err(|error| (number, error)))
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            self.bytes -= file.size;
            // A file that stays is sent a second time by the next run, which is better than a loss.
            let _ = self.remove_own(&file.name(number));
        }
    }
}

impl File {
    fn name(self, number: u64) -> OsString {
        let ending = match self.coding {
            Coding::Identity => "otlp",
            Coding::Gzip => "otlp.gz",
            Coding::Zstd => "otlp.zst",
        };
        format!("{number:020}.{ending}").into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A directory path that is removed when the test ends.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            Directory(std::env::temp_dir().join(format!("spool-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn open(folder: &Directory, max_bytes: u64) -> Spool {
        Spool::open(&folder.0, max_bytes, 100).unwrap()
    }

    #[test]
    fn restart_returns_messages_in_order() {
        let folder = Directory::new("order");
        let mut spool = open(&folder, 100);
        for (body, coding) in [(b"a", Coding::Gzip), (b"b", Coding::Identity), (b"c", Coding::Zstd)] {
            spool.add(body, coding).unwrap();
        }
        fs::write(folder.0.join(".profile.7.part"), "half").unwrap();
        fs::write(folder.0.join("notes.txt"), "not ours").unwrap();
        let mut spool = open(&folder, 100);
        assert_eq!((spool.len(), spool.bytes), (3, 3));
        let mut bodies = Vec::new();
        while let Some(Ok(it)) = spool.oldest() {
            bodies.push((it.body[0], it.coding));
            spool.remove(it.number);
        }
        assert_eq!(bodies, [(b'a', Coding::Gzip), (b'b', Coding::Identity), (b'c', Coding::Zstd)]);
        let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    #[test]
    fn message_above_the_limit_is_an_error() {
        let folder = Directory::new("limit");
        let mut spool = open(&folder, 5);
        spool.add(b"1234", Coding::Gzip).unwrap();
        assert!(spool.add(b"12", Coding::Gzip).is_err());
        spool.add(b"1", Coding::Gzip).unwrap();
        assert_eq!(spool.len(), 2);
    }

    #[test]
    fn vanished_message_is_an_error_once() {
        let folder = Directory::new("gone");
        let mut spool = open(&folder, 5);
        spool.add(b"1", Coding::Gzip).unwrap();
        fs::remove_dir_all(&folder.0).unwrap();
        let Some(Err((number, _))) = spool.oldest() else { panic!("the message was read") };
        spool.remove(number);
        assert!(spool.oldest().is_none());
        assert!(spool.add(b"1", Coding::Gzip).is_err());
    }

    #[test]
    fn link_in_the_place_of_a_new_file_keeps_its_target() {
        let folder = Directory::new("target");
        let mut spool = open(&folder, 100);
        fs::write(folder.0.join("target"), "precious").unwrap();
        symlink("target", folder.0.join(format!("{:020}.otlp", 0))).unwrap();
        spool.add(b"1", Coding::Identity).unwrap();
        assert_eq!(fs::read(folder.0.join("target")).unwrap(), b"precious");
        assert_eq!(open(&folder, 100).len(), 1);
    }

    #[test]
    fn file_that_became_a_fifo_is_an_error() {
        let folder = Directory::new("fifo");
        let mut spool = open(&folder, 100);
        spool.add(b"1", Coding::Identity).unwrap();
        let path = folder.0.join(format!("{:020}.otlp", 0));
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(matches!(spool.oldest(), Some(Err((0, _)))));
    }
}
