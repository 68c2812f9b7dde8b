//! Off-CPU time against the kernel's trace of switches.

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Trigger;
use ebpf_profiler_core::profile::{Kind, Sample};

use live_suite::selection::is_matrix;

use crate::bpftrace::Bpftrace;
use crate::switches::Waits;
use crate::workload::{Program, Run, WAITERS, chain};

#[test]
#[ignore = "needs root"]
fn times_of_all_threads_agree_with_the_scheduler() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("off_cpu").profile("waits", &["off-cpu"]);
    run.assert_few_lost();
    assert_eq!(run.threads.len(), WAITERS);
    assert_agree(&run, 0);
}

/// The same sums, by a script of bpftrace in the same run.
#[test]
#[ignore = "needs root"]
fn times_of_all_threads_agree_with_bpftrace() {
    const WAITS: &str = "
        tracepoint:sched:sched_process_fork { @since[args->child_pid] = nsecs; }
        tracepoint:sched:sched_switch {
            $since = @since[args->next_pid];
            if ($since) { @time[args->next_pid] = sum(nsecs - $since); @count[args->next_pid] = count(); }
            @since[args->prev_pid] = nsecs;
        }
        END { clear(@since); }";
    test_needs::root!();
    test_needs::programs!("gcc", "bpftrace");
    let mut script = None;
    let builder = Profiler::builder().on("off-cpu".parse::<Trigger>().unwrap());
    let run = Program::build("bpftrace").profile_attached("waits", builder, |_| {
        script = Some(Bpftrace::start(WAITS));
    });
    let maps = script.unwrap().finish();
    run.assert_few_lost();
    let mut wrong = Vec::new();
    for (name, counts) in &run.threads {
        let of = |map: &str| maps.get(&(map.to_owned(), counts.tid)).copied().unwrap_or(0);
        let (sampled, events, time, count) =
            (run.total(0, name), run.events(0, name), of("time"), of("count"));
        let share = 100.0 * (sampled as f64 / time as f64 - 1.0);
        println!("{name}: {sampled} ns in {events} waits, {share:+.3} % of {count} waits by bpftrace");
        // A lost wait is missing here alone.
        let allowed = time / 100 + 5_000 * count + run.stolen;
        let has_lost = events < count && run.health.lost > 0;
        if sampled.abs_diff(time) > allowed && !(has_lost && sampled < time) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: {:?}", run.health);
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

/// One run, in the matrix 100: their deviations scatter as the standard error says.
#[test]
#[ignore = "needs root"]
fn totals_of_a_tenth_of_the_waits_are_unbiased() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = Program::build("off_cpu_share");
    let runs = if is_matrix() { 100 } else { 1 };
    let mut scores = Vec::new();
    for _ in 0..runs {
        let run = program.profile("waits", &["off-cpu:0ns:0.1"]);
        run.assert_few_lost();
        scores.extend(scores_of(&run));
    }
    let count = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / count.sqrt();
    let squares = scores.iter().map(|score| score * score).sum::<f64>() / count;
    println!("{count} totals: mean {mean:+.2} standard errors, mean square {squares:.2}");
    assert!(mean.abs() < 5.0, "{mean}");
    // Long waits scatter more than a normal distribution; that of the mean square is allowed five times
    // as much.
    assert!((squares - 1.0).abs() < 5.0 * (2.0 / count).sqrt() * 5.0_f64.sqrt(), "{squares}");
}

/// Returns the deviations of the totals of all threads with many waits, in standard errors.
fn scores_of(run: &Run) -> Vec<f64> {
    let mut scores = Vec::new();
    for (name, counts) in &run.threads {
        let waits = &run.waits[&counts.tid].waits;
        let (sampled, truth) = (run.total(0, name) as f64, waits.iter().sum::<u64>() as f64);
        if waits.len() < 300 {
            // Too few for a normal distribution.
            continue;
        }
        // A wait counts ten times or not at all.
        let squares: f64 = waits.iter().map(|&wait| (wait as f64).powi(2)).sum();
        let error = (0.9 / 0.1 * squares).sqrt();
        let score = (sampled - truth) / error;
        println!("{name}: {score:+.1} standard errors of {:.1} %", 100.0 * error / truth);
        assert!(score.abs() < 6.0, "{name}: {sampled} of {truth}, {error}");
        let (events, mean) = (run.events(0, name) as f64, 0.1 * waits.len() as f64);
        let is_share = (events - mean).abs() < 6.0 * (0.9 * mean).sqrt();
        assert!(is_share, "{name}: {events} of {} waits", waits.len());
        scores.push(score);
    }
    scores
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

/// Asserts that the time off the CPU of each thread is that of the trace, in as many waits, to 0.1
/// %, [`TOLERANCE`] for each wait, and what the hypervisor gave to others, between the two readings
/// of the clock. Waits that the profiler counts as lost may miss.
///
/// The scheduler's own statistics have the last, rough word: they count a thread as running from
/// its wake-up on an idle CPU, and time of interrupts and of the hypervisor as of no thread; under
/// load they miss a twentieth.
#[track_caller]
fn assert_agree(run: &Run, kind: usize) {
    let (mut wrong, mut missing) = (Vec::new(), 0);
    for (name, counts) in &run.threads {
        let Waits { created, mut waits, late } = run.waits[&counts.tid].clone();
        let (sampled, events) = (run.total(kind, name), run.events(kind, name));
        let (truth, count) = (waits.iter().sum::<u64>(), waits.len() as u64);
        println!(
            "{name}: {sampled} ns in {events} waits, {:+} ns of {count} waits in the trace; {:+.2} % by statistics",
            sampled as i64 - truth as i64,
            100.0 * (sampled as f64 / counts.off_cpu as f64 - 1.0)
        );
        waits.sort_unstable();
        // Which of them were lost isn't known.
        let lost: u64 = waits.iter().rev().take(count.saturating_sub(events) as usize).sum();
        missing += count.saturating_sub(events + late);
        // The thread was created between its creator's look at the clock and the record of its creation.
        let allowed = TOLERANCE * count + truth / 1_000 + (created - counts.created) + run.stolen;
        let is_near = events <= count && sampled <= truth + allowed && sampled + allowed >= truth - lost;
        let difference = sampled.abs_diff(counts.off_cpu);
        let is_roughly_right = difference < counts.off_cpu / 4 + 20_000 * count + run.stolen;
        // The trace may lack the beginning of a thread, and a busy machine disturbs the statistics: one of
        // them has to agree.
        let agrees_with_statistics = difference < counts.off_cpu / 100 + 20_000 * events + run.stolen;
        if !is_roughly_right || !(is_near || agrees_with_statistics) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: {:?}", run.health);
    assert!(missing <= run.health.lost, "{missing} waits miss: {:?}", run.health);
}

/// Allowed difference of one wait in nanoseconds: the profiler's programs read the clock some
/// instructions after the trace.
const TOLERANCE: u64 = 5_000;
