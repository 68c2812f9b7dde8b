//! Profiles the machine for as long as it runs, and sends the profiles to an OpenTelemetry
//! collector.
//!
//! ```text
//! cargo run --release --bin agent -- --endpoint http://collector:4318 --spool /var/lib/agent
//! ```
//!
//! It prints its counters once a minute, and errors when they occur. After SIGTERM, SIGHUP or
//! Ctrl-C it sends what is queued; a second signal ends it at once.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Broker, Builder, Health, State, requirements};
use ebpf_profiler_otlp::{ExportError, Exporter, Resource, Settings, Stats};
use examples::{Options, Privacy, Redacted, Reporter, Signals, Usage, explain_start_error, fail};

const USAGE: Usage = Usage {
    about: "agent: profiles this machine and sends the profiles to an OpenTelemetry collector\n\n\
            Defaults come from the variables OTEL_EXPORTER_OTLP_* and OTEL_RESOURCE_ATTRIBUTES.",
    options: &[
        ("endpoint", "URL", "the collector; https:// for TLS (http://localhost:4318, for gRPC port 4317)"),
        ("protocol", "NAME", "http or grpc (http)"),
        ("header", "NAME=VALUE", "header of every request; repeatable"),
        ("compression", "NAME", "gzip, zstd or none, optionally with a level: zstd:3 (gzip)"),
        ("timeout", "SECONDS", "timeout of one request (10)"),
        ("certificate", "FILE", "trusted certificates, PEM (those of this machine)"),
        ("client-certificate", "FILE", "certificate of this client, PEM"),
        ("client-key", "FILE", "key of this client, PEM"),
        ("spool", "FOLDER", "folder for undelivered messages, kept across restarts (memory only)"),
        ("spool-mib", "N", "maximum size of the spool (256)"),
        ("queue-mib", "N", "maximum size of the queue in memory (64)"),
        ("service-name", "NAME", "resource attribute service.name"),
        ("attribute", "KEY=VALUE", "further resource attribute; repeatable"),
        (
            "privacy",
            "LEVEL",
            "what is sent of processes: containers, processes (ids, paths, threads) or all (command lines) (containers)",
        ),
        (
            "labels",
            "",
            "labels that other programs set for their threads, which can hold secrets: OpenTelemetry, Go (none)",
        ),
        (
            "contexts",
            "",
            "resource attributes that programs publish about themselves as OpenTelemetry specifies, which can hold secrets (none)",
        ),
        ("resources", "N", "maximum number of resources in a profile; smaller ones are sent as one (1000)"),
        ("interval", "SECONDS", "time between two profiles, 20 % more or less at random (5)"),
        ("frequency", "HZ", "samples per second and CPU, 1 to 10000 (19)"),
        ("on", "TRIGGER", "event to sample on: cpu, off-cpu:1ms, …, or help; repeatable (cpu)"),
        ("pid", "PID", "only this process and its descendants; repeatable"),
        ("cgroup", "PATH", "only threads in this control group's subtree (version 2); repeatable"),
        ("command", "PATTERN", "only processes with this name: nginx, php-fpm*; repeatable"),
        ("thread", "PATTERN", "only threads with this name: worker-[0-9]; repeatable"),
        ("cpu", "LIST", "only on these CPUs: 0,2-5"),
        ("only", "CODE", "only events in user or kernel code"),
        (
            "budget",
            "SHARE",
            "share of all CPUs that profiling may cost: 0.5%, with memory: 0.5%,64MiB (no limit)",
        ),
        (
            "reserve",
            "SHARE",
            "share of all CPUs that the kernel keeps free for profiling where they are scarce, or none (10%)",
        ),
        (
            "broker",
            "",
            "a second process opens what belongs to other users, and this one drops the privileges to",
        ),
        ("confine", "", "threads of the profiler are confined to the system calls that they need"),
        ("health", "SECONDS", "time between two lines of counters (60)"),
        ("seconds", "N", "duration (until SIGTERM)"),
    ],
    arguments: "",
};

/// Maximum random deviation of an interval, as a share of it.
const JITTER: f64 = 0.2;

fn main() {
    Broker::serve_if_asked();
    let options = Options::parse(USAGE);
    examples::print_triggers_on_request(&options);
    let broker = examples::broker(&options);
    examples::give_back();
    // Threads inherit the signal mask.
    let signals = Signals::hold();
    let settings = settings(&options).unwrap_or_else(|error| fail(error));
    let endpoint = settings.endpoint().to_owned();
    let exporter = Exporter::new(settings).unwrap_or_else(|error| fail(error));
    let sent = exporter.watch();
    let profiler = examples::separate(&options, broker.as_ref(), builder(&options))
        .sink(redacted(&options, exporter))
        .start()
        .unwrap_or_else(|error| fail(explain_start_error(&error)));
    report_requirements();
    say(&format!("profiles this machine and sends to {endpoint}"));

    let mut reporter = Reporter::default();
    run(&options, &signals, &profiler, &sent, &mut reporter);

    drop(signals);
    say("ends, and sends what is queued");
    let health = profiler.stop().unwrap_or_else(|error| fail(error));
    end(&health, &sent(), &mut reporter);
}

/// Returns the sink that sends what the level of privacy permits.
fn redacted(options: &Options, exporter: Exporter) -> Redacted<Exporter> {
    Redacted::new(exporter, privacy(options), options.get("resources", 1000))
}

fn privacy(options: &Options) -> Privacy {
    options.get("privacy", Privacy::default())
}

