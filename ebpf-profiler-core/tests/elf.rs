//! ELF headers compared with `readelf`, and damaged files.

use std::fs::File;
use std::io::Cursor;
use std::process::Command;

use ebpf_profiler_core::elf::{Elf, ElfError, segment_type};

/// Returns files of this machine: this test, its compiler's linker, the C library.
fn files() -> Vec<String> {
    let own = std::env::current_exe().expect("a path").to_str().expect("a path in UTF-8").to_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    let libc =
        maps.lines().find_map(|line| line.split_whitespace().last().filter(|path| path.contains("/libc.so")));
    [Some(own), libc.map(str::to_owned), Some("/usr/bin/readelf".to_owned())].into_iter().flatten().collect()
}

fn readelf(option: &str, path: &str) -> String {
    let output = Command::new("readelf").args(["--wide", option, path]).output();
    let output = output.expect("cannot run readelf, install package binutils");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn open(path: &str) -> Elf {
    Elf::open(File::open(path).expect("a file")).expect("an ELF file")
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
}

#[test]
fn sections() {
    test_needs::programs!("readelf");
    for path in files() {
        let elf = open(&path);
        // `  [12] .text  PROGBITS  0000000000001080 001080 00028b 00  AX  0   0 16`
        let row = |line: &str| {
            let (number, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let &[name, _, address, offset, size, ..] = &words[..] else { return None };
            Some((
                number.trim().parse::<usize>().ok()?,
                name.to_owned(),
                hex(address)?,
                hex(offset)?,
                hex(size)?,
            ))
        };
        let rows: Vec<_> = readelf("--sections", &path).lines().filter_map(row).collect();
        assert!(rows.len() > 10, "{path}");
        for (number, name, address, offset, size) in rows.into_iter().skip(1) {
            let section = &elf.sections()[number];
            assert_eq!((&*section.name, section.address), (name.as_str(), address), "{path}");
            assert_eq!((section.offset, section.size), (offset, size), "{path} {name}");
        }
    }
}

#[test]
fn segments() {
    test_needs::programs!("readelf");
    for path in files() {
        let elf = open(&path);
        // `  LOAD  0x001000 0x0000000000001000 0x0000000000001000 0x00028d 0x00028d R E 0x1000`
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &["LOAD", offset, address, _, file, memory, ..] = &words[..] else { return None };
            Some((hex(offset)?, hex(address)?, hex(file)?, hex(memory)?))
        };
        let theirs: Vec<_> = readelf("--segments", &path).lines().filter_map(row).collect();
        let loaded = elf.segments().iter().filter(|segment| segment.kind == segment_type::PT_LOAD);
        let ours: Vec<_> = loaded.map(|s| (s.offset, s.address, s.file_size, s.memory_size)).collect();
        assert!(!ours.is_empty());
        assert_eq!(ours, theirs, "{path}");
    }
}

#[test]
fn build_id_and_entry() {
    test_needs::programs!("readelf");
    for path in files() {
        let elf = open(&path);
        let notes = readelf("--notes", &path);
        let theirs = notes.lines().find_map(|line| line.split("Build ID: ").nth(1));
        let ours = elf.build_id().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(ours.as_deref(), theirs, "{path}");
        let header = readelf("--file-header", &path);
        let entry = header.lines().find_map(|line| hex(line.split("Entry point address:").nth(1)?.trim()));
        assert_eq!(Some(elf.entry()), entry, "{path}");
    }
}

#[test]
fn addresses_and_offsets_lead_to_the_same_bytes() {
    let elf = open(&files()[0]);
    let text = elf.section(".text").expect("code").clone();
    let mut loaded = vec![0; 64];
    elf.read(text.address, &mut loaded).expect("loaded");
    assert_eq!(loaded, elf.bytes(text.offset, 64).expect("in the file"));
    assert_eq!(elf.code_address(text.offset), Some(text.address));
    assert_eq!(elf.file_offset(text.address, text.size), Some(text.offset));
    assert_eq!(elf.read(u64::MAX - 3, &mut loaded), Err(ElfError::NotLoaded { address: u64::MAX - 3 }));
    assert!(matches!(elf.bytes(u64::MAX, 2), Err(ElfError::OutOfFile { .. })));
    assert!(matches!(elf.bytes(elf.size(), 1), Err(ElfError::OutOfFile { .. })));
    assert!(matches!(elf.fill(elf.size() - 1, &mut loaded), Err(ElfError::OutOfFile { .. })));
}

/// Reads everything that the headers point to.
fn ask(bytes: Vec<u8>) {
    let Ok(elf) = Elf::open(Cursor::new(bytes)) else { return };
    let _ = elf.build_id();
    for segment in elf.segments() {
        let _ = elf.file_offset(segment.address, segment.file_size);
        let _ = elf.code_address(segment.offset);
        let _ = elf.read(segment.address, &mut [0; 16]);
    }
    for section in elf.sections() {
        let _ = elf.data(section);
    }
}

#[test]
fn broken_headers() {
    test_needs::programs!("readelf");
    let mut small = std::fs::read("/usr/bin/readelf").expect("readelf, of package binutils");
    let sections = small.split_off(small.len() - 4096);
    small.truncate(4096);
    small.extend(sections);
    for size in (0..small.len()).step_by(61) {
        ask(small[..size].to_vec());
    }
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..3000 {
        let mut bytes = small.clone();
        for _ in 0..3 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Headers of the file and of its segments, where a changed byte has the largest effect.
            let at = (state >> 8) as usize % 900;
            bytes[at] = if state & 1 == 0 { 0xff } else { state as u8 };
        }
        ask(bytes);
    }
}

