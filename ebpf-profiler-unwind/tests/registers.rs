//! Counts rows based on a register that a callee may have changed, which a walk with three
//! registers loses.
//!
//! ```sh
//! cargo test --release -p ebpf-profiler-unwind --test registers -- --ignored --nocapture
//! UNWIND_ROOTS=/usr/bin:/opt ...                                               # other folders
//! ```

#[path = "oracle/files.rs"]
mod files;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_unwind::Table;
use ebpf_programs::abi::table::{cfa, fp};

/// Counters of one kind of row.
#[derive(Debug, Default)]
struct Count {
    rows: u64,
    /// Rows in a row are one place.
    places: u64,
    files: u64,
    /// Rows with a direct call in them, so that they are met in callers.
    with_calls: u64,
}

/// Tests that take too long without optimizations.
mod optimized {
    use super::*;

    #[test]
    #[ignore = "reads all programs of the system"]
    fn registers_that_addresses_start_from() {
        let roots = std::env::var_os("UNWIND_ROOTS")
            .unwrap_or("/usr/lib:/usr/bin:/usr/sbin:/usr/libexec:/opt".into());
        let roots: Vec<PathBuf> = std::env::split_paths(&roots).collect();
        let mut counts = BTreeMap::new();
        let (mut tables, mut all) = (0, 0);
        for elf in files::below(&roots).iter().filter_map(|path| files::open(path)) {
            let Ok(table) = Table::of(&elf) else { continue };
            let rows = count(&elf, &table, &mut counts);
            tables += u64::from(rows > 0);
            all += rows;
        }
        println!("{all} rows in {tables} files");
        for (kind, Count { rows, places, files, with_calls }) in counts {
            println!(
                "{kind:40} {rows:9} rows, {places:7} places, {files:5} files, {with_calls:7} rows with calls"
            );
        }
        assert!(all > 0);
    }
}

/// Counts the rows of a table by kind; how many there are in all.
fn count(elf: &Elf, table: &Table, counts: &mut BTreeMap<String, Count>) -> u64 {
    let rows: Vec<_> = table.rows().collect();
    let mut last: Option<String> = None;
    let mut here = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        let end = rows.get(number + 1).map_or(row.address, |next| next.address);
        let kind = kind(elf.arch(), row);
        if let Some(kind) = &kind {
            let count: &mut Count = here.entry(kind.clone()).or_default();
            count.rows += 1;
            count.places += u64::from(last.as_ref() != Some(kind));
            count.with_calls += u64::from(has_call(elf, row.address, end));
        }
        last = kind;
    }
    for (kind, count) in here {
        let total = counts.entry(kind).or_default();
        total.rows += count.rows;
        total.places += count.places;
        total.files += 1;
        total.with_calls += count.with_calls;
    }
    rows.len() as u64
}

/// Returns the register that a row needs besides stack and frame pointer; `None` if none.
fn kind(arch: Arch, row: &ebpf_profiler_unwind::Row) -> Option<String> {
    let rule = row.rule.raw();
    let (stack, frame, saved): (u8, u8, &[u8]) = if arch == Arch::X86_64 {
        (7, 6, &[3, 12, 13, 14, 15])
    } else {
        (31, 29, &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28])
    };
    let what = match rule.cfa {
        cfa::REGISTER => "cfa = register",
        cfa::DEREF => "cfa = [register]",
        _ => return None,
    };
    let class = match rule.register {
        register if register == stack || register == frame && rule.cfa == cfa::REGISTER => {
            return (rule.fp & fp::KIND == fp::UNKNOWN).then(|| format!("{arch:?} frame pointer lost"));
        }
        register if register == frame => "frame pointer".to_owned(),
        register if saved.contains(&register) => format!("callee-saved {register}"),
        register => format!("other {register}"),
    };
    Some(format!("{arch:?} {what}, {class}"))
}

/// Returns `true` if a piece of code has a direct call of other code of the file.
fn has_call(elf: &Elf, begin: u64, end: u64) -> bool {
    let mut code = vec![0; usize::try_from(end - begin).unwrap_or(0).min(1 << 16)];
    if elf.read(begin, &mut code).is_err() {
        return false;
    }
    let is_code = |address: u64| {
        elf.segments()
            .iter()
            .any(|segment| segment.is_code() && address.wrapping_sub(segment.address) < segment.memory_size)
    };
    let behind = |at: usize, distance: i64| begin.wrapping_add(at as u64).wrapping_add_signed(distance);
    match elf.arch() {
        Arch::X86_64 => code.windows(5).enumerate().any(|(at, window)| {
            let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            window[0] == 0xe8 && is_code(behind(at + 5, distance.into()))
        }),
        _ => code.as_chunks().0.iter().any(|bytes| u32::from_le_bytes(*bytes) >> 26 == 0b100101),
    }
}
