//! Files of any contents.

use super::*;

/// Returns the bytes of this program's C library.
fn library() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so"))?;
    std::fs::read(path).ok()
}

fn open(bytes: Vec<u8>) -> Option<Elf> {
    Elf::open(std::io::Cursor::new(bytes)).ok()
}

#[test]
fn damaged_files_are_rejected_or_bounded() {
    let Some(bytes) = library() else { return };
    let whole = open(bytes.clone()).unwrap();
    let dynamic = whole.segments().iter().find(|segment| segment.kind == 2).unwrap();
    let ranges = [(0, 64), (64, 14 * 56), (dynamic.offset as usize, dynamic.file_size as usize)];
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random() % 4 {
            let (start, size) = ranges[random() % ranges.len()];
            damaged[start + random() % size] = random() as u8;
        }
        let Some(elf) = open(damaged) else { continue };
        for own in [None, Some(0), Some(u64::MAX)] {
            let _ = relocations::origin(&elf, VARIABLE, own);
        }
        for offset in [0, 8, u64::MAX] {
            let _ = headers::offset_in_executable(&elf, offset);
        }
    }
    assert_eq!(relocations::origin(&whole, VARIABLE, None), None);
}
