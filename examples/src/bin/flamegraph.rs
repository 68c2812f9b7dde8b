//! Draws a flame graph of everything that runs on this machine, or of one process.
//!
//! ```text
//! cargo run --release --bin flamegraph -- --seconds 10 --output machine.html
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Broker, Health, Reservation};
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::sink::{File, Table, WriteError};
use examples::{
    By, Options, Progress, Usage, explain_start_error, fail, interrupted, notice_interrupts, print, say,
    sleep_until_interrupted,
};

const USAGE: Usage = Usage {
    about: "flamegraph: a flame graph of everything that runs on this machine",
    options: &[
        ("seconds", "N", "duration (10)"),
        ("frequency", "HZ", "samples per second and CPU, 1 to 10000 (97)"),
        ("pid", "PID", "only this process and its descendants; repeatable"),
        ("cgroup", "PATH", "only threads in this control group's subtree (version 2); repeatable"),
        ("command", "PATTERN", "only processes with this name: nginx, php-fpm*; repeatable"),
        ("thread", "PATTERN", "only threads with this name: worker-[0-9]; repeatable"),
        ("cpu", "LIST", "only on these CPUs: 0,2-5"),
        ("only", "CODE", "only events in user or kernel code"),
        ("on", "TRIGGER", "event to sample on: cpu, off-cpu:1ms, …, or help; repeatable (cpu)"),
        (
            "budget",
            "SHARE",
            "share of all CPUs that profiling may cost: 0.5%, with memory: 0.5%,64MiB (no limit)",
        ),
        (
            "reserve",
            "SHARE",
            "share of all CPUs that the kernel keeps free for profiling where they are scarce, or none (25%)",
        ),
        (
            "broker",
            "",
            "a second process opens what belongs to other users, and this one drops the privileges to",
        ),
        ("confine", "", "threads of the profiler are confined to the system calls that they need"),
        (
            "labels",
            "",
            "labels that other programs set for their threads, which can hold secrets: OpenTelemetry, Go (none)",
        ),
        ("by", "KEY", By::MEANING),
        ("groups", "N", "number of pictures of --by; smaller parts share the last one (20)"),
        (
            "output",
            "FILE",
            "name ending in .html, .svg, .folded, .pb.gz or .pb (pprof), .json (Firefox Profiler) or .speedscope.json (flamegraph.html)",
        ),
    ],
    arguments: "",
};

/// Time to unwind and name what is left at the end; two seconds less than a program has after a
/// signal.
const END: Duration = Duration::from_secs(8);

fn main() {
    Broker::serve_if_asked();
    let options = Options::parse(USAGE);
    ebpf_profiler_otlp::register_formats();
    examples::print_triggers_on_request(&options);
    let broker = examples::broker(&options);
    let output = options.get("output", PathBuf::from("flamegraph.html"));
    let duration = options.seconds("seconds").unwrap_or(Duration::from_secs(10));
    let file = check(&output);
    notice_interrupts();
    let reservation = examples::reservation(&options, "25%");
    // This thread takes part until the program ends.
    let reserved = reservation.as_ref().map(Reservation::enter);

    let mut profiler = Profiler::builder()
        .frequency(options.get("frequency", 97))
        .filter(examples::filter(&options))
        .deadline(END)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all());
    profiler = examples::separate(&options, broker.as_ref(), profiler);
    let by = By::of(&options);
    profiler = By::prepare(by.as_ref(), profiler);
    if options.has("labels") {
        profiler = profiler.process_labels(ebpf_profiler_hll::labels());
    }
    for pid in options.all("pid") {
        profiler = profiler.pid(pid);
    }
    for trigger in examples::triggers(&options) {
        profiler = profiler.on(trigger);
    }
    if let Some(budget) = examples::budget(&options) {
        profiler = profiler.budget(budget);
    }
    if let Some(reservation) = reservation {
        profiler = profiler.reserve(reservation);
    }
    let profiler = profiler.start().unwrap_or_else(|error| fail(explain_start_error(&error)));
    let mut file = file.unwrap_or_else(|error| fail(error));

    let progress = Progress::new();
    wait(&profiler, duration, &progress);
    progress.show(format_args!("naming functions; {}", remedy()));
    let (profile, health) = profiler.finish().unwrap_or_else(|error| fail(error));
    progress.show(format_args!("writing {}; {}", output.display(), remedy()));
    file.write(&profile).unwrap_or_else(|error| fail(error));
    drop(progress);
    report(&profile, &health, &output);
    if let Some(by) = by {
        write_parts(&profile, &by, options.get("groups", 20), &output);
    }
    drop(reserved);
}

