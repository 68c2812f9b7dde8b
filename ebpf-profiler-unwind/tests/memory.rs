//! Building a table takes little more memory than the table: a tenth of it and 4 MiB, what is read
//! of the file included.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod peak;

use std::path::PathBuf;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_unwind::Table;

/// Those of `UNWIND_FILES`, else this program and what there is of node, a JVM and LLVM.
fn files() -> Vec<PathBuf> {
    let usual = ["/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1", "/usr/lib/chromium/chromium"];
    match std::env::var_os("UNWIND_FILES") {
        Some(files) => std::env::split_paths(&files).collect(),
        None => usual.map(PathBuf::from).into_iter().chain([std::env::current_exe().unwrap()]).collect(),
    }
}

#[test]
fn a_table_and_little_more() {
    for path in files() {
        // Hidden from `cargo xtask newcomer`, it is empty.
        let is_there = path.metadata().is_ok_and(|file| file.len() > 0);
        let Some(file) = is_there.then(|| std::fs::File::open(&path).unwrap()) else { continue };
        let elf = Elf::open(file).unwrap();
        let (table, peak) = peak::during(|| Table::of(&elf).unwrap());
        let size = table.image().len();
        println!("{}: {peak} bytes for a table of {size}", path.display());
        assert!(peak <= size * 11 / 10 + (4 << 20), "{}: {peak} bytes for a table of {size}", path.display());
    }
}
