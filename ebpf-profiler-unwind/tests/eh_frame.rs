//! Unwind data made up byte by byte: the usual, the rare, and the hostile.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod elf;

use ebpf_profiler_unwind::Table;
use ebpf_profiler_unwind::internal::validate;
use ebpf_programs::abi::table::kept;
use elf::{AARCH64, CODE, DATA, X86_64};

/// `.eh_frame` that grows entry by entry.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    /// A CIE, and where it begins: version 1, advances in bytes, offsets in words, return address
    /// in `ra`.
    fn cie(&mut self, augmentation: &str, ra: u8, instructions: &[u8]) -> usize {
        let mut body = vec![0, 0, 0, 0, 1];
        body.extend(augmentation.bytes());
        body.extend([0, 1, 0x78, ra, 1, 0x1b]);
        body.extend(instructions);
        self.entry(&body)
    }

    /// An FDE for `size` bytes from `begin` on; its instructions come with their end.
    fn fde(&mut self, cie: usize, begin: u64, size: u32, instructions: &[u8]) -> usize {
        let id = self.0.len() + 4 - cie;
        let place = DATA + self.0.len() as u64 + 8;
        let mut body = (id as u32).to_le_bytes().to_vec();
        body.extend((begin.wrapping_sub(place) as u32).to_le_bytes());
        body.extend(size.to_le_bytes());
        body.push(0);
        body.extend(instructions);
        self.entry(&body)
    }

    fn entry(&mut self, body: &[u8]) -> usize {
        let begin = self.0.len();
        self.0.extend((body.len() as u32).to_le_bytes());
        self.0.extend(body);
        begin
    }

    fn table(&self, machine: u16) -> Table {
        let table = Table::of(&elf::open(elf::with_section(machine, ".eh_frame", &self.0))).unwrap();
        assert_eq!(validate(table.image()), Ok(()));
        table
    }
}

/// All rows from the first function on.
fn rows(table: &Table) -> Vec<(u64, String)> {
    let rows = table.rows().map(|row| (row.address.wrapping_sub(CODE), row.rule.to_string()));
    rows.filter(|(address, _)| *address < 1 << 32).collect()
}

fn shown<const N: usize>(rows: [(u64, &str); N]) -> Vec<(u64, String)> {
    rows.map(|(address, rule)| (address, rule.to_string())).to_vec()
}

/// `cfa = rsp + 8, ra = [cfa - 8]`
const ENTRY: &[u8] = &[0x0c, 7, 8, 0x90, 1];

const NOTHING: &str = "no unwind data";

#[test]
fn a_frame_pointer_function() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    // push rbp; cfa = rsp + 16; mov rbp, rsp; cfa = rbp + 16; leave
    frames.fde(cie, CODE, 32, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x5b, 0xc6, 0x0c, 7, 8]);
    assert_eq!(
        rows(&frames.table(X86_64)),
        shown([
            (0, "cfa = rsp + 8, ra = [cfa - 8]"),
            (1, "cfa = rsp + 16, rbp = [cfa - 16], ra = [cfa - 8]"),
            (4, "cfa = rbp + 16, rbp = [cfa - 16], ra = [cfa - 8]"),
            (31, "cfa = rsp + 8, ra = [cfa - 8]"),
            (32, NOTHING),
        ])
    );
}

#[test]
fn found_without_sections() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE, 32, &[]);
    let by_section = frames.table(X86_64);
    // Eight bytes of header stand in front of the data.
    let mut moved = Frames::default();
    let cie = moved.cie("zR", 16, ENTRY);
    moved.fde(cie, CODE - 8, 32, &[]);
    moved.entry(&[]);
    moved.0.extend([0xee; 40]);
    let by_header = Table::of(&elf::open(elf::with_program_header(X86_64, &moved.0))).unwrap();
    assert_eq!(by_header.image(), by_section.image());
    assert_eq!(by_header.malformed(), 0);
}

#[test]
fn padding_is_described_and_gaps_are_not() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE, 5, &[]);
    frames.fde(cie, CODE + 16, 4, &[0x0e, 16]);
    frames.fde(cie, CODE + 26, 6, &[]);
    frames.fde(cie, CODE + 64, 8, &[]);
    let plain = "cfa = rsp + 8, ra = [cfa - 8]";
    assert_eq!(
        rows(&frames.table(X86_64)),
        shown([
            (0, plain),
            (16, "cfa = rsp + 16, ra = [cfa - 8]"),
            // The function at 26 isn't aligned: what is before it may be code.
            (20, NOTHING),
            (26, plain),
            (32, NOTHING),
            (64, plain),
            (72, NOTHING),
        ])
    );
}

