//! A long document, which programs convert.

use std::path::{Path, PathBuf};

/// The texts that it repeats.
const TEXTS: [&str; 3] = [
    include_str!("../../../README.md"),
    include_str!("../../../CHANGELOG.md"),
    include_str!("../../../CONTRIBUTING.md"),
];

/// The folder that it is in.
pub(crate) const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// Writes a document of this many copies of all texts, and returns its path.
pub(crate) fn document(copies: usize) -> PathBuf {
    let path = Path::new(FOLDER).join(format!("document-{copies}.md"));
    std::fs::write(&path, TEXTS.concat().repeat(copies)).unwrap();
    path
}
