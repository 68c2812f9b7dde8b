//! The hottest functions of the machine, live.
//!
//! ```text
//! cargo run --release --bin top
//! ```

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::channel;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Table;
use examples::{Options, Usage, explain_start_error, fail, interrupted};

const USAGE: Usage = Usage {
    about: "top: the hottest functions of the machine, every two seconds",
    options: &[
        ("seconds", "N", "how long to look (until Ctrl-C)"),
        ("frequency", "HZ", "ticks a second on each CPU, 1 to 10000 (97)"),
        ("pid", "PID", "only this process and what it forks; may be given several times"),
        ("rows", "N", "how many functions to show (25)"),
    ],
    words: "",
};

/// How often the screen is drawn.
const INTERVAL: Duration = Duration::from_secs(2);

fn main() {
    let options = Options::parse(USAGE);
    let seconds: Option<u64> = options.one("seconds");
    let rows = options.get("rows", 25);
    let (screens_in, screens_out) = channel();

    let mut profiler = Profiler::builder()
        .frequency(options.get("frequency", 97))
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(INTERVAL)
        // Drawing waits for a terminal, so that is left to the main thread.
        .sink(move |profile: &Profile| Ok(screens_in.send(screen(profile, rows))?));
    for pid in options.all("pid") {
        profiler = profiler.pid(pid);
    }
    let profiler = profiler.start().unwrap_or_else(|error| fail(explain_start_error(&error)));

    let mut left = seconds.map_or(u64::MAX, |seconds| seconds.div_ceil(INTERVAL.as_secs()));
    while left > 0 && !interrupted() {
        if let Ok(screen) = screens_out.recv_timeout(Duration::from_millis(250)) {
            draw(&screen);
            left -= 1;
        }
    }
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    eprintln!("{} ticks, {} lost", health.ticks, health.lost);
}

fn screen(profile: &Profile, rows: usize) -> String {
    let whole: u64 =
        profile.samples().filter(|sample| sample.trace().is_whole()).map(|sample| sample.count()).sum();
    let head =
        format!("{} samples in {:.1} s, {whole} whole", profile.count(), profile.duration().as_secs_f32());
    format!("{head}\n\n{}", Table::new(profile).rows(rows))
}

fn draw(screen: &str) {
    let mut out = std::io::stdout().lock();
    let clear = if out.is_terminal() { "\x1b[2J\x1b[H" } else { "" };
    // Where nobody reads any more there is nothing to say.
    let _ = writeln!(out, "{clear}{screen}");
}
