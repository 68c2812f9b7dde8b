//! A program that profiles itself and the machine around it while it does its own work.
//!
//! ```text
//! cargo run --release --bin embed -- --seconds 5
//! ```

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use examples::{Options, Usage, explain_start_error, fail, interrupted};

const USAGE: Usage = Usage {
    about: "embed: a profiler inside a program, with a sink of its own",
    options: &[("seconds", "N", "how long to work (5)")],
    words: "",
};

fn main() {
    let options = Options::parse(USAGE);
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(5));

    let profiler = Profiler::builder()
        .frequency(97)
        .include_self()
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(Duration::from_secs(1))
        .sink(|profile: &Profile| Ok(report(profile, &mut io::stdout().lock())?))
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));

    // The program goes on with what it is there for.
    let end = Instant::now() + duration;
    let mut primes = 0;
    while Instant::now() < end && !interrupted() {
        primes += count_primes(200_000);
    }

    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    eprintln!("counted {primes} primes; {} ticks, {} lost", health.ticks, health.lost);
}

/// The sink: what ran most in the last second.
fn report(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut samples: Vec<_> = profile.samples().collect();
    samples.sort_by_key(|sample| std::cmp::Reverse(sample.count()));
    writeln!(out, "{} samples", profile.count())?;
    for sample in samples.iter().take(5) {
        writeln!(out, "{:>6} {:<16} {}", sample.count(), sample.thread().name, sample.trace().leaf())?;
    }
    Ok(())
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
