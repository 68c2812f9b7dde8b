//! ELF files below some folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ebpf_profiler_core::elf::Elf;

/// All regular files below `roots`, symbolic links left out, in a stable order.
pub(crate) fn below(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = roots.to_vec();
    while let Some(path) = folders.pop() {
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => folders.extend(entries(&path)),
            Ok(meta) if meta.is_file() => files.push(path),
            _ => {}
        }
    }
    files.sort();
    files.dedup();
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// The file, if it is an ELF file that has a table.
pub(crate) fn open(path: &Path) -> Option<Elf> {
    Elf::open(File::open(path).ok()?).ok()
}
