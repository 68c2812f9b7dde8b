//! Any bytes as a table: it is refused, or it can be read, and is read by all readers alike.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::image(data);
});
