//! Invariants for arbitrary input, one function per fuzz target.
//!
//! `fuzz/` runs them under libFuzzer, `tests/fuzz.rs` with any compiler. Each gives a number that tells what came out,
//! so that a generator of inputs can see which of them reach new code.
#![allow(dead_code, clippy::allow_attributes, reason = "each fuzz target needs one of them")]

#[path = "../elf/mod.rs"]
pub(crate) mod elf;
#[path = "../searches/mod.rs"]
mod searches;

use std::io::Cursor;

use ebpf_profiler_core::elf::{Arch, Elf, ReadAt};
use ebpf_profiler_core::unwind::{BareFunction, Entry, UnwindCompiler};
use ebpf_profiler_unwind::case::{Case, Outcome};
use ebpf_profiler_unwind::core_dump::{CoreDump, Search};
use ebpf_profiler_unwind::internal::validate;
use ebpf_profiler_unwind::{Table, Walk, tables};
use searches::Searches;

/// Any bytes as `.eh_frame`, for either instruction set: a table that keeps its promises, whatever they are.
pub(crate) fn eh_frame(data: &[u8]) -> u64 {
    let tables = [elf::X86_64, elf::AARCH64].into_iter().flat_map(|machine| {
        let files = [elf::with_section(machine, ".eh_frame", data), elf::with_program_header(machine, data)];
        files.map(|file| built(&elf::open(file), data.len()))
    });
    mixed(tables.map(|table| {
        for row in table.rows() {
            assert_eq!(table.rule(row.address), Some(row.rule).filter(|rule| rule.is_described()));
        }
        outcome(&table)
    }))
}

/// Any bytes as `.eh_frame` and `.eh_frame_hdr`, the first two telling how much is which: the table is that of the one
/// without the other.
pub(crate) fn search_table(data: &[u8]) -> u64 {
    let Some((size, data)) = data.split_first_chunk() else { return 0 };
    let Some((frames, header)) = data.split_at_checked(u16::from_le_bytes(*size).into()) else { return 0 };
    let table = built(&elf::open(elf::with_search_table(elf::X86_64, frames, header)), frames.len());
    let other = built(&elf::open(elf::with_section(elf::X86_64, ".eh_frame", frames)), frames.len());
    assert_eq!(table.image(), other.image());
    assert_eq!((table.malformed(), table.unsupported()), (other.malformed(), other.unsupported()));
    outcome(&table)
}

/// Any bytes as `.debug_frame`, as they are and compressed.
pub(crate) fn debug_frame(data: &[u8]) -> u64 {
    let files = [".debug_frame", ".zdebug_frame"].map(|name| elf::with_section(elf::X86_64, name, data));
    let packed = elf::with_flags(elf::X86_64, ".debug_frame", COMPRESSED, data);
    let tables =
        files.into_iter().chain([packed]).map(|file| Table::of(&elf::open(file)).expect("it can be read"));
    mixed(tables.map(|table| {
        assert_eq!(validate(table.image()), Ok(()));
        outcome(&table)
    }))
}

const COMPRESSED: u64 = 1 << 11;

/// Any bytes as Go's table, with a name and without.
pub(crate) fn gopclntab(data: &[u8]) -> u64 {
    let tables = [elf::X86_64, elf::AARCH64].into_iter().flat_map(|machine| {
        let files = [elf::with_section(machine, ".gopclntab", data), elf::without_sections(machine, data)];
        files.map(|file| built(&elf::open(file), data.len()))
    });
    mixed(tables.map(|table| outcome(&table)))
}

/// Any bytes as code of a function that nothing describes, entered in both ways: rows in order, however the code jumps.
pub(crate) fn derive(data: &[u8]) -> u64 {
    let elf = elf::open(elf::with_code(elf::X86_64, data));
    let range = elf::BARE..elf::BARE + data.len() as u64;
    mixed([Entry::Called, Entry::Framed].into_iter().map(|entry| {
        let functions = [BareFunction { range: range.clone(), entry }];
        let compiled = tables().compile_with(&elf, &functions).expect("it can be read");
        assert_eq!(validate(&compiled.image), Ok(()));
        Table::from_image(compiled.image, Arch::X86_64).map_or(0, |table| outcome(&table))
    }))
}

