//! Profiles itself and the machine while it does other work.
//!
//! ```text
//! cargo run --release --bin embed -- --seconds 5
//! ```

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use examples::{Options, Usage, explain_start_error, fail, interrupted, notice_interrupts, say};

const USAGE: Usage = Usage {
    about: "embed: a profiler inside a program, with a closure as sink",
    options: &[("seconds", "N", "duration (5)")],
    arguments: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(5));
    notice_interrupts();

    let profiler = Profiler::builder()
        .frequency(97)
        .include_self()
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(Duration::from_secs(1))
        .sink(|profile: &Profile| match report(profile, &mut io::stdout().lock()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        })
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));

    // The program does its own work.
    let end = Instant::now() + duration;
    let mut primes = 0;
    while Instant::now() < end && !interrupted() {
        primes += count_primes(200_000);
    }

    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    say(format_args!("counted {primes} primes; {} samples, {} lost", health.ticks, health.lost));
    if let Some(error) = health.sink_errors.first() {
        fail(format!("cannot print: {error}"));
    }
}

/// Prints the most frequent stacks of one second.
fn report(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut samples: Vec<_> = profile.samples().collect();
    samples.sort_by_key(|sample| std::cmp::Reverse(sample.count()));
    writeln!(out, "{} samples", profile.count())?;
    for sample in samples.iter().take(5) {
        writeln!(out, "{:>6} {:<16} {}", sample.count(), sample.thread().name, sample.trace().leaf())?;
    }
    out.flush()
}

#[inline(never)]
fn count_primes(limit: usize) -> usize {
    let mut composite = vec![false; limit];
    let mut count = 0;
    for number in 2..limit {
        if !composite[number] {
            count += 1;
            composite.iter_mut().skip(number * number).step_by(number).for_each(|mark| *mark = true);
        }
    }
    count
}
