//! Memory that is in a file and not in the dump.

use std::io::Cursor;

use ebpf_profiler_core::trace::Stack;
use ebpf_profiler_unwind::core_dump::Search;

use crate::file::{CoreFile, X86_64, x86_64};
use crate::library::library;

const START: u64 = 0x55_0000_0000;

#[test]
fn read_only_memory_comes_from_the_file() {
    let library = library([0xab, 0xcd]);
    let held = library.len() as u64 - 8;
    let file = CoreFile::new(X86_64).thread(7, &x86_64(START, 0, 0));
    let file =
        file.files(&[(START, START + 4096, 0, "/lib/a.so"), (START + 4096, START + 8192, 0, "/lib/a.so")]);
    // The last word of the first mapping was left out; the second could be written to, and all of it
    // was.
    let file = file.segment(START, 5, &library[..held as usize], 4096).segment(
        START + 4096,
        7,
        &library[..64],
        4096,
    );
    let dump = file.open().unwrap();
    let loaded = dump.load(&Search::default(), |_| Ok(Box::new(Cursor::new(library.clone()))));
    let last = u64::from_le_bytes(*library.last_chunk().unwrap());
    assert_eq!(dump.memory().read(START + held), None);
    assert_eq!(loaded.memory().read(START + held), Some(last));
    assert_eq!(loaded.memory().read(START + 4096 + 64), None, "it may have been written to");
}
