//! Any bytes as `.eh_frame`, for either instruction set: a table that keeps its promises, whatever they are.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::eh_frame(data);
});
