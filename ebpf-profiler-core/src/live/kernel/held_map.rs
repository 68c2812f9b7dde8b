//! The kernel's map of samples that have not ended.

use std::mem::offset_of;

use ebpf_programs::abi::held::{Held, Key};

use super::bpf::{Batches, Map};

/// Entries of the map that are read at once.
const BATCH: usize = 4096;

/// Words of eight bytes in a key and in a value.
const KEY: usize = size_of::<Key>() / 8;
const VALUE: usize = size_of::<Held>() / 8;

/// Removes the entries for which `is_kept` returns `false`, by the process, time and CPU of their
/// samples.
pub(in crate::live) fn sweep(map: &Map, is_kept: &dyn Fn(u32, u64, u32) -> bool) {
    let (mut keys, mut values) = (vec![[0u64; KEY]; BATCH], vec![[0u64; VALUE]; BATCH]);
    let (mut batches, mut gone) = (Batches::default(), Vec::new());
    // Read whole before anything is removed: the order of the rest may change.
    while let Ok(count) = map.read_batch(&mut batches, &mut keys, &mut values) {
        let entries = keys.iter().zip(&values).take(count);
        gone.extend(
            entries
                .filter(|(_, value)| !is_kept(pid(value), time(value), value[1] as u32))
                .map(|(key, _)| *key),
        );
        if batches.is_last() {
            break;
        }
    }
    for key in gone {
        // It may have ended meanwhile.
        let _ = map.remove_words(&key);
    }
}

/// Returns the process of a value: the upper half of the word of the CPU.
fn pid(value: &[u64; VALUE]) -> u32 {
    (value[1] >> 32) as u32
}

/// Returns the time of the record of a value, or that of its event if there is none: a request of a
/// disk that is filtered, or whose record is being written. It ends soon, and then its key may be
/// that of another one.
fn time(value: &[u64; VALUE]) -> u64 {
    const SINCE: usize = offset_of!(Held, since) / 8;
    if value[0] == 0 { value[SINCE] } else { value[0] }
}

#[test]
fn request_without_record_has_the_time_of_its_event() {
    assert_eq!(time(&[0, 7 << 32, 5, 1 << 16, 0]), 5);
    assert_eq!(time(&[9, 7 << 32, 5, 1 << 16, 0]), 9);
}
