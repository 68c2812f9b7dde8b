//! Any bytes as `.debug_frame`, as they are and compressed.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::debug_frame(data);
});
