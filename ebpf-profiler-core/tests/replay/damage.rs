//! A recording may be cut off, damaged or malicious: the end is a sentence, or a profile, and never a panic.

use std::io::Cursor;

use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::sample::SourceError;
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
fn every_truncation_is_told() {
    let whole = recording();
    for len in 0..whole.len() {
        match try_it(whole[..len].to_vec()) {
            Err(SourceError::Format(_)) => {}
            other => panic!("{len} of {} bytes: {other:?}", whole.len()),
        }
    }
    assert_eq!(try_it(whole).unwrap(), 5);
}

#[test]
fn what_follows_the_end_is_told() {
    let mut longer = recording();
    longer.push(0);
    assert!(matches!(try_it(longer), Err(SourceError::Format(_))));
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let say = |bytes: Vec<u8>| try_it(bytes).unwrap_err().to_string();
    let whole = recording();
    assert!(say(b"#!/bin/sh\n".to_vec()).contains("doesn't begin like one"));
    for (at, words) in
        [(8, "another version of this library"), (12, "another version of the sampling program")]
    {
        let mut other = whole.clone();
        other[at] ^= 0x40;
        assert!(say(other).contains(words));
    }
    let mut other = whole;
    other[24] = 2;
    assert!(say(other).contains("another architecture"));
}

#[test]
fn every_byte_can_be_anything() {
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
fn every_word_can_be_huge() {
    let whole = recording();
    for at in 16..whole.len() - 8 {
        let mut bytes = whole.clone();
        bytes[at..at + 8].fill(0xff);
        let _ = try_it(bytes);
    }
}

#[test]
fn many_changes_at_once() {
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
fn a_size_takes_no_memory_before_its_bytes_are_there() {
    let mut bytes = recording()[..16].to_vec();
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(u32::MAX.to_le_bytes());
    assert!(matches!(try_it(bytes), Err(SourceError::Format(_))));
}
