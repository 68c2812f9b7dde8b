//! The hottest functions of the machine, live.
//!
//! ```text
//! cargo run --release --bin top
//! ```

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Table;
use examples::{Options, Usage, explain_start_error, fail, interrupted, notice_interrupts};

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

/// How often it is looked whether it should end.
const LOOK: Duration = Duration::from_millis(100);

fn main() {
    let options = Options::parse(USAGE);
    let duration = options.seconds("seconds");
    let rows = options.get("rows", 25);
    notice_interrupts();
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

    let end = duration.map(|duration| Instant::now() + duration);
    let mut drawn = false;
    while !interrupted() && end.is_none_or(|end| Instant::now() < end) {
        if let Ok(screen) = screens_out.recv_timeout(LOOK) {
            draw(&screen);
            drawn = true;
        }
    }
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    // Who pressed Ctrl-C may look at a screen that is better than what came behind it.
    if !(drawn && interrupted()) {
        screens_out.try_iter().for_each(|screen| draw(&screen));
    }
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
