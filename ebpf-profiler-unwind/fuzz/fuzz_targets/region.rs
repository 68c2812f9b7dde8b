//! Any bytes as code between functions that nothing describes.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::region(data);
});