fn builder(options: &Options) -> Builder {
    let mut profiler = Profiler::builder()
        .frequency(options.get("frequency", 19))
        .filter(examples::filter(options))
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(seconds(options, "interval", 5))
        .jitter(JITTER);
    if privacy(options) == Privacy::All {
        profiler = profiler.command_lines();
    }
    if options.has("contexts") {
        profiler = profiler.process_contexts();
    }
    if options.has("labels") {
        profiler = profiler.process_labels(ebpf_profiler_hll::labels());
    }
    for pid in options.all("pid") {
        profiler = profiler.pid(pid);
    }
    for trigger in examples::triggers(options) {
        profiler = profiler.on(trigger);
    }
    if let Some(budget) = examples::budget(options) {
        profiler = profiler.budget(budget);
    }
    if let Some(reservation) = examples::reservation(options, "10%") {
        profiler = profiler.reserve(reservation);
    }
    profiler
}

/// Returns the settings of the environment, overridden by the command line.
fn settings(options: &Options) -> Result<Settings, ExportError> {
    let mut settings = Settings::from_variables(|name| flag(options, name).or_else(|| env::var(name).ok()))?
        .resource(resource(options))
        .queue_bytes(mebibytes(options, "queue-mib", 64.0) as usize);
    for (name, value) in pairs(options, "header") {
        settings = settings.header(name, value);
    }
    if let Some(folder) = options.one::<PathBuf>("spool") {
        settings = settings.spool(folder, mebibytes(options, "spool-mib", 256.0));
    }
    Ok(settings)
}

/// Returns the option that overrides a variable.
fn flag(options: &Options, variable: &str) -> Option<String> {
    let endpoint = || options.one::<String>("endpoint");
    let has_path = |url: &String| url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    match variable.strip_prefix("OTEL_EXPORTER_OTLP_")? {
        // A URL without a path gets the path of profiles; an empty variable counts as unset.
        "PROFILES_ENDPOINT" => endpoint().map(|url| if has_path(&url) { url } else { String::new() }),
        "ENDPOINT" => endpoint(),
        "PROFILES_PROTOCOL" => match options.one::<String>("protocol")?.as_str() {
            "http" => Some("http/protobuf".into()),
            name => Some(name.into()),
        },
        "PROFILES_COMPRESSION" => options.one("compression"),
        "PROFILES_TIMEOUT" => {
            options.seconds_from(MIN_SECONDS, "timeout").map(|timeout| timeout.as_millis().to_string())
        }
        "PROFILES_CERTIFICATE" => options.one("certificate"),
        "PROFILES_CLIENT_CERTIFICATE" => options.one("client-certificate"),
        "PROFILES_CLIENT_KEY" => options.one("client-key"),
        _ => None,
    }
}

fn resource(options: &Options) -> Resource {
    let mut resource = Resource::of_this_machine().with_env();
    for (key, value) in pairs(options, "attribute") {
        resource = resource.with(key, value);
    }
    match options.one::<String>("service-name") {
        Some(name) => resource.with("service.name", name),
        None => resource,
    }
}

fn pairs(options: &Options, name: &str) -> Vec<(String, String)> {
    let split = |text: String| match text.split_once('=') {
        Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
        None => fail(format!("--{name} cannot be {text:?}; give a name and a value: NAME=VALUE")),
    };
    options.all(name).into_iter().map(split).collect()
}

fn seconds(options: &Options, name: &str, otherwise: u64) -> Duration {
    options.seconds_from(MIN_SECONDS, name).unwrap_or(Duration::from_secs(otherwise))
}

/// Minimum of all times, in seconds.
const MIN_SECONDS: f64 = 0.1;

fn mebibytes(options: &Options, name: &str, otherwise: f64) -> u64 {
    let mebibytes: f64 = options.get(name, otherwise);
    if !(0.0..=1e9).contains(&mebibytes) {
        fail(format!("--{name} cannot be {mebibytes}; give a number of MiB"));
    }
    (mebibytes * f64::from(1 << 20)) as u64
}

/// Sleeps until a signal, and reports errors and counters meanwhile.
fn run(
    options: &Options,
    signals: &Signals,
    profiler: &Profiler,
    sent: &impl Fn() -> Stats,
    reporter: &mut Reporter,
) {
    let (start, health) = (Instant::now(), seconds(options, "health", 60));
    let end = options.seconds_from(MIN_SECONDS, "seconds").map(|seconds| start + seconds);
    let look = seconds(options, "interval", 5).min(health);
    let mut next = start + health;
    while profiler.is_running() {
        let now = Instant::now();
        let wake = (now + look).min(next).min(end.unwrap_or(next));
        if signals.wait(wake.saturating_duration_since(now)) || end.is_some_and(|end| Instant::now() >= end) {
            return;
        }
        if Instant::now() >= next {
            next += health;
            say(&reporter.line(&profiler.health(), &sent()));
        } else if let Some(error) = reporter.error(&sent()) {
            say(&error);
        }
    }
}

/// Reports requirements that this machine does not meet.
fn report_requirements() {
    for requirement in requirements().iter().filter(|requirement| requirement.state != State::There) {
        say(&format!("{}: {}; {}", requirement.what, requirement.found, requirement.advice()));
    }
}

fn end(health: &Health, sent: &Stats, reporter: &mut Reporter) {
    say(&reporter.line(health, sent));
    let left = sent.abandoned + sent.queued;
    if left > 0 {
        fail(format!("{left} messages are lost: they were not delivered in time, and there is no spool"));
    }
}

/// Prints a line to standard error, which service managers log.
fn say(line: &str) {
    examples::say(format_args!("agent: {line}"));
}
