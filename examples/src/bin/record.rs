//! Records this machine, or one process, for `replay`.
//!
//! ```text
//! cargo run --release --bin record -- --seconds 10 --output run.ticks
//! ```

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use examples::{
    Options, Usage, explain_start_error, fail, notice_interrupts, print, say, sleep_until_interrupted,
};

const USAGE: Usage = Usage {
    about: "record: records this machine, to be replayed without privileges",
    options: &[
        ("seconds", "N", "duration (10)"),
        ("frequency", "HZ", "samples per second and CPU, 1 to 10000 (97)"),
        ("pid", "PID", "only this process and its descendants; repeatable"),
        ("command-lines", "", "record the command lines of processes, which can hold secrets"),
        ("output", "FILE", "the recording (run.ticks)"),
    ],
    arguments: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let output = options.get("output", PathBuf::from("run.ticks"));
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(10));
    notice_interrupts();

    let mut profiler = Profiler::builder()
        .frequency(options.get("frequency", 97))
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .record(&output);
    for pid in options.all("pid") {
        profiler = profiler.pid(pid);
    }
    if options.has("command-lines") {
        profiler = profiler.command_lines();
    }
    let profiler = profiler.start().unwrap_or_else(|error| fail(explain_start_error(&error)));

    sleep_until_interrupted(Instant::now() + duration, || profiler.is_running());
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    report(&health);
    say(format_args!("replay it with: cargo run --release --bin replay -- {}", output.display()));
}

fn report(health: &Health) {
    let recording = health.recording.clone().unwrap_or_default();
    if let Some(error) = recording.error {
        fail(format!("{error}; {} events are missing from the recording", recording.left_out));
    }
    let samples = health.pipeline.samples;
    print(format_args!("{samples} samples in {} bytes, {} lost\n", recording.bytes, health.lost));
}
