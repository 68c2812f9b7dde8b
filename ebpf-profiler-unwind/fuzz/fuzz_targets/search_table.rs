//! Any bytes as `.eh_frame` and `.eh_frame_hdr`: the table is that of the one without the other.
#![no_main]

#[path = "../../tests/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    targets::search_table(data);
});
