//! Go tables made up function by function.
#![expect(clippy::unwrap_used, reason = "a helper of tests may end a test")]

mod elf;

use ebpf_profiler_unwind::Table;
use ebpf_profiler_unwind::internal::validate;
use elf::{AARCH64, CODE, X86_64};

/// A layout of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    V1_16,
    V1_18,
    V1_20,
}

/// A function: its name, flags, and pc table.
type Function<'a> = (&'a str, u8, &'a [u8]);

const TOP_FRAME: u8 = 1;
const SP_WRITE: u8 = 2;

/// 0 for four instructions, 8 for one, 40 for eleven, 8 for one, 0 for one.
const FRAME: &[u8] = &[2, 4, 16, 1, 64, 11, 63, 1, 15, 1, 0];

impl Go {
    /// A table of functions of 32 bytes each.
    fn table(self, quantum: u8, functions: &[Function<'_>]) -> Vec<u8> {
        let (magic, entry_size) = match self {
            Go::V1_16 => (0xffff_fffau32, 8),
            Go::V1_18 => (0xffff_fff0, 4),
            Go::V1_20 => (0xffff_fff1, 4),
        };
        let (mut names, mut pc_tables, mut described) = (Vec::new(), vec![0], Vec::new());
        let mut list = Vec::new();
        let list_size = functions.len() * 2 * entry_size + entry_size;
        for (number, (name, flags, pc_table)) in functions.iter().enumerate() {
            let entry = self.entry(number);
            list.extend(&entry);
            list.extend(&((list_size + described.len()) as u64).to_le_bytes()[..entry_size]);
            described.extend(entry);
            let pc_table_at = if pc_table.is_empty() { 0 } else { pc_tables.len() };
            for word in [names.len(), 0, 0, pc_table_at, 0, 0, 0, 0] {
                described.extend((word as u32).to_le_bytes());
            }
            described.extend(vec![0; if self == Go::V1_20 { 4 } else { 0 }]);
            described.extend([0, *flags, 0, 0]);
            names.extend(name.bytes().chain([0]));
            pc_tables.extend_from_slice(pc_table);
        }
        list.extend(self.entry(functions.len()));
        let mut data = magic.to_le_bytes().to_vec();
        data.extend([0, 0, quantum, 8]);
        let header = if self == Go::V1_16 { 8 * 8 } else { 9 * 8 };
        let names_at = header;
        let pc_tables_at = names_at + names.len();
        let list_at = pc_tables_at + pc_tables.len();
        let mut words =
            vec![functions.len(), 0, CODE as usize, names_at, names_at, names_at, pc_tables_at, list_at];
        if self == Go::V1_16 {
            words.remove(2);
        }
        data.extend(words.iter().flat_map(|word| (*word as u64).to_le_bytes()));
        for part in [names, pc_tables, list, described] {
            data.extend(part);
        }
        data
    }

    fn entry(self, number: usize) -> Vec<u8> {
        let distance = 32 * number as u64;
        if self == Go::V1_16 {
            (CODE + distance).to_le_bytes().to_vec()
        } else {
            distance.to_le_bytes()[..4].to_vec()
        }
    }
}

fn table(machine: u16, data: &[u8]) -> Table {
    let table = Table::of(&elf::open(elf::with_section(machine, ".gopclntab", data))).unwrap();
    assert_eq!(validate(table.image()), Ok(()));
    table
}

fn rows(table: &Table) -> Vec<(u64, String)> {
    let rows = table.rows().filter(|row| row.address >= CODE);
    rows.map(|row| (row.address - CODE, row.rule.to_string())).collect()
}

fn shown<const N: usize>(rows: [(u64, &str); N]) -> Vec<(u64, String)> {
    rows.map(|(address, rule)| (address, rule.to_string())).to_vec()
}

const ENTRY: &str = "cfa = rsp + 8, ra = [cfa - 8]";

#[test]
fn every_version() {
    for go in [Go::V1_16, Go::V1_18, Go::V1_20] {
        let data = go.table(1, &[("main.main", 0, FRAME), ("runtime.goexit", TOP_FRAME, FRAME)]);
        assert_eq!(
            rows(&table(X86_64, &data)),
            shown([
                (0, ENTRY),
                (4, "cfa = rsp + 16, rbp = [cfa - 16], ra = [cfa - 8]"),
                (5, "cfa = rsp + 48, rbp = [cfa - 16], ra = [cfa - 8]"),
                (16, "cfa = rsp + 16, rbp = [cfa - 16], ra = [cfa - 8]"),
                (17, ENTRY),
                (32, "outermost frame"),
                (64, "no unwind data"),
            ]),
            "{go:?}"
        );
    }
}

/// Without section headers it is found by what it is, also behind something that only begins like
/// it.
#[test]
fn no_section_headers() {
    for go in [Go::V1_16, Go::V1_18, Go::V1_20] {
        let data = go.table(1, &[("main.main", 0, FRAME), ("runtime.goexit", TOP_FRAME, FRAME)]);
        let named = table(X86_64, &data);
        let lure = [&data[..8], &[0xff; 56]].concat();
        for front in [&[][..], &[1; 24], &lure] {
            let file = elf::without_sections(X86_64, &[front, &data].concat());
            assert_eq!(Table::of(&elf::open(file)).unwrap().image(), named.image(), "{go:?}");
        }
        let off_its_place = elf::without_sections(X86_64, &[&[1; 3], &data[..]].concat());
        assert_eq!(Table::of(&elf::open(off_its_place)).unwrap().rows().count(), 0);
    }
}

#[test]
fn arm64() {
    let data = Go::V1_20.table(4, &[("main.main", 0, &[2, 1, 64, 6, 63, 1, 0])]);
    assert_eq!(
        rows(&table(AARCH64, &data)),
        shown([
            (0, "cfa = sp, ra = x30"),
            (4, "cfa = sp + 32, x29 = [cfa - 40], ra = [cfa - 32]"),
            (28, "cfa = sp, ra = x30"),
            (32, "no unwind data"),
        ])
    );
}

#[test]
fn special_functions() {
    let functions: [Function<'_>; 6] = [
        ("runtime.systemstack", SP_WRITE, FRAME),
        ("runtime.text", 0, &[]),
        ("main.leaf", 0, &[2, 31, 0]),
        ("runtime.sigreturn__sigaction", 0, &[2, 32, 0]),
        ("main.odd", 0, &[0, 2, 0]),
        ("runtime.mstart", TOP_FRAME, FRAME),
    ];
    let table = table(X86_64, &Go::V1_20.table(1, &functions));
    assert_eq!(
        rows(&table),
        shown([
            (0, "cfa = rbp + 16, rbp = [cfa - 16], ra = [cfa - 8]"),
            (32, "no unwind data"),
            (64, ENTRY),
            (95, "all registers in the signal frame at rsp"),
            (128, "not expressible by a rule"),
            (160, "outermost frame"),
            (192, "no unwind data"),
        ])
    );
    assert_eq!((table.unsupported(), table.malformed()), (1, 0));
}

/// Go marks it as the outermost function of its stack.
#[test]
fn signal_handler_is_not_outermost() {
    for name in ["runtime.sigtramp", "runtime.sigtramp.abi0"] {
        let functions = [("main.main", 0, FRAME), (name, TOP_FRAME, FRAME)];
        let table = table(X86_64, &Go::V1_20.table(1, &functions));
        assert!(table.rows().all(|row| row.rule.to_string() != "outermost frame"), "{name}");
        assert!(
            table.rule(CODE + 33).is_some_and(|rule| rule.to_string().starts_with("cfa = rsp")),
            "{name}"
        );
    }
}

#[test]
fn lying_tables() {
    let good = Go::V1_20.table(1, &[("main.main", 0, FRAME), ("main.other", 0, FRAME)]);
    for at in 0..good.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut data = good.clone();
            data[at] = byte;
            table(X86_64, &data);
        }
        table(X86_64, &good[..at]);
    }
}

