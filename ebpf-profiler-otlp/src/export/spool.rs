//! Messages that wait on disk: for longer than memory is good for, and beyond a restart.
//!
//! ```text
//! DIRECTORY/00000000000000000007.otlp.gz     a message as it is sent, the oldest first
//! DIRECTORY/00000000000000000008.otlp.zst    packed with zstd
//! DIRECTORY/00000000000000000009.otlp        not packed
//! DIRECTORY/00000000000000000010.part        one that is being written; left over from a crash, it is removed
//! ```
//!
//! A directory belongs to one exporter at a time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::compression::Coding;

/// Messages in a directory, bounded by their size.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    most_bytes: u64,
    files: BTreeMap<u64, File>,
    bytes: u64,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct File {
    coding: Coding,
    size: u64,
}

/// A message of the spool.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) number: u64,
    pub(super) coding: Coding,
    pub(super) body: Bytes,
}

impl Spool {
    /// Makes the directory where it isn't there, and finds what an earlier run left in it.
    pub(super) fn open(directory: PathBuf, most_bytes: u64) -> io::Result<Spool> {
        folder(&directory)?;
        let mut spool = Spool { directory, most_bytes, files: BTreeMap::new(), bytes: 0, next: 0 };
        for entry in fs::read_dir(&spool.directory)? {
            spool.found(&entry?)?;
        }
        Ok(spool)
    }

    fn found(&mut self, entry: &fs::DirEntry) -> io::Result<()> {
        let name = entry.file_name();
        let Some((number, ending)) = name.to_str().and_then(|name| name.split_once('.')) else {
            return Ok(());
        };
        let Some(number) = number.parse().ok().filter(|&number| number < NOT_OURS) else { return Ok(()) };
        let coding = match ending {
            "otlp.gz" => Coding::Gzip,
            "otlp.zst" => Coding::Zstd,
            "otlp" => Coding::Identity,
            "part" => return fs::remove_file(entry.path()),
            _ => return Ok(()),
        };
        let size = entry.metadata()?.len();
        self.files.insert(number, File { coding, size });
        self.bytes += size;
        self.next = self.next.max(number + 1);
        Ok(())
    }

    /// How many messages there are.
    pub(super) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Writes a message; it is there as a whole or not at all.
    pub(super) fn add(&mut self, body: &[u8], coding: Coding) -> io::Result<()> {
        let size = body.len() as u64;
        if self.bytes.saturating_add(size) > self.most_bytes {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let (number, file) = (self.next, File { coding, size });
        let part = self.directory.join(format!("{number:020}.part"));
        let written = write(&part, body).and_then(|()| fs::rename(&part, self.path(number, file)));
        if written.is_err() {
            // A disk that is full wants its space back; there may be nothing to remove.
            let _ = fs::remove_file(&part);
            return written;
        }
        self.next += 1;
        self.files.insert(number, file);
        self.bytes += size;
        Ok(())
    }

    /// Reads the oldest message.
    ///
    /// # Errors
    ///
    /// With the number of a message that can't be read, so that it can be removed.
    pub(super) fn oldest(&self) -> Option<Result<Spooled, (u64, io::Error)>> {
        let (&number, &file) = self.files.first_key_value()?;
        let body = fs::read(self.path(number, file));
        let spooled = |body: Vec<u8>| Spooled { number, coding: file.coding, body: body.into() };
        Some(body.map(spooled).map_err(|error| (number, error)))
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            self.bytes -= file.size;
            // If it stays, the next run sends it once more: better than never.
            let _ = fs::remove_file(self.path(number, file));
        }
    }

    fn path(&self, number: u64, file: File) -> PathBuf {
        let ending = match file.coding {
            Coding::Identity => "otlp",
            Coding::Gzip => "otlp.gz",
            Coding::Zstd => "otlp.zst",
        };
        self.directory.join(format!("{number:020}.{ending}"))
    }
}

/// No exporter writes as many messages.
const NOT_OURS: u64 = 1 << 63;

/// Makes a folder that only we look into: a profile shows what everybody runs.
fn folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Writes a file that is whole also after the machine lost its power.
fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(body)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is gone when the test ends.
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

    #[test]
    fn messages_come_back_in_order_also_after_a_restart() {
        let directory = Directory::new("order");
        let mut spool = Spool::open(directory.0.clone(), 100).unwrap();
        for (body, coding) in [(b"a", Coding::Gzip), (b"b", Coding::Identity), (b"c", Coding::Zstd)] {
            spool.add(body, coding).unwrap();
        }
        fs::write(directory.0.join("7.part"), "half").unwrap();
        fs::write(directory.0.join("notes.txt"), "not ours").unwrap();
        let mut spool = Spool::open(directory.0.clone(), 100).unwrap();
        assert_eq!((spool.len(), spool.bytes), (3, 3));
        let mut bodies = Vec::new();
        while let Some(Ok(it)) = spool.oldest() {
            bodies.push((it.body[0], it.coding));
            spool.remove(it.number);
        }
        assert_eq!(bodies, [(b'a', Coding::Gzip), (b'b', Coding::Identity), (b'c', Coding::Zstd)]);
        let left: Vec<_> = fs::read_dir(&directory.0).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    #[test]
    fn what_finds_no_room_is_not_taken() {
        let directory = Directory::new("room");
        let mut spool = Spool::open(directory.0.clone(), 5).unwrap();
        spool.add(b"1234", Coding::Gzip).unwrap();
        assert!(spool.add(b"12", Coding::Gzip).is_err());
        spool.add(b"1", Coding::Gzip).unwrap();
        assert_eq!(spool.len(), 2);
    }

    #[test]
    fn a_message_that_vanished_is_an_error_once() {
        let directory = Directory::new("gone");
        let mut spool = Spool::open(directory.0.clone(), 5).unwrap();
        spool.add(b"1", Coding::Gzip).unwrap();
        fs::remove_dir_all(&directory.0).unwrap();
        let Some(Err((number, _))) = spool.oldest() else { panic!("there is nothing to read") };
        spool.remove(number);
        assert!(spool.oldest().is_none());
        assert!(spool.add(b"1", Coding::Gzip).is_err());
    }
}