#[test]
fn the_function_that_begins_last_holds() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE + 32, 32, &[0x0e, 32]);
    frames.fde(cie, CODE, 100, &[0x0e, 24]);
    frames.fde(cie, CODE, 100, &[0x0e, 40]);
    assert_eq!(
        rows(&frames.table(X86_64)),
        shown(
            [(0, "cfa = rsp + 24, ra = [cfa - 8]"), (32, "cfa = rsp + 32, ra = [cfa - 8]"), (64, NOTHING),]
        )
    );
}

#[test]
fn a_description_of_nothing_hides_no_function() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE, 0, &[]);
    frames.fde(cie, CODE, 16, &[0x0e, 24]);
    frames.fde(cie, CODE + 8, 0, &[]);
    let table = frames.table(X86_64);
    assert_eq!(rows(&table), shown([(0, "cfa = rsp + 24, ra = [cfa - 8]"), (16, NOTHING)]));
    assert_eq!(table.malformed(), 0);
}

#[test]
fn rules_beyond_the_usual() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    // cfa = [rbp - 8], rbp at expression rbp + 0
    frames.fde(cie, CODE, 16, &[0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0]);
    // rip undefined
    frames.fde(cie, CODE + 16, 16, &[0x07, 16]);
    // cfa = expression lit0
    frames.fde(cie, CODE + 32, 16, &[0x0f, 1, 0x30]);
    // rbp in rbx
    frames.fde(cie, CODE + 48, 16, &[0x09, 6, 3]);
    // rip in rdi, cfa of 40 bits
    frames.fde(cie, CODE + 64, 16, &[0x09, 16, 5, 0x44, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]);
    let table = frames.table(X86_64);
    assert_eq!(
        rows(&table),
        shown([
            (0, "cfa = [rbp - 8], rbp = [rbp], ra = [cfa - 8]"),
            (16, "outermost frame"),
            (32, "not expressible by a rule"),
            (48, "cfa = rsp + 8, rbp = ?, ra = [cfa - 8]"),
            (64, "cfa = rsp + 8, ra = rdi"),
            (68, "not expressible by a rule"),
            (80, NOTHING),
        ])
    );
    assert_eq!((table.unsupported(), table.malformed()), (3, 0));
}

/// One function has its frame address in rbx: then rows of all functions of the file, also earlier
/// ones, say where rbx is saved.
#[test]
fn a_register_that_an_address_starts_from_is_kept() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    // push rbp; push rbx; pop rbx; then rbx at cfa - 504, cfa - 512, cfa - 20, nowhere, in rdx, where
    // it was
    let saved = [0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0e, 24, 0x83, 3, 0x41, 0xc3, 0x0e, 16];
    let odd =
        [0x41, 0x83, 63, 0x41, 0x83, 64, 0x41, 0x14, 3, 20, 0x41, 0x07, 3, 0x41, 0x09, 3, 1, 0x41, 0x08, 3];
    frames.fde(cie, CODE, 16, &[&saved[..], &odd].concat());
    frames.fde(cie, CODE + 16, 16, &[0x0c, 3, 32, 0x83, 4]);
    let table = frames.table(X86_64);
    let behind = |rbx: &str| format!("cfa = rsp + 16, rbp = [cfa - 16]{rbx}, ra = [cfa - 8]");
    assert_eq!(
        rows(&table),
        shown([
            (0, "cfa = rsp + 8, ra = [cfa - 8]"),
            (1, &behind("")),
            (2, "cfa = rsp + 24, rbp = [cfa - 16], rbx = [cfa - 24], ra = [cfa - 8]"),
            (3, &behind("")),
            (4, &behind(", rbx = [cfa - 504]")),
            (5, &behind(", rbx = ?")),
            (9, &behind("")),
            (16, "cfa = rbx + 32, rbx = [cfa - 32], ra = [cfa - 8]"),
            (32, NOTHING),
        ])
    );
    let kept = table.rules().map(|rule| rule.raw().ra >> kept::SHIFT & kept::NUMBER);
    // But for those that say that there is nothing to say.
    assert!(kept.skip(2).all(|number| number == 3));
    // Too far away, in no word, in another register.
    assert_eq!((table.unsupported(), table.malformed()), (3, 0));
}

