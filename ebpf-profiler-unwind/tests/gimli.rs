//! Each row means the same as gimli's own evaluation.
//!
//! ```sh
//! cargo test -p ebpf-profiler-unwind --test gimli                                  # some files, seconds
//! cargo test -p ebpf-profiler-unwind --test gimli --release -- --ignored --nocapture   # the whole system
//! UNWIND_ROOTS=/usr/bin:/opt cargo test ... -- --ignored                           # other folders
//! ```
#![expect(clippy::print_stdout, reason = "the long test says how far it is")]

mod oracle;

use std::path::PathBuf;

use ebpf_profiler_unwind::internal::validate;
use ebpf_profiler_unwind::{Rule, Table};
use ebpf_programs::abi::table::{self, Header, cfa, kept};
use oracle::{files, judge};

/// Compares all files; every so often a line says how far it is.
fn compare(files: &[PathBuf]) -> judge::Verdict {
    let mut total = judge::Verdict::default();
    for (number, path) in files.iter().enumerate() {
        let Some(elf) = files::open(path) else { continue };
        let Ok(table) = Table::of(&elf) else { continue };
        assert_eq!(validate(table.image()), Ok(()), "{}", path.display());
        let mut verdict = judge::eh_frame(&elf, &table);
        if verdict.files == 0 {
            verdict = judge::debug_frame(&elf, &table);
        }
        for example in verdict.examples.iter().take(3) {
            println!("{}: {example}", path.display());
        }
        total.add(verdict);
        if number % 500 == 499 {
            println!(
                "{} of {} files: {} rows, {} unequal",
                number + 1,
                files.len(),
                total.rows,
                total.unequal
            );
        }
    }
    report(&total);
    total
}

fn report(total: &judge::Verdict) {
    println!(
        "{} files with unwind data, {} rows: {} unequal, {} unsaid ({:.5} %); tables of {} rows, {:.3} bytes \
         each, {:.3} at most",
        total.files,
        total.rows,
        total.unequal,
        total.unsaid,
        100.0 * total.unsaid as f64 / total.rows.max(1) as f64,
        total.table_rows,
        total.bytes as f64 / total.table_rows.max(1) as f64,
        total.most_bytes,
    );
}

/// The folders named in `UNWIND_ROOTS`, else where a system keeps its programs.
fn roots() -> Vec<PathBuf> {
    match std::env::var_os("UNWIND_ROOTS") {
        Some(roots) => std::env::split_paths(&roots).collect(),
        None => {
            let toolchains =
                std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup/toolchains"));
            let system = ["/usr/lib", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/local", "/opt"];
            system.map(PathBuf::from).into_iter().chain(toolchains).collect()
        }
    }
}

#[test]
fn some_files() {
    let own = std::env::current_exe().unwrap();
    let libraries =
        ["libc.so.6", "libm.so.6", "libstdc++.so.6", "libcrypto.so.3", "libpython3.11.so.1.0", LOADER];
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let system =
        folders.iter().flat_map(|folder| libraries.map(|library| PathBuf::from(folder).join(library)));
    // The package libc6-arm64-cross has those of arm64.
    let cross = ["libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"]
        .map(|library| PathBuf::from("/usr/aarch64-linux-gnu/lib").join(library));
    let found = system.chain(cross).filter_map(|path| path.canonicalize().ok());
    let verdict = compare(&found.chain([own]).collect::<Vec<_>>());
    assert!(verdict.rows > 10_000);
    assert_eq!(verdict.unequal, 0, "{:#?}", verdict.examples);
}

/// The loader, some of whose addresses start from a register that callees save.
const LOADER: &str =
    if cfg!(target_arch = "x86_64") { "ld-linux-x86-64.so.2" } else { "ld-linux-aarch64.so.1" };

/// Position of a rule in a table.
fn place(table: &Table, rule: usize) -> usize {
    let header = Header { rows: table.rows().count() as u32, ..Header::default() };
    header.rules_at() as usize + rule * size_of::<table::Rule>()
}

/// A judge that never objects is none: one number of one rule is changed.
#[test]
fn a_wrong_rule_is_noticed() {
    let elf = files::open(&std::env::current_exe().unwrap()).unwrap();
    let table = Table::of(&elf).unwrap();
    let mut image = table.image().to_vec();
    let rule = table.rules().position(|rule| rule.raw().cfa == cfa::REGISTER).unwrap();
    image[place(&table, rule) + 4] ^= 8;
    let wrong = Table::from_image(image, elf.arch()).unwrap();
    assert_ne!(judge::eh_frame(&elf, &wrong).unequal, 0);
}

/// Nor is one that doesn't look at the register that is kept.
#[test]
fn a_wrong_place_of_a_kept_register_is_noticed() {
    let folders = ["/lib64", "/lib"].map(|folder| PathBuf::from(folder).join(LOADER));
    let Some(elf) = folders.iter().find_map(|path| files::open(path)) else { return };
    let table = Table::of(&elf).unwrap();
    let kept = |rule: &Rule| rule.raw().ra >> kept::SHIFT & kept::NUMBER != 0;
    let is_frame = |rule: &Rule| matches!(rule.raw().cfa, cfa::REGISTER | cfa::DEREF | cfa::PLT);
    let frames: Vec<_> = table.rules().filter(is_frame).collect();
    assert!(frames.iter().all(kept) || !frames.iter().any(kept), "it is kept everywhere or nowhere");
    let saved = |rule: &Rule| kept(rule) && rule.raw().fp >> kept::SHIFT != 0;
    let Some(rule) = table.rules().position(|rule| saved(&rule)) else { return };
    let mut image = table.image().to_vec();
    image[place(&table, rule) + 3] ^= 1 << kept::SHIFT;
    let wrong = Table::from_image(image, elf.arch()).unwrap();
    assert_ne!(judge::eh_frame(&elf, &wrong).unequal, 0);
}

/// Tests that take too long without optimizations.
mod optimized {
    use super::*;

    #[test]
    #[ignore = "takes a minute with optimizations, many without"]
    fn whole_system() {
        let verdict = compare(&files::below(&roots()));
        assert_eq!(verdict.unequal, 0, "{:#?}", verdict.examples);
        assert!(verdict.most_bytes <= 4.2, "{} bytes a row", verdict.most_bytes);
        assert!(verdict.unsaid as f64 <= verdict.rows as f64 * 0.000_02, "{} rows unsaid", verdict.unsaid);
    }
}