/// Each function's table is the same long one, so walking them all would take the square of the
/// size.
#[test]
fn a_shared_table_is_not_walked_for_ever() {
    let long: Vec<u8> = std::iter::repeat_n([2, 0, 1, 0], 5000).flatten().collect();
    let mut functions = vec![("main.f", 0, &long[..]); 1];
    functions.extend(vec![("main.g", 0, &[2, 32, 0][..]); 20_000]);
    let mut data = Go::V1_20.table(1, &functions);
    let needle = data.clone();
    // The second and later functions point to the first one's table: offset 1.
    let size = 44;
    let first = needle.len() - functions.len() * size;
    for number in 1..functions.len() {
        data[first + number * size + 16..][..4].copy_from_slice(&1u32.to_le_bytes());
    }
    let table = table(X86_64, &data);
    assert!(table.malformed() > 0);
}

/// Seeds of the fuzz targets of Go tables and of finished tables.
#[test]
#[ignore = "writes files"]
fn write_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/gopclntab");
    std::fs::create_dir_all(folder).unwrap();
    let functions =
        [("main.main", 0, FRAME), ("runtime.goexit", TOP_FRAME, FRAME), ("runtime.mcall", SP_WRITE, &[])];
    for (name, go) in [("1.16", Go::V1_16), ("1.18", Go::V1_18), ("1.20", Go::V1_20)] {
        std::fs::write(format!("{folder}/{name}"), go.table(1, &functions)).unwrap();
    }
    let image = table(X86_64, &Go::V1_20.table(1, &functions)).image().to_vec();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/image");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(format!("{folder}/go"), image).unwrap();
}
