//! Cost of labels that a program sets for its own work: by a future in each poll, and by a guard.
//!
//! ```text
//! sudo -E env "PATH=$PATH" cargo bench -p benches --bench labels
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::error::Error;
use std::future::{Future, pending};
use std::hint::black_box;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use benches::options::{option, want_root};
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::label::{WithLabels, label};
use ebpf_profiler_core::profile::Labels;

/// Polls or guards of a round.
const TIMES: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    want_root("labels");
    let rounds = option("rounds", 9);
    println!("{:32} {:>10}", "", "ns");
    println!("{:32} {:10.1}", "poll without labels", least(rounds, || polls(pending::<()>())));
    costs("without a profiler", rounds);
    let profiler = Profiler::builder().frame_pointers_only().pid(std::process::id()).start()?;
    costs("with a profiler", rounds);
    profiler.stop()?;
    Ok(())
}

/// Prints the costs of a poll with labels and of a guard.
fn costs(when: &str, rounds: u32) {
    let labels = Labels::from([("tenant", "blue"), ("request", "7")]);
    let poll = least(rounds, || polls(pending::<()>().with_labels(labels.clone())));
    println!("{:32} {poll:10.1}", format!("poll, {when}"));
    println!("{:32} {:10.1}", format!("label, {when}"), least(rounds, guards));
}

/// Returns the time of the fastest round for one time, in nanoseconds.
fn least(rounds: u32, run: impl Fn() -> Duration) -> f64 {
    let times = (0..rounds.max(1)).map(|_| run());
    times.min().unwrap_or_default().as_nanos() as f64 / f64::from(TIMES)
}

fn polls(future: impl Future<Output = ()>) -> Duration {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    for _ in 0..TIMES {
        let _ = black_box(black_box(future.as_mut()).poll(&mut context));
    }
    start.elapsed()
}

fn guards() -> Duration {
    let start = Instant::now();
    for request in 0..TIMES {
        drop(black_box(label("request", i64::from(request))));
    }
    start.elapsed()
}
