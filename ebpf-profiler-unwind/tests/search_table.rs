//! Right and wrong `.eh_frame_hdr`: the table equals the one that is built without it.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod elf;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ebpf_profiler_core::elf::{Elf, ReadAt};
use ebpf_profiler_unwind::Table;
use ebpf_profiler_unwind::internal::validate;
use elf::{CODE, DATA, X86_64};

/// Output of a linker: descriptions, and a table of them.
#[derive(Clone, Default)]
struct Linked {
    frames: Vec<u8>,
    pairs: Vec<(u64, usize)>,
}

/// A function's address and size, its instructions, and whether it is named.
type Function<'a> = (u64, u32, &'a [u8], bool);

impl Linked {
    fn new(functions: &[Function<'_>]) -> Linked {
        let mut linked = Linked::default();
        let mut cie = 0;
        for (number, &(begin, size, instructions, is_named)) in functions.iter().enumerate() {
            if number % 3 == 0 {
                cie = linked.entry(b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0");
            }
            let offset = linked.frames.len();
            let mut body = ((offset + 4 - cie) as u32).to_le_bytes().to_vec();
            body.extend(((CODE + begin).wrapping_sub(DATA + offset as u64 + 8) as u32).to_le_bytes());
            body.extend(size.to_le_bytes());
            body.push(0);
            body.extend(instructions);
            linked.entry(&body);
            if is_named {
                linked.pairs.push((CODE + begin, offset));
            }
        }
        linked.pairs.sort_unstable();
        linked.frames.extend([0; 4]);
        linked
    }

    fn entry(&mut self, body: &[u8]) -> usize {
        let begin = self.frames.len();
        self.frames.extend((body.len() as u32).to_le_bytes());
        self.frames.extend(body);
        begin
    }

    /// Compares the tables with and without `header`; how often the section was read from its
    /// beginning.
    fn check_header(&self, header: &[u8]) -> usize {
        let with = Counted::new(elf::with_search_table(X86_64, &self.frames, header));
        let reads = Arc::clone(&with.reads);
        let with = Table::of(&Elf::open(with).unwrap()).unwrap();
        let without = Table::of(&elf::open(elf::with_section(X86_64, ".eh_frame", &self.frames))).unwrap();
        assert_eq!(validate(with.image()), Ok(()));
        let shown = |table: &Table| table.rows().map(|row| (row.address, row.rule)).collect::<Vec<_>>();
        assert_eq!(shown(&with), shown(&without));
        assert_eq!(with.image(), without.image());
        assert_eq!((with.malformed(), with.unsupported()), (without.malformed(), without.unsupported()));
        reads.load(Relaxed)
    }

    fn check(&self) -> usize {
        self.check_header(&elf::search_table(self.frames.len(), &self.pairs))
    }

    /// The same with another table.
    fn check_with(&self, change: impl FnOnce(&mut Vec<(u64, usize)>)) -> usize {
        let mut changed = self.clone();
        change(&mut changed.pairs);
        changed.check()
    }
}

/// A file that counts how often the first byte of `.eh_frame` is read.
struct Counted {
    file: Vec<u8>,
    reads: Arc<AtomicUsize>,
}

impl Counted {
    fn new(file: Vec<u8>) -> Counted {
        Counted { file, reads: Arc::default() }
    }
}

impl ReadAt for Counted {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        const BEGIN: usize = 64 + 3 * 56;
        let range = offset as usize..offset as usize + buffer.len();
        self.reads.fetch_add(usize::from(range.contains(&BEGIN)), Relaxed);
        buffer.copy_from_slice(self.file.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// To find the beginnings and to build, or to make an index and to build.
const READS_PER_BUILD: usize = 2;

/// Some functions, not in the order of their addresses; the second lies over the beginning of the
/// third, the last is malformed.
fn some() -> Linked {
    Linked::new(&[
        (0x400, 64, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0, 0, 0], true),
        (0x100, 64, &[0x0e, 24, 0], true),
        (0x120, 64, &[0x0e, 32, 0], true),
        (0x200, 64, &[0x44, 0x0e, 40, 0x48, 0x0e, 8, 0], true),
        (0x300, 64, &[0x0f, 3, 0x76, 0x78, 0x06, 0, 0], true),
        (0x500, 64, &[0x44, 0x0b, 0], true),
    ])
}

#[test]
fn the_truth_is_believed() {
    assert_eq!(some().check(), READS_PER_BUILD);
}

#[test]
fn what_is_not_named_is_found() {
    for number in 0..6 {
        assert_eq!(some().check_with(|pairs| _ = pairs.remove(number)), READS_PER_BUILD, "{number}");
    }
    assert_eq!(some().check_with(Vec::clear), READS_PER_BUILD);
}

/// LLVM's linker keeps the first of several, which may be empty.
#[test]
fn functions_that_were_folded() {
    let folded = Linked::new(&[
        (0x100, 0, &[0, 0, 0], true),
        (0x200, 32, &[0x0e, 16, 0], true),
        (0x100, 48, &[0x0e, 24, 0], false),
        (0x200, 64, &[0x0e, 32, 0], false),
        (0x100, 64, &[0x0e, 40, 0], false),
        (0x300, 0, &[0, 0, 0], true),
        (0x310, 0, &[0, 0, 0], false),
        (0x240, 0, &[0, 0, 0], true),
    ]);
    assert_eq!(folded.check(), READS_PER_BUILD);
    // The later of two is named.
    let mut other = folded.clone();
    let later = other.pairs.iter().position(|pair| pair.0 == CODE + 0x200).unwrap();
    other.pairs[later].1 = Linked::offset_of(&folded, 5);
    assert_eq!(other.check(), READS_PER_BUILD);
}

impl Linked {
    /// Returns the position of the entry with this number, from zero.
    fn offset_of(linked: &Linked, number: usize) -> usize {
        (0..number).fold(0, |at, _| {
            at + 4 + u32::from_le_bytes(linked.frames[at..][..4].try_into().unwrap()) as usize
        })
    }
}

#[test]
fn wrong_search_tables_do_not_change_the_table() {
    type Lie = fn(&mut Vec<(u64, usize)>);
    let lies: [(&str, Lie); 12] = [
        ("a pair twice", |pairs| pairs.insert(2, pairs[2])),
        ("a pair twice and another not at all", |pairs| pairs[2] = pairs[1]),
        ("a description twice", |pairs| pairs[2].1 = pairs[1].1),
        ("descriptions of one another", |pairs| (pairs[1].1, pairs[2].1) = (pairs[2].1, pairs[1].1)),
        ("another beginning", |pairs| pairs[1].0 += 4),
        ("another beginning before the code", |pairs| pairs[0].0 = CODE - 4),
        ("another beginning behind the code", |pairs| pairs[5].0 = DATA + 4),
        ("out of order", |pairs| pairs.swap(2, 3)),
        ("what several have in common", |pairs| pairs[3].1 = 0),
        ("the midst of a description", |pairs| pairs[3].1 += 4),
        ("no place at all", |pairs| pairs[3].1 = 1 << 20),
        ("the end of the section", |pairs| pairs.push((CODE + 0x600, pairs[4].1 + 4096))),
    ];
    for (lie, tell) in lies {
        assert!(some().check_with(tell) > READS_PER_BUILD, "{lie}");
    }
}

#[test]
fn headers_that_make_no_sense() {
    let linked = some();
    let header = elf::search_table(linked.frames.len(), &linked.pairs);
    for at in 0..header.len() {
        for bit in 0..8 {
            let mut changed = header.clone();
            changed[at] ^= 1 << bit;
            linked.check_header(&changed);
        }
        linked.check_header(&header[..at]);
    }
    for count in [0, 5, 7, u32::MAX] {
        let mut changed = header.clone();
        changed[8..12].copy_from_slice(&count.to_le_bytes());
        linked.check_header(&changed);
        changed.extend([0; 64]);
        linked.check_header(&changed);
    }
}

/// A fake description in the instructions of a true one, named in place of another: as many are
/// named as there are.
#[test]
fn a_description_within_another() {
    let mut linked = some();
    let at = linked.frames.len() - 4;
    let fake_at = at + 4 + 13 + 3;
    let mut instructions = vec![0x0f, 24, 0];
    instructions.extend(16u32.to_le_bytes());
    instructions.extend((fake_at as u32 + 4).to_le_bytes());
    instructions.extend(((CODE + 0x800).wrapping_sub(DATA + fake_at as u64 + 8) as u32).to_le_bytes());
    instructions.extend([16, 0, 0, 0, 0, 0x0e, 80, 0, 0, 0, 0, 0]);
    let mut body = ((at + 4) as u32).to_le_bytes().to_vec();
    body.extend(((CODE + 0x700).wrapping_sub(DATA + at as u64 + 8) as u32).to_le_bytes());
    body.extend([64, 0, 0, 0, 0]);
    body.extend(&instructions);
    linked.frames.truncate(at);
    linked.entry(&body);
    linked.frames.extend([0; 4]);
    assert_eq!(linked.check_with(|pairs| pairs.push((CODE + 0x700, at))), READS_PER_BUILD);
    assert!(linked.check_with(|pairs| pairs.push((CODE + 0x800, fake_at))) > READS_PER_BUILD);
}

/// Output of assemblers: entries without padding.
#[test]
fn entries_of_odd_lengths() {
    let odd = Linked::new(&[
        (0x400, 64, &[0x0e, 16], true),
        (0x100, 64, &[0x0e, 24], true),
        (0x200, 64, &[0x41, 0x0e, 24, 0], true),
        (0x300, 64, &[0], true),
        (0x500, 0, &[0, 0], true),
        (0x500, 64, &[0x0e, 48], false),
    ]);
    assert_ne!(odd.frames.len() % 4, 0);
    odd.check();
    assert_eq!((0..16).filter(|zeros| padded(&odd, *zeros).check() == READS_PER_BUILD).count(), 4);
}

fn padded(linked: &Linked, zeros: usize) -> Linked {
    let mut padded = linked.clone();
    padded.frames.extend(vec![0; zeros]);
    padded
}
