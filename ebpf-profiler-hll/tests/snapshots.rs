//! Snapshots of processes of each language: named as when they were recorded, and within bounds
//! when memory and files lie.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod peak;
mod snapshot;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ebpf_profiler_core::language::{Function, Memory, Reason};
use snapshot::lies::{Lies, Random};
use snapshot::{Snapshot, SnapshotFrame};

/// Reads of memory at most, for one call.
const MAX_READS: u64 = 10_000;

/// Bytes that are read at most, for one call.
const MAX_BYTES: u64 = 20 << 20;

/// Bytes that are allocated at most at a time, for one call.
const MAX_ALLOCATED: usize = 8 << 20;

/// Bytes that the state of one process takes at most.
const MAX_STATE: isize = 16 << 20;

/// Memories that lie, for each snapshot, and copies of its process; `LIES` sets another number.
const LIES: u64 = 240;

fn number_of_lies() -> u64 {
    std::env::var("LIES").ok().and_then(|count| count.parse().ok()).unwrap_or(LIES)
}

fn snapshots() -> Vec<(String, Snapshot)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() < 200_000, "{name} is large");
        let snapshot: Snapshot = text.parse().unwrap_or_else(|error| unreachable!("{name}: {error}"));
        assert!(snapshot.to_string() == text, "{name} is written as it was not");
        (name, snapshot)
    };
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn frames_have_recorded_names() {
    let snapshots = snapshots();
    for (name, snapshot) in &snapshots {
        let runtime = snapshot.find().expect("a runtime");
        let mut attachment = snapshot.attach(&*runtime, &snapshot.memory).unwrap();
        for frame in &snapshot.frames {
            let found = frame.read(attachment.names(), &snapshot.memory);
            assert_eq!(found.as_ref(), Ok(&frame.names), "{name}: {:x}", frame.function);
        }
    }
    let mut languages: Vec<_> = snapshots.iter().map(|(_, snapshot)| &*snapshot.language).collect();
    languages.sort_unstable();
    languages.dedup();
    assert_eq!(languages, ["jvm", "luajit", "perl", "php", "ruby", "v8js"]);
}

/// The check of a frame distinguishes its function from another one that lies there by now. Code
/// that is never freed has the check
/// 0. In Ruby it decides on the class, whose name is missing if it is another.
#[test]
fn frames_with_another_check_have_no_name() {
    for (name, snapshot) in snapshots() {
        let runtime = snapshot.find().expect("a runtime");
        let mut attachment = snapshot.attach(&*runtime, &snapshot.memory).unwrap();
        let (mut refused, mut shortened) = (0, 0);
        for frame in snapshot.frames.iter().filter(|frame| frame.check != 0) {
            for bit in 0..24 {
                let other = SnapshotFrame { check: frame.check ^ 1 << bit, ..frame.clone() };
                let Ok(names) = other.read(attachment.names(), &snapshot.memory) else {
                    refused += 1;
                    continue;
                };
                let is_shortened =
                    names.iter().zip(&frame.names).all(|(short, whole)| without_class(whole) == *short);
                assert!(
                    snapshot.language == "ruby" && is_shortened,
                    "{name}: {:x}: {names:?}",
                    frame.function
                );
                shortened += 1;
            }
        }
        println!("{name}: {refused} refused, {shortened} without their class");
        assert!(refused > 0, "{name}");
    }
}

/// Returns line, file and name of a method without its class.
fn without_class(name: &str) -> String {
    let (place, name) = name.rsplit_once(' ').unwrap_or_default();
    format!("{place} {}", name.rsplit(['#', '.', ':']).next().unwrap_or_default())
}

#[test]
fn reads_within_bounds_from_memory_that_lies() {
    let count = number_of_lies();
    for (name, snapshot) in snapshots() {
        let runtime = snapshot.find().expect("a runtime");
        let (mut named, mut refused, mut most) = (0, 0, Most::default());
        for seed in 0..count {
            let lies = Lies::new(&snapshot.memory, seed);
            // Of three processes two lie after they were attached to.
            let memory: &dyn Memory = if seed.is_multiple_of(3) { &lies } else { &snapshot.memory };
            let attached = most.during(&name, seed, &lies, || snapshot.attach(&*runtime, memory));
            let Ok(mut attachment) = attached else { continue };
            for frame in &snapshot.frames {
                let function = most.during(&name, seed, &lies, || match frame.caller {
                    Some(caller) => {
                        attachment.names().called_function(frame.function, frame.check, caller, &lies)
                    }
                    None => attachment.names().function(frame.function, frame.check, &lies),
                });
                assert_size(&name, seed, &function);
                named += u64::from(function.is_ok());
                refused += u64::from(function.is_err());
            }
        }
        println!("{name}: {named} named, {refused} refused, at most {most:?}");
        assert!(named > 0 && refused > 0, "{name}: {named} named, {refused} refused");
    }
}

