//! The kernel's own count of our samples.

use std::collections::BTreeMap;
use std::fs;

use crate::compile::Build;
use crate::process::Running;
use crate::profiler::{self, Order};

/// How often the programs of a process have been run on a perf event, by the kernel's count.
///
/// The count stands with each program's file descriptor while the statistics are on:
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

/// The number and the runs of a program for perf events.
fn runs_in(info: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    (value("prog_type")? == PERF_EVENT).then_some(())?;
    Some((value("prog_id")?, value("run_cnt")?))
}

const PERF_EVENT: u64 = 7;

/// The kernel counts runs while this lives.
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
        // Left on it costs some nanoseconds a run, no more.
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// All processors are kept busy, so that no tick falls into idleness, which is nobody's sample.
#[test]
#[ignore = "profiles: needs root"]
fn every_sample_is_delivered_or_counted() {
    if profiler::is_perf() {
        return;
    }
    let _statistics = Statistics::on();
    let built = Build::new("threads.c").build("every_sample");
    let _busy = Running::start(&built.program, &["20".to_owned()]);
    let order =
        Order { pid: None, seconds: 4.0, frequency: 997, output: built.directory.join("profile.folded") };
    let working = profiler::start(&order);
    let pid = working.pid();
    let mut runs = 0;
    let outcome = working.finish_watched(|| runs = runs_of(pid).unwrap_or(runs));
    let written: u64 = outcome.stacks.iter().map(|stack| stack.count).sum();
    let said = outcome.summary.expect("the profiler says at its end what it has");
    eprintln!("{runs} runs, {} samples, {} lost, {written} written", said.samples, said.lost);
    assert!(runs > 0, "the kernel has counted nothing");
    assert_eq!(said.samples, written, "the file holds what the last line says");
    // What the last look at the count can have missed: some milliseconds on two processors.
    let unseen = 40 + runs / 200;
    assert!((said.samples + said.lost).abs_diff(runs) <= unseen, "samples are missing and not counted");
}

#[test]
fn runs_are_read() {
    let info = "pos:\t0\nprog_type:\t7\nprog_jited:\t1\nprog_id:\t42\nrun_time_ns:\t9\nrun_cnt:\t1234\n";
    assert_eq!(runs_in(info), Some((42, 1234)));
    assert_eq!(runs_in(&info.replace("prog_type:\t7", "prog_type:\t5")), None);
    assert_eq!(runs_in("pos:\t0\n"), None);
}
