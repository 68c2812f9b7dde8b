//! Profilers at an event: ours, that of OpenTelemetry, and scripts of bpftrace.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use benches::bpf::{AtSwitches, KPROBE};
use benches::options::option;
use benches::peer::Peer;
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Filter, Malloc, OffCpu, Trigger};
use ebpf_profiler_core::symbol::NoSymbols;

use crate::Outcome;
use crate::workload::Event;

/// A profiler of an event.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) event: Event,
    tool: Tool,
}

enum Tool {
    /// Ours, with a trigger and a filter.
    Ours(fn() -> Trigger, fn() -> Filter),
    /// bpftrace with a script.
    Script(&'static str),
    /// The profiler of OpenTelemetry, with the probability of a sample.
    Peer(&'static str),
    /// A program without work.
    Nothing,
}

/// A side at work.
pub(crate) enum Running {
    Ours(Profiler),
    Script(Child),
    Peer { _peer: Peer },
    Nothing { _program: AtSwitches },
}

/// Longer than a round.
const MAX_LIFE: Duration = Duration::from_secs(3600);

/// Waits of at least a nanosecond.
const EACH: Duration = Duration::from_nanos(1);

/// All sides; those of one event one after the other.
pub(crate) const SIDES: &[Side] = &[
    ours("switch, not sampled", Event::Switch, || OffCpu::longer_than(MAX_LIFE).into(), Filter::new),
    ours("switch, filtered by command", Event::Switch, || OffCpu::longer_than(EACH).into(), nobody),
    ours("switch, sampled", Event::Switch, || OffCpu::longer_than(EACH).into(), Filter::new),
    ours(
        "switch, sampled with wakers",
        Event::Switch,
        || OffCpu::longer_than(EACH).wakers().into(),
        Filter::new,
    ),
    ours("switch, sampled one of a million", Event::Switch, || rarely().into(), Filter::new),
    peer("switch, OpenTelemetry: one of a million", Event::Switch, "0.000001"),
    peer("switch, OpenTelemetry: all", Event::Switch, "1"),
    script("switch, bpftrace: threshold", Event::Switch, THRESHOLD),
    script("switch, bpftrace: times by stack", Event::Switch, TIMES),
    Side { name: "switch, a program without work", event: Event::Switch, tool: Tool::Nothing },
    ours("malloc, filtered by command", Event::Malloc, || Malloc::of_c_library().into(), nobody),
    ours("malloc, sampled", Event::Malloc, || Malloc::of_c_library().into(), Filter::new),
    script("malloc, bpftrace: count", Event::Malloc, COUNT),
    script("malloc, bpftrace: bytes by stack", Event::Malloc, BYTES),
];

/// Waits above a threshold that none reaches: no stack is taken.
const THRESHOLD: &str = "tracepoint:sched:sched_switch {
    $since = @since[args->next_pid];
    if ($since && nsecs - $since > 3600000000000) { @long[args->next_pid] = nsecs - $since; }
    @since[args->prev_pid] = nsecs;
}";

/// Each wait by the stack that went to sleep. The stack of the next thread is out of reach at this
/// tracepoint, so each thread's is kept when it leaves.
const TIMES: &str = "tracepoint:sched:sched_switch {
    $since = @since[args->next_pid];
    if ($since) { @times[@kernel[args->next_pid], @user[args->next_pid], @name[args->next_pid]] = sum(nsecs - $since); }
    @since[args->prev_pid] = nsecs;
    @kernel[args->prev_pid] = kstack;
    @user[args->prev_pid] = ustack;
    @name[args->prev_pid] = args->prev_comm;
}";

const COUNT: &str = "uprobe:/lib/x86_64-linux-gnu/libc.so.6:malloc { @count = count(); }";

const BYTES: &str = "uprobe:/lib/x86_64-linux-gnu/libc.so.6:malloc { @bytes[ustack] = sum(arg0); }";

