//! Prints the unwind table of an ELF file.
//!
//! ```text
//! $ cargo run --release --bin tables -- /usr/bin/true
//!         2020  cfa = rsp + 16, ra = [cfa - 8]
//!         2026  cfa = rsp + 24, ra = [cfa - 8]
//!         2030  cfa = rsp + 8 + (pc & 15 >= 11 ? 8 : 0), ra = [cfa - 8]
//!         ...
//! $ tables --address 0x2026 /usr/bin/true
//! cfa = rsp + 24, ra = [cfa - 8]
//! $ tables --statistics /usr/bin/node
//! rows                        277509
//! bytes                      1115168   4.02 a row
//! ...
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::internal::files;
use ebpf_profiler_unwind::{Rule, Table};
use examples::{Options, Usage, fail, print};

const USAGE: Usage = Usage {
    about: "tables: prints the unwind table of an ELF file",
    options: &[
        ("address", "HEX", "only the rule at this virtual address of the file"),
        ("derived", "", "also rules that are derived from code without unwind data"),
        ("statistics", "", "number and kinds of the rows, instead of the rows"),
    ],
    arguments: "FILE",
};

fn main() {
    let options = Options::parse(USAGE);
    let [file] = options.arguments() else { fail("give one ELF file: tables /usr/bin/true") };
    let address: Option<String> = options.one("address");
    match address {
        Some(address) => look_up(&open(file, &options), &address),
        None if options.has("statistics") => statistics(file, &options),
        None => rows(&open(file, &options)),
    }
}

fn open(path: &str, options: &Options) -> Table {
    table(path, options.has("derived")).unwrap_or_else(|problem| fail(format!("{path}: {problem}")))
}

fn table(path: &str, with_derived_rules: bool) -> Result<Table, String> {
    let file = files::open(Path::new(path)).map_err(|error| error.to_string())?;
    let elf = Elf::open(file).map_err(|error| error.to_string())?;
    let table = if with_derived_rules { Table::with_derived_rules(&elf) } else { Table::of(&elf) };
    table.map_err(|error| error.to_string())
}

/// Prints every row: its first address and its rule.
fn rows(table: &Table) {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = table.rows().try_for_each(|row| writeln!(out, "{:12x}  {}", row.address, row.rule));
    match written.and_then(|()| out.flush()) {
        // The reader may have closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(format!("cannot print: {error}")),
        _ => {}
    }
}

fn look_up(table: &Table, address: &str) {
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let Ok(address) = u64::from_str_radix(digits, 16) else {
        fail(format!("--address cannot be {address:?}; give hexadecimal digits, such as 0x2026"))
    };
    match table.rule(address) {
        Some(rule) => print(format_args!("{rule}\n")),
        None => print("no unwind data\n"),
    }
}

fn statistics(file: &str, options: &Options) {
    let start = Instant::now();
    let table = open(file, options);
    let time = start.elapsed();
    let (rows, bytes) = (table.rows().count(), table.image().len());
    print(format_args!(
        "built in              {time:>12.2?}\n\
         rows                  {rows:>12}\n\
         different rules       {:>12}\n\
         bytes                 {bytes:>12}   {:.2} a row\n\
         unsupported rows      {:>12}\n\
         malformed entries     {:>12}\n\n{}",
        table.rules().count(),
        bytes as f64 / rows.max(1) as f64,
        table.unsupported(),
        table.malformed(),
        frequent(&table, rows),
    ));
}

/// Formats the 20 most frequent rules.
fn frequent(table: &Table, rows: usize) -> String {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for rule in table.rows().map(|row| row.rule) {
        *counts.entry(kind(rule)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    let mut text = String::new();
    for (rule, count) in counts.iter().take(20) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:8.3} %  {rule}", 100.0 * *count as f64 / rows as f64);
    }
    text
}

/// Formats a rule without its numbers.
fn kind(rule: Rule) -> String {
    let shown = rule.to_string();
    let words = shown.split(' ').map(|word| {
        let number = word.trim_end_matches([',', ']', ')']);
        let is_number = number.parse::<u32>().is_ok();
        if is_number { word.replacen(number, "n", 1) } else { word.to_string() }
    });
    words.collect::<Vec<_>>().join(" ")
}
