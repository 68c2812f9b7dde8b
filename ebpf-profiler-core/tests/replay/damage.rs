//! Truncated, damaged and malicious recordings give an error or a profile, and never a panic.

use std::io::Cursor;

use ebpf_profiler_core::internal::sample::SourceError;
use ebpf_profiler_core::replay::{Incomplete, Replay};
use ebpf_profiler_core::symbol::NoSymbols;

use crate::world::{batches, record, system};

const PATH: &str = "/made/up/program";

fn try_it(bytes: Vec<u8>) -> Result<u64, SourceError> {
    let replay = Replay::read(Cursor::new(bytes))?;
    Ok(replay.symbolizer(NoSymbols).profile()?.count())
}

fn recording() -> Vec<u8> {
    record(system(PATH), batches(PATH)).0
}

#[test]
fn replays_a_truncated_recording_up_to_its_last_whole_record() {
    let complete = recording();
    // Offsets after the file header and after each record.
    let mut ends = vec![16];
    while let Some(header) = complete[*ends.last().unwrap()..].first_chunk::<8>() {
        let size = u32::from_le_bytes(*header.last_chunk().unwrap()) as usize;
        ends.push(ends.last().unwrap() + 8 + size);
    }
    let mut latest = 0;
    for len in 0..complete.len() {
        let bytes = complete[..len].to_vec();
        let end = ends.iter().rfind(|&&end| end <= len).copied().unwrap_or(0);
        if end <= ends[0] {
            assert!(matches!(try_it(bytes), Err(SourceError::Format(_))), "{len}");
            continue;
        }
        let (whole, partial) = (end as u64, (len - end) as u64);
        let replay = Replay::read(Cursor::new(bytes)).unwrap().symbolizer(NoSymbols);
        assert_eq!(replay.incomplete(), Some(Incomplete::Truncated { whole, partial }));
        let count = replay.profile().unwrap().count();
        assert!(count >= latest, "a longer prefix has fewer samples");
        latest = count;
    }
    assert_eq!((latest, ends.last()), (5, Some(&complete.len())));
    let replay = Replay::read(Cursor::new(complete)).unwrap();
    assert_eq!(replay.incomplete(), None);
}

#[test]
fn a_truncated_recording_ends_at_its_latest_event() {
    let complete = recording();
    let profile = |len: usize| {
        let replay = Replay::read(Cursor::new(complete[..len].to_vec())).unwrap().symbolizer(NoSymbols);
        replay.profile().unwrap()
    };
    // The end record has 12 bytes behind its header.
    let (truncated, whole) = (profile(complete.len() - 20), profile(complete.len()));
    assert_eq!((truncated.count(), truncated.start()), (whole.count(), whole.start()));
    assert!(truncated.duration() <= whole.duration());
}

#[test]
fn rejects_bytes_behind_the_end_record() {
    let mut longer = recording();
    longer.push(0);
    assert!(matches!(try_it(longer), Err(SourceError::Format(_))));
}

#[test]
fn rejects_other_files_and_versions() {
    let say = |bytes: Vec<u8>| try_it(bytes).unwrap_err().to_string();
    let whole = recording();
    assert!(say(b"#!/bin/sh\n".to_vec()).contains("does not begin with the bytes of a recording"));
    let mut other = whole.clone();
    other[8] ^= 0x40;
    assert!(say(other).contains("another version of this library"));
    let mut other = whole;
    other[24] = 2;
    assert!(say(other).contains("another architecture"));
}

#[test]
fn survives_any_byte_changed() {
    let whole = recording();
    for at in 16..whole.len() {
        for value in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = try_it(bytes);
        }
    }
}

#[test]
fn survives_any_word_huge() {
    let whole = recording();
    for at in 16..whole.len() - 8 {
        let mut bytes = whole.clone();
        bytes[at..at + 8].fill(0xff);
        let _ = try_it(bytes);
    }
}

#[test]
fn survives_many_changes() {
    let whole = recording();
    let mut seed = 7u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..next(8) + 1 {
            let at = next(bytes.len() - 16) + 16;
            match next(3) {
                0 => bytes[at] = next(256) as u8,
                1 => drop(bytes.drain(at..(at + next(64)).min(bytes.len()))),
                _ => {
                    let piece = bytes[at..(at + next(200)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let _ = try_it(bytes);
    }
}

#[test]
fn rejects_a_record_size_beyond_the_maximum() {
    let mut bytes = recording()[..16].to_vec();
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(u32::MAX.to_le_bytes());
    assert!(matches!(try_it(bytes), Err(SourceError::Format(_))));
}
