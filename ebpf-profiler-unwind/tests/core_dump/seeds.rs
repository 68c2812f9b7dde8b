//! Seeds of the fuzz target of core dumps: dumps whose stacks can be walked, so that changes to them have
//! something to break.
//!
//! `SEEDS=write cargo test -p ebpf-profiler-unwind --test core_dump` writes them again.

use std::path::Path;

use ebpf_profiler_core::trace::Stop;
use ebpf_profiler_unwind::Walk;
use ebpf_profiler_unwind::core_dump::Search;

use crate::file::{AARCH64, CoreFile, X86_64, x86_64};
use crate::library::library;

const CODE: u64 = 0x5000;
const STACK: u64 = 0x7000;
const LIBRARY: u64 = 0x1_0000;

/// Three frames linked by frame pointers; the return address of each lies behind the call at `CODE + 32 * number`.
fn stack(behind: u64) -> Vec<u8> {
    let link = |number: u64| [STACK + 32 * (number + 1), CODE + 32 * number + behind, 0, 0];
    let words = [link(0), link(1), link(2), [0, 0, 0, 0]];
    words.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Calls, 32 bytes from one to the next.
fn code(call: &[u8]) -> Vec<u8> {
    let mut code = [call, &vec![0x90; 32 - call.len()]].concat();
    code = code.repeat(4);
    code
}

/// A thread in code that nothing describes, another in a library, files, a vDSO, the process.
fn of_x86_64() -> CoreFile {
    let (library, mut info) = (library([0xab, 0xcd]), vec![0; 136]);
    info[24] = 7;
    info[40..44].copy_from_slice(b"seed");
    let auxiliary: Vec<u8> = [33u64, LIBRARY, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect();
    CoreFile::new(X86_64)
        .note(3, &info)
        .thread(7, &x86_64(CODE + 8, STACK, STACK))
        .thread(8, &x86_64(LIBRARY, STACK, STACK))
        .note(6, &auxiliary)
        .files(&[(LIBRARY, LIBRARY + 0x1000, 0, "/lib/a.so")])
        .segment(CODE, 5, &code(b"\xe8\x1b\0\0\0"), 0x1000)
        .segment(STACK, 6, &stack(5), 128)
        .segment(LIBRARY, 5, &library, 0x1000)
}

/// The same stack on arm64, with the link register.
fn of_arm64() -> CoreFile {
    let mut words = [0; 34];
    (words[29], words[30], words[31], words[32]) = (STACK, CODE + 4, STACK, CODE + 8);
    CoreFile::new(AARCH64)
        .thread(7, &words)
        .segment(CODE, 5, &code(&0x9400_0008u32.to_le_bytes()), 0x1000)
        .segment(STACK, 6, &stack(4), 128)
}

#[test]
fn are_as_they_are_made_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/core_dump");
    for (name, file) in [("frames_x86_64", of_x86_64()), ("frames_arm64", of_arm64())] {
        let bytes = file.bytes();
        if std::env::var_os("SEEDS").is_some() {
            std::fs::write(folder.join(name), &bytes).unwrap();
        }
        assert!(std::fs::read(folder.join(name)).unwrap() == bytes, "{name} is another");
        assert!(bytes.len() < 4096, "the fuzzer takes no more");
    }
}

#[test]
fn can_be_walked() {
    for file in [of_x86_64(), of_arm64()] {
        let dump = file.open().unwrap();
        let loaded = dump.load(&Search::default(), |_| Err(std::io::ErrorKind::NotFound.into()));
        let mut walk = Walk::new(loaded.modules(), &dump.threads()[0].registers, loaded.memory());
        assert_eq!(walk.by_ref().count(), 4);
        assert_eq!(walk.stop(), Some(Stop::Root));
    }
}