/// Writes a picture for each part of the profile.
fn write_parts(profile: &Profile, by: &By, most: usize, output: &Path) {
    let paths = by.write(profile, most, output).unwrap_or_else(|error| fail(error));
    print(format_args!("\n{}", by.table(profile, most)));
    paths.iter().for_each(|path| print(format_args!("{}\n", path.display())));
}

/// Opens the output before anything is sampled. A missing permission is returned: without the
/// privilege to profile that is reported first, and the command that it names may write there, too.
fn check(output: &Path) -> Result<File, WriteError> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        fail(format!("there is no folder {}; create it with: mkdir -p {0}", folder.display()));
    }
    match File::new(output) {
        Err(WriteError::Io { source, .. }) if source.kind() != io::ErrorKind::PermissionDenied => {
            fail(WriteError::Io { path: output.into(), source })
        }
        Err(error @ WriteError::UnknownEnding { .. }) => fail(error),
        checked => checked,
    }
}

/// Samples for `duration`, until the processes have exited, or until the first signal.
fn wait(profiler: &Profiler, duration: Duration, progress: &Progress) {
    let end = Instant::now() + duration;
    sleep_until_interrupted(end, || {
        let left = end.saturating_duration_since(Instant::now()).as_secs_f32().ceil();
        let Health { ticks, filtered, lost, .. } = profiler.health();
        let samples = ticks - filtered;
        progress.show(format_args!("{left} s left, {samples} samples, {lost} lost; Ctrl-C ends early"));
        profiler.is_running()
    });
}

/// The effect of the next Ctrl-C.
fn remedy() -> &'static str {
    if interrupted() { "Ctrl-C ends at once" } else { "Ctrl-C ends within 10 s" }
}

fn report(profile: &Profile, health: &Health, output: &Path) {
    let lost = health.lost;
    for profile in profile.by_kind() {
        let (table, kind) = (Table::new(&profile).rows(15), profile.kind());
        let (all, whole) = (profile.count(), whole(&profile));
        let share = if all == 0 { 0.0 } else { 100.0 * whole as f64 / all as f64 };
        let total =
            if kind.is_cpu() { String::new() } else { format!("{kind}: {}, ", kind.format(profile.total())) };
        print(format_args!("{table}\n{total}{all} samples, {whole} whole ({share:.1} %), {lost} lost\n"));
        let doubtful = profile.summary().doubtful;
        if doubtful > 0 {
            say(format_args!("{doubtful} of these samples are doubtful: a return address follows no call"));
        }
    }
    print(format_args!("{}\n", output.display()));
    if let Some(budget) = examples::describe_budget(health) {
        say(budget);
    }
    if let Some(reservation) = examples::describe_reservation(health) {
        say(reservation);
    }
    if let Some(broker) = examples::describe_broker(health) {
        say(broker);
    }
    let losses = losses(health);
    if !losses.is_empty() {
        say(losses.join("; "));
    }
    if let Some(late) = examples::describe_deadline(health) {
        say(late);
    }
    if health.pipeline.late > 0 {
        say(format_args!(
            "{} samples have their innermost function only: too little CPU time to unwind them",
            health.pipeline.late
        ));
    }
}

/// Returns the reasons of losses, and everything else that was lost.
fn losses(health: &Health) -> Vec<String> {
    let Health { pipeline, sinks, .. } = health;
    let registry = &pipeline.registry;
    let mut losses: Vec<String> = [
        (pipeline.life_lost, "life events lost; mappings were read again"),
        (registry.exceeding, "processes exceeded their share of mappings or files"),
        (registry.jit.dropped, "JIT functions exceeded the limits and have no names"),
        (sinks.dropped, "profiles dropped"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, text)| format!("{count} {text}"))
    .collect();
    losses.extend(health.losses.iter().map(|(cause, count)| format!("{count} {cause}")));
    let refusals = registry.interpreters.refusals.iter();
    losses.extend(
        refusals.map(|((language, reason), count)| format!("{count} of {language} not read: {reason}")),
    );
    let without = registry.without_table.iter();
    losses.extend(without.map(|(reason, count)| format!("no unwind tables for {count} {reason}")));
    losses
}

fn whole(profile: &Profile) -> u64 {
    profile.samples().filter(|sample| sample.trace().is_whole()).map(|sample| sample.count()).sum()
}
