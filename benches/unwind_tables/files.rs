//! Measured files.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use ebpf_profiler_core::elf::Elf;

/// A file and its name in the output.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) path: String,
}

/// Paths of the largest programs of Debian.
const USUAL: &[&str] = &[
    "/usr/bin/node",
    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
    "/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1",
    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
    "/usr/lib/chromium/chromium",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
];

/// Returns the files of `UNWIND_FILES`, else the existing default ones and those of the compiler.
pub(crate) fn all() -> Vec<Named> {
    if let Some(files) = std::env::var_os("UNWIND_FILES") {
        return std::env::split_paths(&files).filter_map(|path| named(&path)).collect();
    }
    let usual = USUAL.iter().filter_map(|path| named(Path::new(path)));
    usual.chain(of_the_compiler()).collect()
}

fn named(path: &Path) -> Option<Named> {
    let path = path.canonicalize().ok()?;
    // In toolchains, some names of libraries are linker scripts.
    Elf::open(File::open(&path).ok()?).ok()?;
    let name = path.file_name()?.to_str()?;
    let name = name.split_once("-rust-").map_or(name, |(front, _)| front);
    let name = if name.starts_with("librustc_driver") { "librustc_driver" } else { name };
    Some(Named { name: name.to_owned(), path: path.to_str()?.to_owned() })
}

/// Returns the compiler's driver and its LLVM.
fn of_the_compiler() -> Vec<Named> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Ok(sysroot) = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(Path::new(&sysroot).join("lib")).into_iter().flatten();
    let libraries = entries.filter_map(|entry| named(&entry.ok()?.path()));
    libraries.filter(|file| file.name == "librustc_driver" || file.name.starts_with("libLLVM")).collect()
}