/// The largest amounts of all calls.
#[derive(Debug, Default)]
struct Most {
    reads: u64,
    bytes: u64,
    allocated: usize,
}

impl Most {
    /// Runs a call, and fails if it exceeds a bound.
    fn during<T>(&mut self, name: &str, seed: u64, lies: &Lies<'_>, call: impl FnOnce() -> T) -> T {
        lies.take();
        let (result, allocated) = peak::during(call);
        let (reads, bytes) = lies.take();
        assert!(
            reads <= MAX_READS && bytes <= MAX_BYTES,
            "{name}, seed {seed}: {reads} reads of {bytes} bytes"
        );
        assert!(allocated <= MAX_ALLOCATED, "{name}, seed {seed}: {allocated} bytes at a time");
        self.reads = self.reads.max(reads);
        self.bytes = self.bytes.max(bytes);
        self.allocated = self.allocated.max(allocated);
        result
    }
}

/// Fails if the texts of a function are longer than 64 KiB, or its lines more than 1 MiB.
fn assert_size(name: &str, seed: u64, function: &Result<Function, Reason>) {
    let Ok(function) = function else { return };
    let all = std::iter::once(function).chain(function.inlines.functions());
    for each in all {
        assert!(each.name.len() + each.file.len() <= 64 << 10, "{name}, seed {seed}: text");
        assert!(each.lines.len() <= 1 << 17, "{name}, seed {seed}: {} lines", each.lines.len());
    }
}

/// Copies of all objects at other addresses: caches are bounded.
#[test]
fn state_of_process_is_bounded() {
    for (name, snapshot) in snapshots() {
        let runtime = snapshot.find().expect("a runtime");
        let before = peak::now();
        let mut attachment = snapshot.attach(&*runtime, &snapshot.memory).unwrap();
        let mut named = 0;
        for copy in 0..number_of_lies() {
            // A pointer of the copy is one of the snapshot in which some bits are others.
            let moved = |address: u64| address ^ copy << 32;
            let memory = |address: u64, buffer: &mut [u8]| {
                let of_copy = snapshot.memory.read(moved(address), buffer);
                of_copy.or_else(|_| snapshot.memory.read(address, buffer))?;
                for word in buffer.as_chunks_mut::<8>().0 {
                    let pointer = u64::from_le_bytes(*word);
                    if snapshot.memory.piece(pointer).is_some() {
                        *word = moved(pointer).to_le_bytes();
                    }
                }
                Ok(())
            };
            for frame in &snapshot.frames {
                let function = attachment.names().function(moved(frame.function), frame.check, &memory);
                named += u64::from(function.is_ok());
            }
        }
        let state = peak::now() - before;
        println!("{name}: {named} named, state of {state} bytes");
        assert!(state <= MAX_STATE, "{name}: {state} bytes");
    }
}

/// Parts of the file of the runtime are others: whatever is found, it comes back, and within
/// bounds.
#[test]
fn finds_within_bounds_in_files_that_lie() {
    for (name, snapshot) in snapshots() {
        let (mut found, mut attached, mut most) = (0, 0, 0);
        for seed in 0..FILES {
            let mut random = Random(seed);
            let mut mutated = snapshot.clone();
            let file = seed as usize % mutated.files.len();
            let contents = Arc::make_mut(&mut mutated.files[file].contents);
            // Of a file that made no difference nothing was kept.
            if contents.0.is_empty() {
                continue;
            }
            for _ in 0..=random.next() % 8 {
                let piece = random.next() as usize % contents.0.len();
                let bytes = &mut contents.0[piece].1;
                let at = random.next() as usize % bytes.len();
                bytes[at] = [0, 0xff, 0x7f, random.next() as u8][random.next() as usize % 4];
            }
            let ((is_found, is_attached), allocated) = peak::during(|| match mutated.find() {
                Some(runtime) => (true, mutated.attach(&*runtime, &mutated.memory).is_ok()),
                None => (false, false),
            });
            assert!(allocated <= MAX_OF_FILE, "{name}, seed {seed}: {allocated} bytes at a time");
            (found, attached, most) =
                (found + u64::from(is_found), attached + u64::from(is_attached), most.max(allocated));
        }
        println!("{name}: {found} found, {attached} attached of {FILES}, at most {most} bytes at a time");
    }
}

/// Number of files that lie, for each snapshot.
const FILES: u64 = 24;

/// Bytes that are allocated at most at a time for a file: its symbols, their names, and its code.
const MAX_OF_FILE: usize = 64 << 20;
