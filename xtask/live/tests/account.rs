//! Every tick is in the profile or counted as lost, and the kernel's count of runs agrees.
//!
//! Needs root: `cargo test -p live-suite --test account -- --ignored --test-threads=1`.
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
    // The ring has room for all of the samples: none is lost, however late they are read on a busy
    // machine.
    let health = run(Profiler::builder().frequency(997).ring_size(64 << 20));
    assert_balanced(&health);
    assert_eq!(health.lost, 0, "{health:?}");
}

#[test]
#[ignore = "needs root"]
fn filtered_ticks_are_accounted_for() {
    test_needs::root!();
    let health = run(Profiler::builder().frequency(997).pid(std::process::id()));
    assert_balanced(&health);
    assert!(health.filtered > 0, "{health:?}");
}

#[test]
#[ignore = "needs root"]
fn counts_ticks_lost_in_a_small_ring() {
    test_needs::root!();
    let health = run(Profiler::builder().frequency(10_000).ring_size(64 << 10));
    assert_balanced(&health);
    assert!(health.lost > 0, "{health:?}");
    assert!(health.pipeline.samples > 0, "{health:?}");
}

#[track_caller]
fn assert_balanced(health: &Health) {
    let pipeline = &health.pipeline;
    let delivered = pipeline.samples + pipeline.unwanted;
    assert_eq!(health.ticks, health.filtered + delivered + health.lost, "{health:?}");
    assert_eq!(health.ticks, health.runs, "{health:?}");
    assert_eq!(pipeline.malformed, 0, "{health:?}");
    println!(
        "{} runs = {} filtered + {delivered} delivered ({} raw) + {} lost",
        health.runs, health.filtered, pipeline.raw, health.lost
    );
}

/// Profiles deep stacks and short-lived processes.
fn run(builder: Builder) -> Health {
    let _statistics = statistics();
    let profiler = builder
        .include_self()
        // A pipeline built without optimizations may be far behind.
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

/// Spins `depth` calls below its caller.
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

/// Enables the kernel's run counts of BPF programs until the descriptor is closed.
fn statistics() -> OwnedFd {
    const ENABLE_STATS: libc::c_long = 32;
    let run_time = 0u32;
    // SAFETY: the attribute has the given size, and the call keeps no reference to it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, ENABLE_STATS, &raw const run_time, size_of::<u32>()) };
    assert!(fd >= 0, "cannot enable BPF statistics, run as root: {}", std::io::Error::last_os_error());
    // SAFETY: the call returned this descriptor to this process alone.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
