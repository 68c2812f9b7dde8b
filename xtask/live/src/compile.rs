//! Programs in C that tests compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths::scratch;

/// Compiles `source`, a path below `tests`, to a program with the source's name, in a folder of
/// scratch files.
pub fn program(folder: &str, source: &str, flags: &[&str]) -> PathBuf {
    let source = tests().join(source);
    let program = folder_of(folder).join(source.file_stem().unwrap_or_default());
    gcc(&source, &program, flags);
    program
}

/// Compiles source text to a program with this name, in a folder of scratch files.
pub fn text(folder: &str, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    let program = folder_of(folder).join(name);
    let source = program.with_extension("c");
    fs::write(&source, text).unwrap();
    gcc(&source, &program, flags);
    program
}

/// Runs the compiler.
///
/// # Panics
///
/// If it is missing or fails.
pub fn gcc(source: &Path, output: &Path, flags: &[&str]) {
    let status = Command::new("gcc").arg("-o").arg(output).arg(source).args(flags).status();
    assert!(status.is_ok_and(|status| status.success()), "{} can't be compiled", source.display());
}

/// Returns the folder of the tests.
pub fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

/// Creates a folder of scratch files.
fn folder_of(name: &str) -> PathBuf {
    let folder = scratch().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
