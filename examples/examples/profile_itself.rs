//! Profiles this program alone while it works, and writes a profile for `go tool pprof` and a flame
//! graph.
//!
//! ```text
//! sudo target/release/examples/profile_itself [itself.pb.gz itself.html]
//! ```
//!
//! No signal handler runs in the program's threads: the kernel samples them. Unwind tables are
//! built from the program's file, so it needs neither frame pointers nor debug information.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::sink::Table;
use examples::{explain_start_error, fail, print};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ebpf_profiler_otlp::register_formats(); // .pb.gz
    let profiler = Profiler::builder()
        .pid(std::process::id())
        .frequency(997)
        .unwind(ebpf_profiler_unwind::tables())
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));

    let found = count_primes_for(Duration::from_secs(2));

    let (profile, health) = profiler.finish()?;
    print(Table::new(&profile).rows(5));
    print(format_args!("{found} primes; {}; {} lost\n", profile.summary(), health.lost));
    for path in std::env::args().skip(1) {
        profile.write(path)?;
    }
    Ok(())
}

/// Counts primes until the time is over.
fn count_primes_for(duration: Duration) -> usize {
    let end = Instant::now() + duration;
    (2..).take_while(|_| Instant::now() < end).filter(|&number| is_prime(black_box(number))).count()
}

#[inline(never)]
fn is_prime(number: u64) -> bool {
    (2..number)
        .take_while(|divisor| divisor * divisor <= number)
        .all(|divisor| !number.is_multiple_of(divisor))
}
