//! Files that were cut off or changed: a precise error or what is left, never a panic.

use std::io::Cursor;

use ebpf_profiler_core::trace::Stack;
use ebpf_profiler_unwind::Walk;
use ebpf_profiler_unwind::core_dump::{CoreDump, Search};

use crate::file::{CoreFile, X86_64, x86_64};

fn file() -> CoreFile {
    let stack: Vec<u8> = [0u64, 0x5018, 0x7020, 0x5028, 0, 0].map(u64::to_le_bytes).concat();
    let code = [0xe8; 64];
    CoreFile::new(X86_64)
        .thread(7, &x86_64(0x5010, 0x7000, 0x7000))
        .files(&[(0x5000, 0x6000, 0, "/no/such/file")])
        .note(6, &[33u64, 0x9000, 0, 0].map(u64::to_le_bytes).concat())
        .segment(0x5000, 5, &code, 0x1000)
        .segment(0x7000, 6, &stack, 48)
        .segment(0x9000, 5, b"no vdso", 0x1000)
}

/// Does everything that can be done with a dump.
fn use_up(bytes: Vec<u8>) -> Option<CoreDump> {
    let dump = CoreDump::open(Cursor::new(bytes)).ok()?;
    let loaded = dump.load(&Search::default(), |_| Err(std::io::ErrorKind::NotFound.into()));
    for thread in dump.threads() {
        let mut walk = Walk::new(loaded.modules(), &thread.registers, loaded.memory());
        walk.by_ref().for_each(|frame| _ = frame.to_string());
        assert!(walk.stop().is_some());
    }
    Some(dump)
}

#[test]
fn cut_off_anywhere() {
    let whole = file().bytes();
    assert_eq!(use_up(whole.clone()).unwrap().gaps(), Default::default());
    let mut missing = u64::MAX;
    for size in 0..whole.len() {
        let Some(dump) = use_up(whole[..size].to_vec()) else { continue };
        assert!(dump.gaps().memory <= missing, "{size}");
        missing = dump.gaps().memory;
        assert!(missing > 0 || dump.gaps().notes > 0, "{size}: nothing is said to be missing");
    }
    assert_eq!(missing, 1);
}

#[test]
fn each_byte_changed() {
    let whole = file().bytes();
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            use_up(bytes);
        }
    }
}

#[test]
fn what_was_cut_off_is_not_there() {
    let mut bytes = file().bytes();
    bytes.truncate(bytes.len() - 7 - 8);
    let dump = use_up(bytes).unwrap();
    assert_eq!(dump.gaps().memory, 15);
    let mut memory = dump.memory();
    assert_eq!(memory.read(0x7020), Some(0));
    assert_eq!(memory.read(0x7028), None);
}

#[test]
fn sizes_that_lie_take_no_memory() {
    let mut file = file();
    // A note of 4 GiB.
    file.notes[4..8].fill(0xff);
    assert!(file.open().is_err());
    let many = [u64::MAX / 24, 4096].map(u64::to_le_bytes).concat();
    let dump = CoreFile::new(X86_64).thread(7, &[0; 27]).note(0x4649_4c45, &many).open().unwrap();
    assert_eq!((dump.files().len(), dump.gaps().notes), (0, 1));
}

/// `WRITE_SEED=1 cargo test --test core_dump seed` writes it again.
#[test]
fn the_seed_of_the_fuzz_target_is_this_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/core_dump/x86_64");
    if std::env::var_os("WRITE_SEED").is_some() {
        std::fs::write(path, file().bytes()).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == file().bytes());
}
