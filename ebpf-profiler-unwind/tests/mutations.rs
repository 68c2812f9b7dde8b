//! Real unwind data, damaged: never a panic, always a table that keeps its promises.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod random;

use std::io;
use std::sync::Arc;

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_unwind::Table;
use ebpf_profiler_unwind::internal::validate;
use random::Random;

/// A file with some bytes changed, or cut off.
#[derive(Clone)]
struct Damaged {
    file: Arc<Vec<u8>>,
    size: u64,
    changes: Vec<(u64, u8)>,
}

impl ReadAt for Damaged {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|&end| end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(&self.file[offset as usize..end as usize]);
        for &(at, byte) in self.changes.iter().filter(|(at, _)| (offset..end).contains(at)) {
            buffer[(at - offset) as usize] ^= byte;
        }
        Ok(())
    }
}

impl Damaged {
    /// This program itself.
    fn none() -> Damaged {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        Damaged { size: file.len() as u64, file: Arc::new(file), changes: Vec::new() }
    }

    /// Builds the table, or not.
    fn check(self) -> Option<Table> {
        let table = Table::of(&Elf::open(self).ok()?).ok()?;
        assert_eq!(validate(table.image()), Ok(()));
        Some(table)
    }
}

fn range(file: &Damaged, section: &str) -> std::ops::Range<u64> {
    let elf = Elf::open(file.clone()).unwrap();
    let section = elf.section(section).unwrap();
    section.offset..section.offset + section.size
}

#[test]
fn flipped_bits() {
    let whole = Damaged::none();
    let range = range(&whole, ".eh_frame");
    let rows = whole.clone().check().unwrap().rows().count();
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut malformed, mut least) = (0, rows);
    for round in 0..24u32 {
        let mut damaged = whole.clone();
        let mut flip = |_| (range.start + random.below(range.end - range.start), 1 << random.below(8));
        damaged.changes = (0..1 << (round % 12)).map(&mut flip).collect();
        let table = damaged.check().unwrap();
        malformed += table.malformed();
        least = least.min(table.rows().count());
    }
    assert!(malformed > 0 && least < rows, "the damage has no effect");
}

/// Without section headers the program headers lead to the same data.
#[test]
fn no_section_headers() {
    let whole = Damaged::none();
    let mut bare = whole.clone();
    // Where the section headers are, how many, and which has their names: all zero.
    bare.changes = (40..48).chain(60..64).map(|at| (at, whole.file[at as usize])).collect();
    assert!(Elf::open(bare.clone()).unwrap().sections().is_empty());
    assert_eq!(bare.check().unwrap().image(), whole.check().unwrap().image());
}

#[test]
fn a_file_cut_off() {
    let whole = Damaged::none();
    let range = range(&whole, ".eh_frame");
    for part in 0..16 {
        let size = [range.start + (range.end - range.start) * part / 16, whole.size * part / 16];
        for size in size {
            Damaged { size, ..whole.clone() }.check();
        }
    }
}

#[test]
fn wrong_headers() {
    let whole = Damaged::none();
    let mut random = Random(0xfedc_ba98_7654_3211);
    for _ in 0..100 {
        // The ELF header and the program headers.
        let mut damaged = whole.clone();
        damaged.changes = (0..3).map(|_| (16 + random.below(700), random.below(256) as u8)).collect();
        damaged.check();
    }
}
