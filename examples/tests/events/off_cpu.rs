//! Off-CPU time against `/proc/thread-self/schedstat`.

use ebpf_profiler_core::profile::{Kind, Sample};

use crate::workload::{Program, Run, chain};

#[test]
#[ignore = "needs root"]
fn times_of_all_threads_agree_with_the_scheduler() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("off_cpu").profile("waits", &["off-cpu"]);
    run.assert_few_lost();
    assert_eq!(run.threads.len(), 8);
    assert_agree(&run, 0);
}

#[test]
#[ignore = "needs root"]
fn cpu_and_off_cpu_time_are_sampled_at_once() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("both").profile("waits", &["off-cpu", "cpu"]);
    let names: Vec<&str> = run.profile.kinds().iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["cpu", "off-cpu"]);
    assert_agree(&run, 1);
    // The threads of the program had less than two CPUs for some seconds, at 19 Hz.
    let ticks: u64 = run.threads.keys().map(|name| run.total(0, name)).sum();
    assert!((1..1_000).contains(&ticks), "{ticks}");
}

#[test]
#[ignore = "needs root"]
fn stacks_are_those_that_went_to_sleep() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("off_cpu_stacks").profile("waits", &["off-cpu:1ms"]);
    let is_nap = |sample: &Sample<'_>| chain(sample).iter().any(|name| name.contains("do_nanosleep"));
    let is_right = |sample: &Sample<'_>| {
        let names = chain(sample);
        let known = ["start_thread", "work", "sleeper", "nap"];
        names.windows(known.len()).any(|part| part == known) && is_asleep(sample)
    };
    let sleeps = |sample: &Sample<'_>| &*sample.thread().name == "sleeper" && is_nap(sample);
    let (all, right) = (run.sum(0, sleeps), run.sum(0, |it| sleeps(it) && is_right(it)));
    println!("{:.2} % of the time of naps has the known chain", 100.0 * right as f64 / all as f64);
    assert!(right as f64 > 0.999 * all as f64, "{right} of {all}");
    // 500 times at least 3 ms.
    assert!(all >= 1_500_000_000, "{all}");
}

#[test]
#[ignore = "needs root"]
fn totals_of_a_tenth_of_the_waits_are_unbiased() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("off_cpu_share").profile("waits", &["off-cpu:0ns:0.1"]);
    run.assert_few_lost();
    // 500 naps of about equal length: the standard error of the sum is √(0.9 / 0.1 / 500) = 13 % of it.
    let (sampled, truth) = (run.total(0, "sleeper") as f64, run.threads["sleeper"].off_cpu as f64);
    println!("sleeper: {:+.1} %", 100.0 * (sampled / truth - 1.0));
    assert!((sampled / truth - 1.0).abs() < 4.0 * 0.134, "{sampled} of {truth}");
    assert!(run.events(0, "asker") < 1_000);
}

/// Returns `true` if the leaf is the scheduler, without frames of an interrupt.
fn is_asleep(sample: &Sample<'_>) -> bool {
    let kernel: Vec<String> = sample
        .trace()
        .calls()
        .filter(|call| call.kind() == Kind::Kernel)
        .map(|call| call.to_string())
        .collect();
    let is_scheduler = |name: &String| ["__schedule", "finish_task_switch.isra.0"].contains(&name.as_str());
    kernel.last().is_some_and(is_scheduler) && !kernel.iter().any(|name| name.contains("irq_work"))
}

/// Asserts that the time off the CPU of each thread is within 1 % of the scheduler's, and 20 µs for each wait.
///
/// The scheduler counts a thread that is woken on an idle CPU as running from its wake-up: the switch that follows doesn't
/// read the clock again (`rq_clock_skip_update`). On a virtual machine the CPU takes 2 to 10 µs from there to the switch. The time
/// of interrupts, and that which the hypervisor gives to others, is of no thread for it; the latter is added.
#[track_caller]
fn assert_agree(run: &Run, kind: usize) {
    let mut wrong = Vec::new();
    for (name, counts) in &run.threads {
        let (sampled, truth, waits) = (run.total(kind, name), counts.off_cpu, run.events(kind, name));
        let share = 100.0 * (sampled as f64 / truth as f64 - 1.0);
        println!("{name}: {sampled} ns in {waits} waits, {truth} ns by the scheduler, {share:+.2} %");
        if sampled.abs_diff(truth) > truth / 100 + 20_000 * waits + run.stolen {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: {:?}", run.health);
}
