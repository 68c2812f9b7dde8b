//! A long document, which programs convert.

use std::path::PathBuf;

use crate::paths::scratch;

/// The texts that it repeats.
const TEXTS: [&str; 3] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../CHANGELOG.md"),
    include_str!("../../../../CONTRIBUTING.md"),
];

/// Writes a document of this many copies of all texts, and returns its path.
pub fn document(copies: usize) -> PathBuf {
    let path = scratch().join(format!("document-{copies}.md"));
    std::fs::write(&path, TEXTS.concat().repeat(copies)).unwrap();
    path
}
