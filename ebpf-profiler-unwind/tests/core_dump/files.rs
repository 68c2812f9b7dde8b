//! The files of a dump: found by build id or path, refused where they are others.

use std::collections::HashMap;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use ebpf_profiler_core::elf::ReadAt;
use ebpf_profiler_unwind::core_dump::{CoreDump, Loaded, Origin, Problem, Search};

use crate::file::{CoreFile, X86_64, x86_64};
use crate::library::library;

const START: u64 = 0x55_0000_0000;

/// A dump that has the first page of a library in it, `held` bytes of it.
fn dump(library: &[u8], held: usize, path: &str) -> CoreDump {
    let size = library.len().next_multiple_of(4096) as u64;
    let file = CoreFile::new(X86_64).thread(7, &x86_64(START, 0, 0));
    let file = file.files(&[(START, START + size, 0, path)]);
    file.segment(START, 5, &library[..held], size).open().unwrap()
}

fn load(dump: &CoreDump, files: &[(&str, Vec<u8>)]) -> Loaded {
    let files: HashMap<PathBuf, Vec<u8>> =
        files.iter().map(|(path, bytes)| (PathBuf::from(path), bytes.clone())).collect();
    dump.load(&Search::new(["/elsewhere".into()]), |path: &Path| {
        let bytes = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadAt>)
    })
}

fn origin(loaded: &Loaded) -> &Origin {
    assert_eq!(loaded.files().len(), 1);
    &loaded.files()[0].origin
}

#[test]
fn by_path_and_by_build_id() {
    let library = library([0xab, 0xcd]);
    let dump = dump(&library, library.len(), "/lib/a.so");
    let by_path = load(&dump, &[("/elsewhere/lib/a.so", library.clone())]);
    assert_eq!(origin(&by_path), &Origin::Path("/elsewhere/lib/a.so".into()));
    assert_eq!(*by_path.files()[0].build_id, [0xab, 0xcd]);
    let id = "/elsewhere/usr/lib/debug/.build-id/ab/cd";
    let by_id = load(&dump, &[(id, library.clone()), ("/elsewhere/lib/a.so", library)]);
    assert_eq!(origin(&by_id), &Origin::Path(id.into()));
}

#[test]
fn another_build_is_refused() {
    let library = library([0xab, 0xcd]);
    let dump = dump(&library, library.len(), "/lib/a.so (deleted)");
    let other = crate::library::library([0xac, 0xcd]);
    let loaded = load(&dump, &[("/elsewhere/lib/a.so", other)]);
    assert_eq!(origin(&loaded), &Origin::Memory);
    assert_eq!(loaded.files()[0].problems, [Problem::Different("/elsewhere/lib/a.so".into())]);
}

#[test]
fn what_a_dump_does_not_hold_proves_nothing() {
    let library = library([0xab, 0xcd]);
    let dump = dump(&library, 0, "/lib/a.so");
    let loaded = load(&dump, &[("/elsewhere/lib/a.so", library)]);
    assert_eq!(origin(&loaded), &Origin::Unproved("/elsewhere/lib/a.so".into()));
    assert_eq!(origin(&load(&dump, &[])), &Origin::Nowhere);
}

#[test]
fn what_is_no_elf_file_is_said() {
    let library = library([0xab, 0xcd]);
    let dump = dump(&library, 0, "/lib/a.so");
    let loaded = load(&dump, &[("/elsewhere/lib/a.so", b"#!/bin/sh".to_vec())]);
    assert_eq!(origin(&loaded), &Origin::Nowhere);
    assert!(matches!(loaded.files()[0].problems[..], [Problem::Elf(..)]));
}
