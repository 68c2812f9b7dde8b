//! Shows the hottest functions of the machine, live.
//!
//! ```text
//! cargo run --release --bin top
//! ```

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::Table;
use examples::{By, Options, Usage, explain_start_error, fail, interrupted, notice_interrupts, say, show};

const USAGE: Usage = Usage {
    about: "top: the hottest functions of the machine, every two seconds",
    options: &[
        ("seconds", "N", "duration (until Ctrl-C)"),
        ("frequency", "HZ", "samples per second and CPU, 1 to 10000 (97)"),
        ("pid", "PID", "only this process and its descendants; repeatable"),
        ("by", "KEY", By::MEANING),
        ("rows", "N", "number of functions, or of parts (25)"),
    ],
    arguments: "",
};

/// Time between two screens.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time between two checks for the end.
const STEP: Duration = Duration::from_millis(100);

fn main() {
    let options = Options::parse(USAGE);
    let duration = options.seconds("seconds");
    let rows = options.get("rows", 25);
    notice_interrupts();
    let (screens_in, screens_out) = channel();

    let by = By::of(&options);
    let drawn = by.clone();
    let mut profiler = Profiler::builder()
        .frequency(options.get("frequency", 97))
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(INTERVAL)
        // The main thread draws, because a terminal may block.
        .sink(move |profile: &Profile| Ok(screens_in.send(screen(profile, drawn.as_ref(), rows))?));
    profiler = By::prepare(by.as_ref(), profiler);
    for pid in options.all("pid") {
        profiler = profiler.pid(pid);
    }
    let profiler = profiler.start().unwrap_or_else(|error| fail(explain_start_error(&error)));

    let end = duration.map(|duration| Instant::now() + duration);
    let (mut is_drawn, mut is_read) = (false, true);
    while is_read && !interrupted() && profiler.is_running() && end.is_none_or(|end| Instant::now() < end) {
        if let Ok(screen) = screens_out.recv_timeout(STEP) {
            is_read = draw(&screen);
            is_drawn = true;
        }
    }
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    // After Ctrl-C the last whole screen stays.
    if is_read && !(is_drawn && interrupted()) {
        screens_out.try_iter().all(|screen| draw(&screen));
    }
    say(format_args!("{} samples, {} lost", health.ticks - health.filtered, health.lost));
}

fn screen(profile: &Profile, by: Option<&By>, rows: usize) -> String {
    let whole: u64 =
        profile.samples().filter(|sample| sample.trace().is_whole()).map(|sample| sample.count()).sum();
    let head =
        format!("{} samples in {:.1} s, {whole} whole", profile.count(), profile.duration().as_secs_f32());
    match by {
        Some(by) => format!("{head}\n\n{}", by.table(profile, rows)),
        None => format!("{head}\n\n{}", Table::new(profile).rows(rows)),
    }
}

/// Prints a screen. Returns `false` if the reader has closed the pipe.
fn draw(screen: &str) -> bool {
    let clear = if io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
    show(format_args!("{clear}{screen}\n"))
}
