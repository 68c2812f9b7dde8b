//! The interpreters of this machine.

use std::path::PathBuf;

/// All that are found: pyenv's, and those on the path. `PYTHONS`, separated by colons, adds others.
pub(crate) fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(home) = std::env::var_os("HOME") {
        let versions = PathBuf::from(home).join(".pyenv/versions");
        for version in std::fs::read_dir(versions).into_iter().flatten().flatten() {
            found.push(version.path().join("bin/python"));
        }
    }
    for minor in 6..16 {
        found.push(format!("/usr/bin/python3.{minor}").into());
    }
    found.extend(std::env::var_os("PYTHONS").iter().flat_map(std::env::split_paths));
    found.retain(|path| path.exists());
    found.sort();
    found.dedup_by_key(|path| path.canonicalize().ok());
    found
}
