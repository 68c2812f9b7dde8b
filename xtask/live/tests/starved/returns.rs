//! Threads that lose a reservation and get it again.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ebpf_profiler_core::live::{Reservation, ReservedBy};

/// Number of times that the machine is busy, and then is not.
const ROUNDS: usize = 30;

/// The kernel lets a thread stand still for ever that used up its part, lost its policy, and got it
/// again too soon.
#[test]
#[ignore = "reserves CPU time: needs root"]
fn thread_that_gets_its_part_again_is_not_stopped() {
    test_needs::root!();
    test_needs::programs!("chrt");
    let (is_busy, is_over, steps) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let reservation = Reservation::cpu(0.05);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) * 4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match is_busy.load(Ordering::Relaxed) {
                        true => std::hint::spin_loop(),
                        false => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
        }
        scope.spawn(|| {
            let _reserved = reservation.enter();
            while !is_over.load(Ordering::Relaxed) {
                steps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut without = 0;
        for round in 0..ROUNDS * 2 {
            is_busy.store(round % 2 == 0, Ordering::Relaxed);
            let before = steps.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(200));
            without += usize::from(steps.load(Ordering::Relaxed) == before);
        }
        is_over.store(true, Ordering::Relaxed);
        let stats = reservation.stats();
        println!("{stats:?}, {without} parts without a step");
        if without > 0 {
            free_threads();
        }
        assert_eq!(without, 0, "the thread stood still");
        // The kernel may have no such share left: then the policy is another one.
        assert!(
            stats.policy != ReservedBy::Deadline || stats.grants > 1,
            "the part was never lost: {stats:?}"
        );
    });
}

/// Gives all threads an ordinary policy: not even a signal ends one that stands still.
fn free_threads() {
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let _ =
            Command::new("chrt").args(["--other", "--pid", "0"]).arg(thread.unwrap().file_name()).status();
    }
}