#[test]
fn signal_frames() {
    let mut frames = Frames::default();
    let cie = frames.cie("zRS", 16, ENTRY);
    // cfa = [rsp + 160], rip at rsp + 168: glibc's trampoline
    let registers = [0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1];
    frames.fde(cie, CODE, 16, &registers);
    let rule = frames.table(X86_64).rule(CODE).unwrap().to_string();
    assert_eq!(rule, "all registers in the signal frame at rsp");

    let mut frames = Frames::default();
    let cie = frames.cie("zRS", 30, &[0x0c, 29, 0, 0x9d, 0, 0x9e, 1]);
    frames.fde(cie, CODE, 16, &[]);
    let rule = frames.table(AARCH64).rule(CODE).unwrap().to_string();
    assert_eq!(rule, "all registers in the signal frame at sp + 128");
}

#[test]
fn signed_return_addresses() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 30, &[0x0c, 31, 0]);
    // paciasp; stp x29, x30, [sp, -32]!; ldp; autiasp
    frames.fde(
        cie,
        CODE,
        32,
        &[0x44, 0x2d, 0x44, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x44, 0x0e, 0, 0xdd, 0xde, 0x44, 0x2d],
    );
    assert_eq!(
        rows(&frames.table(AARCH64)),
        shown([
            (0, "cfa = sp, ra = x30"),
            (4, "cfa = sp, ra = strip(x30)"),
            (8, "cfa = sp + 32, x29 = [cfa - 32], ra = strip([cfa - 24])"),
            (12, "cfa = sp, ra = strip(x30)"),
            (16, "cfa = sp, ra = x30"),
            (32, NOTHING),
        ])
    );
}

#[test]
fn nonsense_is_counted_and_passed_over() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE, 16, &[0x44, 0x0b]);
    frames.fde(cie, 0, 16, &[]);
    frames.fde(cie + 1, CODE + 32, 16, &[]);
    // An FDE that names itself as its CIE.
    let own = frames.0.len();
    frames.fde(own, CODE + 32, 16, &[]);
    frames.fde(cie, CODE + 48, u32::MAX, &[]);
    let unknown = frames.cie("zQ", 16, ENTRY);
    frames.fde(unknown, CODE + 48, 16, &[]);
    frames.fde(cie, CODE + 16, 16, &[0x0e, 16]);
    frames.0.extend([0xff, 0xff, 0xff, 0x7f, 1]);
    let table = frames.table(X86_64);
    assert_eq!(
        rows(&table),
        shown([
            (0, "cfa = rsp + 8, ra = [cfa - 8]"),
            (4, "not expressible by a rule"),
            (16, "cfa = rsp + 16, ra = [cfa - 8]"),
            (32, NOTHING),
        ])
    );
    assert_eq!(table.malformed(), 7);
}

#[test]
fn every_byte_may_have_a_row() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    let instructions: Vec<u8> = (0..30_000).flat_map(|n| [0x41, 0x0e, 8 + n as u8 % 64]).collect();
    frames.fde(cie, CODE, 70_000, &instructions);
    let table = frames.table(X86_64);
    for n in [0, 1, 4_095, 4_096, 16_383, 16_384, 28_999, 29_999u64] {
        let expected = format!("cfa = rsp + {}, ra = [cfa - 8]", 8 + n % 64);
        assert_eq!(table.rule(CODE + n + 1).unwrap().to_string(), expected);
    }
    assert_eq!((table.unsupported(), table.rule(CODE + 69_999)), (0, table.rule(CODE + 30_000)));
    assert_eq!(table.rule(CODE + 70_000), None);
}

#[test]
fn a_function_of_many_pages_answers_on_each() {
    let mut frames = Frames::default();
    let cie = frames.cie("zR", 16, ENTRY);
    frames.fde(cie, CODE + 0x8000, 0x10_0000, &[0x0e, 24]);
    let table = frames.table(X86_64);
    for address in [0x8000, 0x1_0000, 0x9_1234, 0x10_7fff] {
        assert_eq!(table.rule(CODE + address).unwrap().to_string(), "cfa = rsp + 24, ra = [cfa - 8]");
    }
    assert_eq!(table.rule(CODE + 0x7fff), None);
    assert_eq!(table.rule(CODE + 0x10_8000), None);
}

/// Sections compressed with zstd are skipped and counted.
#[test]
fn sections_that_are_packed_in_an_unknown_way_are_counted() {
    const COMPRESSED: u64 = 1 << 11;
    let header = [2u32, 0, 64, 0, 8, 0].map(u32::to_le_bytes).concat();
    let packed = [&header[..], &[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0]].concat();
    let table = Table::of(&elf::open(elf::with_flags(X86_64, ".debug_frame", COMPRESSED, &packed))).unwrap();
    assert_eq!((table.rows().count(), table.malformed()), (0, 1));
}
