//! Stacks that take long to walk.

use std::path::Path;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::trace::Stop;

use crate::scratch::{Process, Scratch};

/// The kernel has its interrupts off during a walk.
#[test]
#[ignore = "needs root"]
fn walks_end_at_their_time_limit() {
    test_needs::root!();
    let scratch = Scratch::new("slow");
    let program =
        scratch.compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/slow.c")), &["-O1"]);
    let _process = Process::start(&mut std::process::Command::new(program));
    let pid = _process.0.id();
    let run = |longest: Duration| {
        let builder = Profiler::builder().frequency(199).pid(pid).walk_time(longest);
        let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap();
        profiler.run_for(Duration::from_secs(2)).unwrap()
    };
    let free = run(Duration::from_secs(4));
    let (slow, all) = stops(&free, Stop::TooSlow);
    eprintln!(
        "without a limit: {} of {all} samples end at the limit of steps",
        stops(&free, Stop::TooLong).0
    );
    assert!(all > 20 && slow == 0 && stops(&free, Stop::TooLong).0 > all / 2, "the program is slow to walk");
    let limited = run(Duration::from_micros(20));
    let (slow, all) = stops(&limited, Stop::TooSlow);
    eprintln!("with a limit: {slow} of {all} samples end at the limit of time");
    assert!(all > 20 && slow > all / 2);
}

/// Returns the number of samples that end for this reason, and of all.
fn stops(profile: &Profile, stop: Stop) -> (u64, u64) {
    let of_reason = profile.samples().filter(|sample| sample.trace().stop() == stop);
    (of_reason.map(|sample| sample.count()).sum(), profile.count())
}
