//! Any text as a case: it is refused, or it can be walked, and written and read again.
#![no_main]

use ebpf_profiler_unwind::case::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(case) = text.parse::<Case>() {
        case.walk();
        let again = case.to_string();
        assert_eq!(again.parse::<Case>().map(|case| case.to_string()), Ok(again));
    }
});
