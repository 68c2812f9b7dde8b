//! Directories for tests.

use std::path::PathBuf;

/// A directory path that does not exist yet and is removed when the test ends.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("otlp-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
