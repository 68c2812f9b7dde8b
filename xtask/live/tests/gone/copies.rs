//! Copies of a compiled file that differ in the names of their functions and in their build ids.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use live_suite::compile::{gcc, tests};

/// The part of the names that is replaced.
const NUMBER: &[u8] = b"AAAAAA";

/// The build id that is replaced.
const BUILD_ID: [u8; 20] = *b"\x01build-id-of-copies\x01";

/// A folder with a compiled file and its copies.
pub(crate) struct Copies {
    folder: PathBuf,
    compiled: Vec<u8>,
}

impl Copies {
    pub(crate) fn compile(flags: &[&str]) -> Copies {
        let name = format!("gone-{}-{:?}", std::process::id(), std::thread::current().id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let id: String = BUILD_ID.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("-Wl,--build-id=0x{id}");
        compile("work.c", &folder.join("compiled"), &[&["-O1", "-g", &id], flags].concat());
        compile("host.c", &folder.join("host"), &["-O1", "-ldl"]);
        let compiled = fs::read(folder.join("compiled")).unwrap();
        Copies { folder, compiled }
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.folder.join("host")
    }

    /// Makes a copy, which takes the place of a file of the same name. Returns its path.
    pub(crate) fn make(&self, number: usize, name: &str) -> String {
        let (digits, mut copy, mut id) = (format!("{number:06}"), self.compiled.clone(), BUILD_ID);
        assert!(replace(&mut copy, NUMBER, digits.as_bytes()) >= 4);
        id[1..7].copy_from_slice(digits.as_bytes());
        assert_eq!(replace(&mut copy, &BUILD_ID, &id), 1);
        let (new, path) = (self.folder.join("new"), self.folder.join(name));
        fs::write(&new, copy).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn compile(source: &str, output: &Path, flags: &[&str]) {
    gcc(&tests().join("gone").join(source), output, flags);
}

/// Replaces all occurrences of `from` by as many bytes. Returns their number.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) -> usize {
    let mut count = 0;
    for start in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[start..].starts_with(from) {
            bytes[start..start + to.len()].copy_from_slice(to);
            count += 1;
        }
    }
    count
}
