//! The files of the guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::arm64;
use crate::fixtures::Architecture;
use crate::run::{command, output};

/// Folder of the program and its files in the guest.
const TASK: &str = "/task";

/// Returns an archive with init, the program, its files, and the shared libraries of these.
pub(super) fn collect(
    architecture: Architecture,
    init: &Path,
    program: &[String],
    files: &[PathBuf],
) -> Result<Vec<u8>, String> {
    let mut archive = Archive::default();
    archive.file("/init", &read(init)?);
    archive.directory("task");
    let mut libraries = BTreeSet::<(PathBuf, String)>::new();
    let programs = program.first().map(PathBuf::from);
    for file in programs.iter().chain(files) {
        archive.file(&in_guest(file), &read(file)?);
        match architecture {
            Architecture::Amd64 => libraries
                .extend(libraries_of(file).into_iter().map(|library| (library.clone().into(), library))),
            Architecture::Arm64 => libraries.extend(arm64::libraries_of(file)),
        }
    }
    for (library, in_guest) in &libraries {
        archive.file(in_guest, &read(library)?);
    }
    if let Some((program, rest)) = program.split_first() {
        let words: Vec<_> =
            std::iter::once(in_guest(Path::new(program))).chain(rest.iter().cloned()).collect();
        archive.file("/task/arguments", words.join("\n").as_bytes());
    }
    Ok(archive.finish())
}

fn in_guest(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("{TASK}/{name}")
}

/// Returns the shared libraries of a program and its loader; an empty list for static programs and
/// data.
fn libraries_of(file: &Path) -> Vec<String> {
    let listed = output(command(&["ldd"]).arg(file)).unwrap_or_default();
    listed.lines().filter_map(library_of).collect()
}

/// Returns the path in `libc.so.6 => /lib/libc.so.6 (0x7f...)` or `/lib64/ld-linux.so.2 (0x7f...)`.
fn library_of(line: &str) -> Option<String> {
    let path = line.rsplit("=> ").next()?.trim().split(" (0x").next()?;
    path.starts_with('/').then(|| path.to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[test]
fn reads_paths_of_libraries() {
    let lines = [
        ("\tlinux-vdso.so.1 (0x00007ffd)", None),
        (
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)",
            Some("/lib/x86_64-linux-gnu/libc.so.6"),
        ),
        ("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)", Some("/lib64/ld-linux-x86-64.so.2")),
        ("\tlibx.so => not found", None),
        ("\tstatically linked", None),
    ];
    for (line, path) in lines {
        assert_eq!(library_of(line).as_deref(), path, "{line}");
    }
}
