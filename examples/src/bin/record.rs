//! Records this machine, or one process, to be looked at later and elsewhere with `replay`.
//!
//! ```text
//! cargo run --release --bin record -- --seconds 10 --output run.ticks
//! ```

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Health;
use examples::{
    Options, Usage, explain_start_error, fail, notice_interrupts, print, sleep_until_interrupted,
};

const USAGE: Usage = Usage {
    about: "record: writes down what runs on this machine, to be replayed without privileges",
    options: &[
        ("seconds", "N", "how long to look (10)"),
        ("frequency", "HZ", "ticks a second on each CPU, 1 to 10000 (97)"),
        ("pid", "PID", "only this process and what it forks; may be given several times"),
        ("output", "FILE", "the recording (run.ticks)"),
    ],
    words: "",
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
    let profiler = profiler.start().unwrap_or_else(|error| fail(explain_start_error(&error)));

    sleep_until_interrupted(Instant::now() + duration, || profiler.is_running());
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    report(&health);
    eprintln!("look at it with: cargo run --release --bin replay -- {}", output.display());
}

fn report(health: &Health) {
    let recording = health.recording.clone().unwrap_or_default();
    if let Some(error) = recording.error {
        fail(format!("{error}; {} events are missing", recording.left_out));
    }
    let samples = health.pipeline.samples;
    print(format_args!("{samples} samples in {} bytes, {} lost\n", recording.bytes, health.lost));
}
