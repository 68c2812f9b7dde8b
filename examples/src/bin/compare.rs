//! Compares two windows of time, function by function.
//!
//! ```text
//! sudo target/release/compare --seconds 10
//! ```

use std::time::Duration;

use ebpf_profiler_core::Profiler;
use examples::{Options, Usage, explain_start_error, fail, print};

const USAGE: Usage = Usage {
    about: "compare: prints the functions that changed most between two windows of time",
    options: &[("seconds", "N", "length of each window (10)"), ("rows", "N", "number of functions (15)")],
    arguments: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let length = Duration::from_secs(options.one("seconds").unwrap_or(10));
    let profiler = Profiler::builder()
        .frequency(97)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    let window = || {
        std::thread::sleep(length);
        profiler.take_profile().unwrap_or_else(|error| fail(error))
    };
    let (before, after) = (window(), window());

    print("  before   after  change in CPUs  function\n");
    for change in after.diff(&before).by_function().iter().take(options.one("rows").unwrap_or(15)) {
        let (before, after) = change.values();
        print(format_args!("{before:>8}{after:>8}{:>+16.3}  {}\n", change.change(), change.name()));
    }
}