const fn ours(name: &'static str, event: Event, trigger: fn() -> Trigger, filter: fn() -> Filter) -> Side {
    Side { name, event, tool: Tool::Ours(trigger, filter) }
}

const fn script(name: &'static str, event: Event, text: &'static str) -> Side {
    Side { name, event, tool: Tool::Script(text) }
}

const fn peer(name: &'static str, event: Event, probability: &'static str) -> Side {
    Side { name, event, tool: Tool::Peer(probability) }
}

/// Samples one wait of a million.
fn rarely() -> OffCpu {
    OffCpu::longer_than(EACH).probability(1e-6)
}

/// Accepts processes that don't exist.
fn nobody() -> Filter {
    Filter::new().command("nobody")
}

impl Side {
    /// Returns the reason for which it cannot be measured; `None` if it can.
    pub(crate) fn why_not(&self) -> Option<&'static str> {
        let is_there = || Command::new("bpftrace").arg("--version").output().is_ok();
        match self.tool {
            Tool::Script(_) if !is_there() => Some("no bpftrace"),
            Tool::Peer(_) if option("peer", String::new()).is_empty() => Some("no --peer"),
            Tool::Peer(_) if !Path::new(KPROBES).exists() => Some("no kprobes"),
            Tool::Ours(..) | Tool::Script(_) | Tool::Peer(_) | Tool::Nothing => None,
        }
    }

    /// Starts it, and waits until it is at work.
    pub(crate) fn start(&self) -> Outcome<Running> {
        match &self.tool {
            Tool::Ours(trigger, filter) => {
                let builder = Profiler::builder().on(trigger()).filter(filter());
                let builder = builder.unwind(ebpf_profiler_unwind::tables()).symbolizer(NoSymbols);
                Ok(Running::Ours(builder.start()?))
            }
            Tool::Script(text) => trace(text).map(Running::Script),
            Tool::Nothing => Ok(Running::Nothing { _program: AtSwitches::start()? }),
            Tool::Peer(probability) => Ok(Running::Peer { _peer: wait(probability)? }),
        }
    }
}

impl Running {
    /// Ends it and returns the number of samples, which only ours counts.
    pub(crate) fn stop(self) -> Outcome<u64> {
        match self {
            Running::Ours(profiler) => Ok(profiler.stop()?.pipeline.samples),
            Running::Script(mut child) => {
                // It prints its maps after SIGINT, which takes long for many stacks.
                child.kill()?;
                child.wait()?;
                Ok(0)
            }
            Running::Peer { .. } | Running::Nothing { .. } => Ok(0),
        }
    }
}

/// Exists if the kernel has probes in its functions.
const KPROBES: &str = "/sys/bus/event_source/devices/kprobe";

/// Starts the profiler of OpenTelemetry, without its walkers of languages, and waits until it sees
/// switches. It reads tracefs, which has to be mounted.
fn wait(probability: &str) -> Outcome<Peer> {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = option("folder", tmp.to_path_buf());
    let fixtures = option("fixtures", tmp.with_file_name("fixtures"));
    let arguments = ["-off-cpu-threshold", probability, "-tracers", "native"];
    let peer = Peer::start(&option("peer", String::new()), &arguments, &fixtures, &folder)?;
    peer.wait_until_it_runs(KPROBE, "finish_task_switch")?;
    Ok(peer)
}

/// Starts bpftrace, which reads tracefs, in a mount namespace that has it.
fn trace(text: &str) -> Outcome<Child> {
    const MOUNT: &str = "mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -e \"BEGIN { printf(\\\"ready\\n\\\"); } $0\"";
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", MOUNT, text])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = child.stdout.take().ok_or("bpftrace has no output")?;
    let mut lines = BufReader::new(out).lines();
    while let Some(line) = lines.next() {
        if line?.contains("ready") {
            // What it prints later fills no pipe.
            std::mem::forget(lines);
            return Ok(child);
        }
    }
    Err("bpftrace could not start".into())
}
