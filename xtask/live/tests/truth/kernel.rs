//! The kernel's own count of samples.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;

use crate::compile::Build;
use crate::process::Running;
use crate::profiler;

/// Returns the kernel's run count of a process's programs for perf events.
///
/// The count is in the `fdinfo` of each program's file descriptor while the statistics are enabled:
///
/// ```text
/// prog_type:  7
/// prog_id:    42
/// run_cnt:    1234
/// ```
fn runs_of(pid: u32) -> Option<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    let infos = descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let programs: BTreeMap<u64, u64> = infos.filter_map(|info| runs_in(&info)).collect();
    (!programs.is_empty()).then(|| programs.values().sum())
}

/// Parses id and run count of a program for perf events.
fn runs_in(info: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    (value("prog_type")? == PERF_EVENT).then_some(())?;
    Some((value("prog_id")?, value("run_cnt")?))
}

const PERF_EVENT: u64 = 7;

/// Enables the kernel's run counts until it is dropped.
struct Statistics {
    before: String,
}

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Statistics {
    fn on() -> Statistics {
        let before = fs::read_to_string(SWITCH).expect("the kernel can count runs of BPF programs");
        fs::write(SWITCH, "1").expect("root may switch it on");
        Statistics { before }
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        // If this fails the statistics stay on, which costs a few nanoseconds per run.
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// Keeps all CPUs busy, so that no tick interrupts the idle task, which is never sampled. The
/// profiler runs in this process, so the kernel's count is read right before the profiler's end.
#[test]
#[ignore = "profiles: needs root"]
fn every_sample_is_delivered_or_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let _statistics = Statistics::on();
    let _alone = profiler::alone();
    let built = Build::new("threads.c").build("every_sample");
    let _busy = Running::start(&built.program, &["20".to_owned()]);
    let delivered = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&delivered);
    let profiler = Profiler::builder()
        .deadline(std::time::Duration::from_secs(120))
        .frequency(997)
        // Room for all of the samples, however late they are read on a busy machine.
        .ring_size(64 << 20)
        .unwind(ebpf_profiler_unwind::tables())
        .include_self()
        .sink(move |profile: &Profile| {
            sum.fetch_add(profile.count(), Ordering::Relaxed);
            Ok(())
        })
        .start()
        .expect("root may profile");
    std::thread::sleep(Duration::from_secs(4));
    let runs = runs_of(std::process::id()).expect("the kernel counts runs");
    let health = profiler.stop().expect("it has run until now");
    let delivered = delivered.load(Ordering::Relaxed);
    eprintln!("{runs} runs by the kernel's count a moment before the end; {delivered} samples; {health:#?}");
    assert!(health.runs >= runs, "the profiler's last reading of the kernel's count precedes this one");
    assert_eq!(health.ticks, health.runs, "each run takes a tick");
    let counted = health.lost + health.filtered + health.pipeline.unwanted + health.pipeline.malformed;
    assert_eq!(delivered + counted, health.ticks, "a tick is neither delivered nor counted");
    assert_eq!(health.lost, 0, "the ring was full");
}

#[test]
fn runs_are_read() {
    let info = "pos:\t0\nprog_type:\t7\nprog_jited:\t1\nprog_id:\t42\nrun_time_ns:\t9\nrun_cnt:\t1234\n";
    assert_eq!(runs_in(info), Some((42, 1234)));
    assert_eq!(runs_in(&info.replace("prog_type:\t7", "prog_type:\t5")), None);
    assert_eq!(runs_in("pos:\t0\n"), None);
}