/// Returns the header of a file with these fields.
fn header(segments: (u64, u16), sections: (u64, u16)) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
    bytes[32..40].copy_from_slice(&segments.0.to_le_bytes());
    bytes[40..48].copy_from_slice(&sections.0.to_le_bytes());
    bytes[56..58].copy_from_slice(&segments.1.to_le_bytes());
    bytes[60..62].copy_from_slice(&sections.1.to_le_bytes());
    bytes
}

#[test]
fn rejects_too_many_headers() {
    // The number of sections is in the first section's header, and the sparse file is large enough for
    // all of them.
    let mut bytes = header((0, 0), (64, 0));
    bytes.resize(64 + 64, 0);
    bytes[64 + 32..64 + 40].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert_eq!(Elf::open(Cursor::new(bytes)).err(), Some(ElfError::TooLarge { size: 1 << 40 }));
}

#[test]
fn rejects_headers_outside_of_the_file() {
    let refused = |bytes| matches!(Elf::open(Cursor::new(bytes)), Err(ElfError::OutOfFile { .. }));
    assert!(refused(header((64, 1), (0, 0))));
    assert!(refused(header((u64::MAX, 1), (0, 0))));
    assert!(refused(header((0, 0), (64, 1))));
    assert!(refused(header((0, 0), (u64::MAX - 32, 2))));
    assert!(Elf::open(Cursor::new(header((0, 0), (0, 0)))).is_ok());
}

/// A program runs by its segments; its section table, which comes last, may be truncated or
/// overwritten.
#[test]
fn reads_segments_without_section_table() {
    let path = std::env::current_exe().expect("a path");
    let mut bytes = std::fs::read(&path).expect("a file");
    let whole = Elf::open(Cursor::new(bytes.clone())).expect("an ELF file");
    bytes.pop();
    let cut = Elf::open(Cursor::new(bytes)).expect("an ELF file");
    assert_eq!((cut.segments(), cut.build_id()), (whole.segments(), whole.build_id()));
    assert!(cut.sections().is_empty() && !whole.sections().is_empty());
}

/// Returns name and address of the functions and variables in a table, as `readelf` shows it. A
/// name with several versions is repeated.
fn symbols(option: &str, path: &str) -> Vec<(String, u64)> {
    // Row of `readelf`: `   12: 0000000000001139    27 FUNC    GLOBAL DEFAULT   14 main`
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, address, _, "FUNC" | "OBJECT" | "TLS" | "IFUNC", _, _, section, name] = &words[..] else {
            return None;
        };
        (section != "UND").then_some((name.split('@').next()?.to_owned(), hex(address)?))
    };
    readelf(option, path).lines().filter_map(row).collect()
}

#[test]
fn finds_exported_names_only() {
    test_needs::programs!("readelf");
    for path in files() {
        let elf = open(&path);
        let theirs = symbols("--dyn-syms", &path);
        let Some(exports) = elf.exports() else {
            assert!(theirs.is_empty(), "{path} exports something");
            continue;
        };
        for (name, _) in theirs.iter().filter(|(name, _)| name.len() < 200) {
            let found = exports.get(name).expect(name).address;
            assert!(theirs.contains(&(name.clone(), found)), "{path}: {name}");
            for other in [format!("{name}_"), format!("_{name}"), name[1..].to_owned()] {
                let is_there = theirs.iter().any(|(name, _)| *name == other);
                assert_eq!(exports.get(&other).is_some(), is_there, "{path}: {other}");
            }
        }
    }
}

#[test]
fn finds_all_names_of_an_unstripped_file() {
    test_needs::programs!("readelf");
    let [own, ..] = &files()[..] else { panic!("no file") };
    let elf = open(own);
    let mut ours = Vec::new();
    elf.for_each_symbol(|name, symbol| {
        ours.push((String::from_utf8_lossy(name).into_owned(), symbol.address))
    });
    let theirs = symbols("--symbols", own);
    assert!(theirs.len() > 1000);
    let ours: std::collections::HashSet<_> = ours.into_iter().collect();
    // `readelf` truncates longer names, and appends versions in brackets.
    let missing = theirs.iter().find(|row| row.0.len() < 60 && !row.0.contains('(') && !ours.contains(*row));
    assert_eq!(missing, None);
    for (name, _) in theirs.iter().step_by(theirs.len() / 20) {
        assert!(elf.has_symbol(&["nothing", name]), "{name}");
    }
    assert!(!elf.has_symbol(&["what_nobody_calls_anything_like_this"]));
}
