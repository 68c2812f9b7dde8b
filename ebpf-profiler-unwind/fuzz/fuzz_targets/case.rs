//! Any text as a case: it is refused, or it can be walked, and written and read again.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::case(data);
});
