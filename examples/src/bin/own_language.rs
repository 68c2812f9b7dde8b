//! Profiles a process with languages of one's own beside those of ebpf-profiler-hll, and prints
//! folded stacks.
//!
//! ```text
//! gcc -O2 -rdynamic -o toy examples/src/toy/toy.c && ./toy &      or array.c, compiled.c
//! cargo run --release --bin own_language -- --pid $! --seconds 2
//! ```

use std::io::stdout;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::sink::folded;
use examples::toy;
use examples::{Options, Usage, explain_start_error, fail};

const USAGE: Usage = Usage {
    about: "own_language: profiles scripts of toy languages",
    options: &[("pid", "PID", "process to profile (all)"), ("seconds", "N", "duration (2)")],
    arguments: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let mut builder = Profiler::builder()
        .frequency(97)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .languages(toy::all());
    if let Some(pid) = options.one("pid") {
        builder = builder.pid(pid);
    }
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(2));
    let profile = builder.start().unwrap_or_else(|error| fail(explain_start_error(&error))).run_for(duration);
    let profile = profile.unwrap_or_else(|error| fail(error));
    if let Err(error) = folded::write(&profile, &mut stdout().lock()) {
        fail(format!("cannot print: {error}"));
    }
}
