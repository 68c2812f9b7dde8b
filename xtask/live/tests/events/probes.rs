//! Probes, tracepoints and page faults against the program's own counts.

use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Health, Trigger};

use crate::tracefs;
use crate::workload::{Program, chain};

/// Calls of a function, as the program says.
const CALLS: u64 = 20_000;

#[test]
#[ignore = "needs root"]
fn calls_arguments_and_results_are_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = Program::build("probes");
    let path = program.0.display();
    let triggers = [
        format!("uprobe:{path}:called"),
        format!("uprobe:{path}:called:arg0"),
        format!("uretprobe:{path}:called:result"),
    ];
    let run = program.profile("calls", &triggers.each_ref().map(String::as_str));
    run.assert_none_lost();
    let arguments: u64 = (0..CALLS).sum();
    let totals = [0, 1, 2].map(|kind| run.total(kind, "caller"));
    assert_eq!(totals, [CALLS, arguments, 2 * arguments]);
    let known = run.sum(0, |sample| {
        let names = chain(sample);
        names.ends_with(&["start_thread", "work", "caller", "called"].map(str::to_owned))
    });
    assert_eq!(known, CALLS, "with the known chain");
    run.assert_none_raw();
}

/// A process has thousands of events before its first table is ready. Each is counted, and the
/// copies of its stack leave room for the samples of others.
#[test]
#[ignore = "needs root"]
fn flood_of_unknown_process_is_counted() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = Program::build("flood");
    let path = program.0.display();
    let run = program.profile_unknown("calls", &[&format!("uprobe:{path}:called")], Duration::from_secs(2));
    let known =
        run.sum(0, |sample| chain(sample).ends_with(&["work", "caller", "called"].map(str::to_owned)));
    let Health { bytes, lost, pipeline, .. } = &run.health;
    println!("{known} of {} whole, {} raw, {bytes} bytes, {lost} lost", run.total(0, "caller"), pipeline.raw);
    run.assert_none_lost();
    assert_eq!(run.total(0, "caller"), CALLS);
    assert!(known >= 500, "{known} whole");
}

#[test]
#[ignore = "needs root"]
fn page_faults_agree_with_getrusage() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let run = Program::build("faults").profile("calls", &["page-faults"]);
    run.assert_none_lost();
    let (sampled, truth) = (run.total(0, "toucher"), run.threads["toucher"].faults);
    println!("{sampled} page faults, {truth} by getrusage");
    // Faults at the thread's start and end are sampled, but not counted.
    assert!(truth >= 20_000 && (truth..truth + 100).contains(&sampled), "{sampled}, {truth}");
}

#[test]
#[ignore = "needs root"]
fn tracepoint_is_counted_with_its_stack() {
    test_needs::root!();
    test_needs::programs!("gcc");
    tracefs::mount().unwrap();
    let run = Program::build("tracepoint").profile("calls", &["tracepoint:syscalls:sys_enter_read"]);
    run.assert_none_lost();
    let reads = run.sum(0, |sample| chain(sample).contains(&"reader".to_owned()));
    // And one of its own statistics.
    assert_eq!(reads, CALLS);
}

/// Kernels without kprobes say so; `cargo xtask kernels` has others.
#[test]
#[ignore = "needs root"]
fn functions_of_the_kernel_are_counted_where_it_has_kprobes() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let has_kprobes = std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let is_counted = count_reads("kprobe:ksys_read", "kretprobe:ksys_read:result");
    assert_eq!(is_counted, has_kprobes);
}

/// The same for fentry, which a kernel with all that it needs may forbid.
#[test]
#[ignore = "needs root"]
fn functions_of_the_kernel_are_counted_where_it_permits_fentry() {
    test_needs::root!();
    test_needs::programs!("gcc");
    count_reads("fentry:ksys_read", "fexit:ksys_read:result");
    for (trigger, reason) in [
        ("fentry:no_such_function", "the kernel has no function no_such_function"),
        ("fentry:ksys_read:arg3", "ksys_read has 3 arguments"),
        ("fexit:kfree:result", "the result of kfree is no integer or pointer"),
        ("fentry:vfs_*", "functions match, and at most 16 are possible"),
    ] {
        assert_fails(trigger, reason);
    }
}

/// Cycles of a thread that works, where the machine counts them.
#[test]
#[ignore = "needs root"]
fn cycles_are_counted_where_there_are_counters() {
    test_needs::root!();
    test_needs::programs!("gcc");
    if let Some(missing) = Trigger::missing("cycles[:N]") {
        println!("{missing}");
        return assert_fails("cycles", &missing);
    }
    let run = Program::build("cycles").profile("waits", &["cycles:1000003"]);
    let cycles = run.total(0, "spinner-a");
    // It spins for 1.5 s beside two others, at 0.5 to 6 GHz.
    println!("{cycles} cycles");
    assert!((50_000_000..10_000_000_000).contains(&cycles), "{cycles}");
}

/// Samples a function of the kernel. Returns `false` if that isn't possible, which the profiler has
/// to say.
fn count_reads(entry: &str, exit: &str) -> bool {
    if let Some(missing) = Trigger::missing(entry) {
        let error = Profiler::builder()
            .on(entry.parse::<Trigger>().unwrap())
            .frame_pointers_only()
            .start()
            .map(drop)
            .unwrap_err();
        println!("{error}");
        assert_eq!(error.to_string(), format!("cannot sample on {entry}: {missing}"));
        return false;
    }
    let run = Program::build(entry.split(':').next().unwrap()).profile("calls", &[entry, exit]);
    run.assert_none_lost();
    let reads = run.sum(0, |sample| chain(sample).contains(&"reader".to_owned()));
    assert_eq!(reads, CALLS);
    true
}

#[test]
#[ignore = "needs root"]
fn missing_functions_files_and_tracepoints_are_errors() {
    test_needs::root!();
    tracefs::mount().unwrap();
    for (trigger, reason) in [
        ("uprobe:libc.so.6:no_such_function", "has no function no_such_function"),
        ("uprobe:/no/such/file:main", "/no/such/file cannot be opened"),
        ("uprobe:no-such.so:main", "no library no-such.so"),
        ("tracepoint:syscalls:no_such_event", "there is no tracepoint"),
        ("kprobe:no_such_function", "the kernel has no function no_such_function"),
        ("kprobe:no_such_*", "no function of the kernel matches no_such_*"),
    ] {
        assert_fails(trigger, reason);
    }
}

/// Asserts that a profiler on a trigger does not start, for a reason.
#[track_caller]
fn assert_fails(trigger: &str, reason: &str) {
    let error = Profiler::builder().on(trigger.parse::<Trigger>().unwrap()).frame_pointers_only().start();
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.contains(trigger) && error.contains(reason), "{error}");
}
