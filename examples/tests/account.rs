//! Every tick is in the profile or counted as lost, and the kernel agrees on how many there were.
//!
//! Needs root: `cargo test -p examples --test account -- --ignored --test-threads=1`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

use std::hint::black_box;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Builder, Health};
use ebpf_profiler_core::symbol::NoSymbols;

#[test]
#[ignore = "needs root"]
fn every_tick_is_accounted_for() {
    test_needs::root!();
    let health = run(Profiler::builder().frequency(997));
    assert_balanced(&health);
    assert_eq!(health.lost, 0, "{health:?}");
}

#[test]
#[ignore = "needs root"]
fn what_is_left_out_is_accounted_for() {
    test_needs::root!();
    let health = run(Profiler::builder().frequency(997).pid(std::process::id()));
    assert_balanced(&health);
    assert!(health.filtered > 0, "{health:?}");
}

#[test]
#[ignore = "needs root"]
fn what_a_small_ring_loses_is_counted() {
    test_needs::root!();
    let health = run(Profiler::builder().frequency(10_000).ring_size(64 << 10));
    assert_balanced(&health);
    assert!(health.lost > 0, "{health:?}");
    assert!(health.pipeline.samples > 0, "{health:?}");
}

#[track_caller]
fn assert_balanced(health: &Health) {
    let pipeline = &health.pipeline;
    let delivered = pipeline.samples + pipeline.unwanted + pipeline.malformed;
    assert_eq!(health.ticks, health.filtered + delivered + health.lost, "{health:?}");
    assert_eq!(health.ticks, health.runs, "{health:?}");
    assert_eq!(pipeline.malformed, 0, "{health:?}");
    println!(
        "{} runs = {} filtered + {delivered} delivered ({} raw) + {} lost",
        health.runs, health.filtered, pipeline.raw, health.lost
    );
}

/// Profiles deep stacks and short processes for a while.
fn run(builder: Builder) -> Health {
    let _statistics = statistics();
    let profiler = builder
        .include_self()
        // Built without optimizations the pipeline may be far behind.
        .deadline(Duration::from_secs(120))
        .unwind(ebpf_profiler_unwind::tables())
        .symbolizer(NoSymbols)
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| descend(300, &busy));
        }
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            assert!(Command::new("true").status().unwrap().success());
        }
        busy.store(false, Ordering::Relaxed);
    });
    profiler.stop().unwrap()
}

/// Spins, `depth` calls below its caller.
#[inline(never)]
fn descend(depth: u32, busy: &AtomicBool) -> u32 {
    if depth > 0 {
        return black_box(descend(black_box(depth - 1), busy)) + 1;
    }
    while busy.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    0
}

/// The kernel counts the runs of programs for as long as this is held.
fn statistics() -> OwnedFd {
    const ENABLE_STATS: libc::c_long = 32;
    let run_time = 0u32;
    // SAFETY: the attribute is as long as is said, and the call keeps no reference to it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, ENABLE_STATS, &raw const run_time, size_of::<u32>()) };
    assert!(fd >= 0, "not as root: {}", std::io::Error::last_os_error());
    // SAFETY: the call gave this descriptor to us alone.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
