//! Derived rules mean the same as the unwind data of functions that have it.
//!
//! ```sh
//! cargo test -p ebpf-profiler-unwind --test derived_rules -- --ignored --nocapture        # some libraries
//! UNWIND_FILES=/usr/lib/libx265.so:/opt/x cargo test ... -- --ignored --nocapture           # other files
//! ```
#![expect(clippy::print_stdout, reason = "prints a line per file")]

#[allow(dead_code, clippy::allow_attributes, reason = "a part of it is used")]
mod oracle;

use std::path::{Path, PathBuf};

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_unwind::Table;
use ebpf_profiler_unwind::internal::{Fact, facts};
use ebpf_programs::abi::table::{Rule, cfa, fp, ra};
use gimli::{BaseAddresses, EhFrame, LittleEndian};
use oracle::{files, sections};

/// Sizes of code in bytes, by result.
#[derive(Clone, Debug, Default)]
struct Tally {
    functions: u64,
    bytes: u64,
    equal: u64,
    refused: u64,
    /// The canonical frame addresses start from registers whose relation is not known.
    incomparable: u64,
    different: u64,
    /// In functions that change the stack pointer, of which the unwind data tells nothing.
    undescribed: u64,
    examples: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Equal,
    Refused,
    Incomparable,
    Different,
}

/// Compares a derived rule with that of the unwind data.
fn compare(fact: &Fact, theirs: Rule) -> Outcome {
    let Some(ours) = fact.rule else { return Outcome::Refused };
    let is_frame = theirs.cfa == cfa::REGISTER && theirs.ra & ra::KIND == ra::BELOW;
    let has_same_cfa = match (theirs.cfa, ours.cfa) {
        (cfa::REGISTER, _) if is_frame => fact
            .offsets
            .get(usize::from(theirs.register))
            .copied()
            .flatten()
            .map(|offset| offset == -theirs.offset),
        (cfa::DEREF, cfa::DEREF) if theirs.register == ours.register => {
            Some((theirs.offset, theirs.aux) == (ours.offset, ours.aux))
        }
        _ => None,
    };
    let is_saved = ours.fp & fp::KIND == fp::SAVED;
    let has_same_fp = match theirs.fp & fp::KIND {
        _ if fact.is_unlinked || ours.fp & fp::KIND == fp::UNKNOWN => true,
        fp::SAVED if is_saved => ours.fp_offset == theirs.fp_offset,
        fp::SAME => !is_saved,
        _ => true,
    };
    match has_same_cfa {
        _ if !has_same_fp => Outcome::Different,
        Some(true) => Outcome::Equal,
        Some(false) => Outcome::Different,
        None => Outcome::Incomparable,
    }
}

/// Derives the rules of one function, and compares them with its unwind data.
fn function(elf: &Elf, table: &Table, start: u64, size: u64, tally: &mut Tally) {
    let mut code = vec![0; size as usize];
    let entered = Rule { cfa: cfa::REGISTER, register: 7, offset: 8, ..Rule::CANNOT };
    let first = table.rule(start).map(|rule| rule.raw());
    // Others are parts of functions, and stubs.
    if first != Some(entered) || elf.read(start, &mut code).is_err() {
        return;
    }
    tally.functions += 1;
    let mut results = Vec::new();
    let mut is_described = false;
    for fact in facts(&code, start).0 {
        let address = start + fact.at as u64;
        let Some(theirs) = table.rule(address) else { continue };
        is_described |= theirs.raw() != entered;
        results.push((address, fact.size as u64, compare(&fact, theirs.raw()), fact.rule, theirs));
    }
    for (address, size, outcome, ours, theirs) in results {
        tally.bytes += size;
        match outcome {
            Outcome::Equal => tally.equal += size,
            Outcome::Refused => tally.refused += size,
            Outcome::Incomparable => tally.incomparable += size,
            Outcome::Different if !is_described => tally.undescribed += size,
            Outcome::Different => {
                tally.different += size;
                tally.examples.push(format!("{address:x}: {theirs}, but derived: {ours:?}"));
            }
        }
    }
}

fn file(path: &Path) -> Tally {
    let mut tally = Tally::default();
    let Some(elf) = files::open(path).filter(|elf| elf.arch() == Arch::X86_64) else { return tally };
    let Ok(table) = Table::of(&elf) else { return tally };
    let Some(section) = elf.section(".eh_frame") else { return tally };
    let Ok(data) = elf.data(section) else { return tally };
    let mut frames = EhFrame::new(&data, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address);
    for fde in sections::functions(&frames, &bases, &elf) {
        if fde.len() <= 1 << 18 {
            function(&elf, &table, fde.initial_address(), fde.len(), &mut tally);
        }
    }
    tally
}

fn report(path: &Path, tally: &Tally) {
    let share = |bytes: u64| 100.0 * bytes as f64 / tally.bytes.max(1) as f64;
    println!(
        "{}: {} functions, {} bytes: {:.3} % equal, {:.3} % refused, {:.3} % incomparable, {} bytes different, {} in \
         functions that unwind data does not tell of",
        path.display(),
        tally.functions,
        tally.bytes,
        share(tally.equal),
        share(tally.refused),
        share(tally.incomparable),
        tally.different,
        tally.undescribed,
    );
    tally.examples.iter().take(6).for_each(|example| println!("  {example}"));
}

fn check(paths: &[PathBuf]) {
    let (mut bytes, mut equal, mut different) = (0, 0, 0);
    for path in paths {
        let tally = file(path);
        report(path, &tally);
        (bytes, equal, different) = (bytes + tally.bytes, equal + tally.equal, different + tally.different);
    }
    assert!(bytes > 100_000, "{bytes} bytes");
    assert!(equal * 10 > bytes * 8, "{equal} of {bytes} bytes are equal");
    // Those that are known are faults of the unwind data: pushes of arguments that it leaves out, and epilogues.
    assert!(different * 10_000 <= bytes, "{different} of {bytes} bytes differ");
}

#[test]
fn of_this_program_and_libc() {
    if Arch::HOST != Arch::X86_64 {
        return test_needs::skip("its files are for x86_64");
    }
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib"].map(PathBuf::from);
    let library = folders.map(|folder| folder.join("libc.so.6")).into_iter().find(|path| path.exists());
    check(&library.into_iter().chain(std::env::current_exe()).collect::<Vec<_>>());
}

/// All libraries in the matrix, else one of [`LIBRARY_STEP`].
#[test]
#[ignore = "takes half a minute with optimizations"]
fn of_libraries() {
    let named = std::env::var_os("UNWIND_FILES");
    let step = if std::env::var_os("TRUTH_MATRIX").is_some() { 1 } else { LIBRARY_STEP };
    let below = |folder| files::below(&[PathBuf::from(folder)]).into_iter().step_by(step).collect();
    let paths: Vec<PathBuf> = match &named {
        Some(files) => std::env::split_paths(files).collect(),
        None => below("/usr/lib/x86_64-linux-gnu"),
    };
    check(&paths);
}

/// Distance between two of the libraries that are read outside of the matrix.
const LIBRARY_STEP: usize = 5;