/// Any bytes as code between functions: rows in order, and rules only from registers that there are.
pub(crate) fn region(data: &[u8]) -> u64 {
    let elf = elf::open(elf::with_code(elf::X86_64, data));
    let table = Table::with_derived_rules(&elf).expect("it can be read");
    assert_eq!(validate(table.image()), Ok(()));
    assert!(table.rows().all(|row| !row.rule.is_described() || row.rule.raw().register < 16));
    outcome(&table)
}

/// Any bytes as an ELF file.
pub(crate) fn file(data: &[u8]) -> u64 {
    let Ok(table) = Table::from_elf(data) else { return 0 };
    assert_eq!(validate(table.image()), Ok(()));
    outcome(&table)
}

/// Any bytes as a table: it is refused, or it can be read, and all searches of the walkers find what it says. These meet
/// tables that are just being written, too, so there are no bytes at which they don't end.
pub(crate) fn image(data: &[u8]) -> u64 {
    let searches = Searches::new(data, 0);
    let base = data.first_chunk().map_or(0, |base| u64::from_le_bytes(*base));
    for bits in 0..24 {
        let _ = searches.find(base.wrapping_add(1 << bits));
    }
    let Ok(table) = Table::from_image(data.to_vec(), Arch::Aarch64) else { return 0 };
    let mut before = None;
    for row in table.rows() {
        let rule = row.rule.raw();
        assert_eq!(searches.find(row.address), [Some(rule); 3]);
        searches.find_called(row.address);
        if let Some(before) = before.replace(rule) {
            assert_eq!(searches.find(row.address - 1), [Some(before); 3]);
        }
        assert_eq!(table.rule(row.address), Some(row.rule).filter(|rule| rule.is_described()));
        let _ = row.rule.to_string();
    }
    outcome(&table)
}

/// Any bytes as a core dump, which is its own library, too: stacks are walked, and end.
pub(crate) fn core_dump(data: &[u8]) -> u64 {
    let Ok(dump) = CoreDump::open(Cursor::new(data.to_vec())) else { return 0 };
    let open = |_: &_| Ok(Box::new(Cursor::new(data.to_vec())) as Box<dyn ReadAt>);
    let loaded = dump.load(&Search::default(), open);
    mixed(dump.threads().iter().take(4).map(|thread| {
        let mut walk = Walk::new(loaded.modules(), &thread.registers, loaded.memory());
        let mut frames = 0;
        for native in walk.by_ref().filter_map(|frame| frame.native().copied()) {
            assert!(loaded.file_of(&native).is_none_or(|file| file < loaded.files().len()));
            frames += 1;
        }
        walk.stop().expect("every walk ends") as u64 | frames << 8
    }))
}

/// Any text as a case: it is refused, or it can be walked, and written and read again.
pub(crate) fn case(data: &[u8]) -> u64 {
    let case = match String::from_utf8_lossy(data).parse::<Case>() {
        Ok(case) => case,
        Err(error) => return error.what.len() as u64,
    };
    let again = case.to_string();
    assert_eq!(again.parse::<Case>().map(|case| case.to_string()), Ok(again));
    let Outcome { frames, stop, .. } = case.walk();
    1 << 32 | (frames.len() as u64) << 8 | stop as u64
}

/// The table of a file around `size` bytes: valid, and not much larger.
fn built(elf: &Elf, size: usize) -> Table {
    let table = Table::of(elf).expect("the file can be read");
    assert_eq!(validate(table.image()), Ok(()));
    assert!(table.image().len() <= (1 << 20) + size * 8);
    table
}

/// Roughly what a table is like: the kinds of its rules, and how many there are of everything.
fn outcome(table: &Table) -> u64 {
    let kinds = table.rules().map(|rule| {
        let rule = rule.raw();
        u64::from(rule.cfa)
            | u64::from(rule.ra) << 8
            | u64::from(rule.fp) << 16
            | u64::from(rule.register) << 24
    });
    let counts = [
        table.rows().take(64).count() as u64,
        table.malformed().ilog2_or_0(),
        table.unsupported().ilog2_or_0(),
    ];
    mixed(kinds.chain(counts))
}

fn mixed(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(1, |mixed, number| (mixed.rotate_left(7) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

trait OrZero {
    fn ilog2_or_0(self) -> u64;
}

impl OrZero for u32 {
    fn ilog2_or_0(self) -> u64 {
        self.checked_ilog2().map_or(0, |log| u64::from(log) + 1)
    }
}
