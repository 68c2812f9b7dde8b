//! Prints the unwind table of an ELF file.
//!
//! ```text
//! $ tables /usr/bin/true
//!         2020  cfa = rsp + 16, ra = [cfa - 8]
//!         2026  cfa = rsp + 24, ra = [cfa - 8]
//!         2030  cfa = rsp + 8 + (pc & 15 >= 11 ? 8 : 0), ra = [cfa - 8]
//!         ...
//! $ tables --address 0x2026 /usr/bin/true
//! cfa = rsp + 24, ra = [cfa - 8]
//! $ tables --statistics /usr/bin/node
//! rows                       277509
//! bytes                     1145136   4.13 a row
//! ...
//! ```
#![expect(clippy::print_stdout, reason = "this is what the program is for")]

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_unwind::{Rule, Table};

const USAGE: &str = "usage: tables [--statistics | --address ADDRESS] FILE";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--statistics", file] => statistics(file),
        ["--address", address, file] => look_up(file, address),
        [file] if !file.starts_with("--") => rows(&open(file)?),
        _ => Err(USAGE.into()),
    }
}

fn open(file: &str) -> Result<Table, Box<dyn Error>> {
    let elf = Elf::open(File::open(file).map_err(|error| format!("{file}: {error}"))?)?;
    Ok(Table::of(&elf)?)
}

/// Every row: from which address on, how.
fn rows(table: &Table) -> Result<(), Box<dyn Error>> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = table.rows().try_for_each(|row| writeln!(out, "{:12x}  {}", row.address, row.rule));
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn look_up(file: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let address = u64::from_str_radix(digits, 16)?;
    match open(file)?.rule(address) {
        Some(rule) => println!("{rule}"),
        None => println!("no unwind data"),
    }
    Ok(())
}

fn statistics(file: &str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let table = open(file)?;
    println!("built in             {:>12.2?}", start.elapsed());
    let (rows, bytes) = (table.rows().count(), table.image().len());
    println!("rows                 {rows:>12}");
    println!("different rules      {:>12}", table.rules().count());
    println!("bytes                {bytes:>12}   {:.2} a row", bytes as f64 / rows.max(1) as f64);
    println!("rows a rule can't say{:>12}", table.unsupported());
    println!("malformed entries    {:>12}", table.malformed());
    println!();
    frequent(&table, rows);
    Ok(())
}

/// The rules that most rows have.
fn frequent(table: &Table, rows: usize) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for rule in table.rows().map(|row| row.rule) {
        *counts.entry(kind(rule)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    for (rule, count) in counts.iter().take(20) {
        println!("{:8.3} %  {rule}", 100.0 * *count as f64 / rows as f64);
    }
}

/// A rule without its numbers.
fn kind(rule: Rule) -> String {
    let shown = rule.to_string();
    let words = shown.split(' ').map(|word| {
        let number = word.trim_end_matches([',', ']', ')']);
        let is_number = number.parse::<u32>().is_ok();
        if is_number { word.replacen(number, "n", 1) } else { word.to_string() }
    });
    words.collect::<Vec<_>>().join(" ")
}
