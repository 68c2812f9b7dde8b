//! Any bytes as a core dump, which is its own library, too: stacks are walked, and end.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::core_dump(data);
});
