//! The process of a snapshot of Perl, with changed memory and files; the first byte selects the version.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod snapshot;

const SNAPSHOTS: &[&str] = &[
    include_str!("../../tests/snapshots/perl_5_36"),
];

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    snapshot::read(SNAPSHOTS[usize::from(first) % SNAPSHOTS.len()], rest);
});
