//! The archive that the kernel unpacks into its initial file system: cpio in its "newc" form.
//!
//! ```text
//! 070701 inode mode uid gid links mtime size (4 device numbers) name-size check    each 8 hexadecimal digits
//! name, a zero byte, zeros up to a multiple of 4; contents, zeros up to a multiple of 4
//! ```

use std::collections::BTreeSet;

/// An archive under construction.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// Adds an executable file and its parent directories.
    pub(super) fn file(&mut self, path: &str, contents: &[u8]) {
        let path = path.trim_start_matches('/');
        for (at, _) in path.match_indices('/') {
            self.directory(&path[..at]);
        }
        self.entry(path, 0o100_755, contents);
    }

    /// Adds a directory, once.
    pub(super) fn directory(&mut self, path: &str) {
        if self.directories.insert(path.to_owned()) {
            self.entry(path, 0o040_755, &[]);
        }
    }

    /// Adds the trailer and returns the bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let size = contents.len() as u32;
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[test]
fn writes_entries_in_newc_format() {
    let mut archive = Archive::default();
    archive.file("/a/b", b"hello");
    archive.file("/a/c", b"");
    let bytes = archive.finish();
    assert_eq!(bytes.len() % 4, 0);
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("070701").count(), 4, "a, a/b, a/c and the end");
    assert!(text.starts_with("07070100000001000041ED"));
    let hello = text.find("hello").unwrap();
    assert_eq!(hello % 4, 0);
    assert!(text[..hello].trim_end_matches('\0').ends_with("a/b"));
}
