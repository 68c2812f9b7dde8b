//! The process of a snapshot of LuaJIT, with changed memory and files; the first byte selects the version.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod snapshot;

const SNAPSHOTS: &[&str] = &[
    include_str!("../../tests/snapshots/luajit_2_1"),
    include_str!("../../tests/snapshots/luajit_2_1_trace"),
];

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    snapshot::read(SNAPSHOTS[usize::from(first) % SNAPSHOTS.len()], rest);
});
