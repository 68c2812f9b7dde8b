//! Time of building a table, and of gimli's iteration over the same rows.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::usage::on_cpu;
use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_unwind::Table;
use ebpf_programs::abi::table::Rule;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection};

use crate::{Outcome, peak};

/// Duration of one round of each side.
const TURN: Duration = Duration::from_millis(150);
const TURNS: u32 = 5;

/// CPU milliseconds of gimli and of building; rows; bytes without rules; bytes allocated beyond the
/// table's.
pub(crate) fn measure(elf: &Elf) -> Outcome<[f64; 5]> {
    let (mut theirs, mut ours) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        theirs = theirs.min(time(|| walk(elf))?);
        ours = ours.min(time(|| build(elf))?);
    }
    let (table, peak) = peak::during(|| Table::of(elf));
    let table = table?;
    let bytes = table.image().len() - table.rules().count() * size_of::<Rule>();
    let over = peak as f64 - table.image().len() as f64;
    Ok([theirs, ours, table.rows().count() as f64, bytes as f64, over])
}

/// Returns CPU milliseconds of the fastest call in one round: other load only
/// slows calls down.
fn time(mut work: impl FnMut() -> Outcome) -> Outcome<f64> {
    let start = Instant::now();
    let mut least = Duration::MAX;
    let mut calls = 0;
    while start.elapsed() < TURN || calls < 3 {
        let begun = on_cpu();
        work()?;
        least = least.min(on_cpu() - begun);
        calls += 1;
    }
    Ok(least.as_secs_f64() * 1e3)
}

/// Builds the whole table and drops it.
pub(crate) fn build(elf: &Elf) -> Outcome {
    black_box(Table::of(elf)?);
    Ok(())
}

/// Iterates over all rows of all functions; each CIE is read once.
pub(crate) fn walk(elf: &Elf) -> Outcome {
    let header = elf.section(".eh_frame").ok_or("no .eh_frame")?;
    let data = elf.data(header)?;
    let section = EhFrame::new(&data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(header.address);
    let mut context = UnwindContext::new();
    let mut cies = HashMap::new();
    let mut entries = section.entries(&bases);
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|section, bases, offset| {
            cies.entry(offset).or_insert_with(|| section.cie_from_offset(bases, offset)).clone()
        })?;
        let mut rows = fde.rows(&section, &bases, &mut context)?;
        while let Some(row) = rows.next_row()? {
            black_box(row);
        }
    }
    Ok(())
}
