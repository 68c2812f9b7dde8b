//! Bytes per sample in messages to a collector, for running programs.
//!
//! ```text
//! cargo bench -p benches --bench otlp_bytes -- --rounds 5
//! ```
//!
//! First a C program with two threads at a depth of 50 calls and intervals of 5 s, then scripts of
//! all installed runtimes at once and intervals of 2 s, then the whole machine; 97 Hz, with
//! timestamps. `--keep DIRECTORY` keeps the messages, for other programs.
#![expect(clippy::print_stdout, reason = "this is what a bench is for")]

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use benches::options::{option, want_root};
use benches::program::{Running, build};
use benches::report::{median, print, row};
use bytes::Bytes;
use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_otlp::{Compression, Encoder, Resource, pprof};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const HERTZ: u32 = 97;
const DEPTH: u32 = 50;

fn main() -> Outcome {
    want_root("otlp_bytes");
    let rounds = option("rounds", 3);
    let mut table = vec![row(["", "samples", "raw", "gzip 1", "gzip 6", "zstd 3", "goal, raw and gzip"])];
    {
        let spin = build("spin", false, env!("CARGO_TARGET_TMPDIR"))?;
        let busy = Running::spin(&spin, DEPTH)?;
        let messages = profile("threads", &[busy.pid()], Duration::from_secs(5), rounds)?;
        table.push(line("two threads, 50 deep, 5 s", &messages, "14 and 7.6"));
    }
    let busy = runtimes()?;
    let pids: Vec<u32> = busy.iter().map(|running| running.0.id()).collect();
    // Waits until the compilers of runtimes are idle.
    std::thread::sleep(Duration::from_secs(2));
    let messages = profile("runtimes", &pids, Duration::from_secs(2), rounds)?;
    table.push(line(&format!("{} runtimes, 2 s", pids.len()), &messages, "75 and 26"));
    drop(busy);
    let messages = profile("machine", &[], Duration::from_secs(5), rounds)?;
    table.push(line("whatever runs on this machine, 5 s", &messages, ""));
    println!("bytes a tick, medians of {rounds} intervals\n");
    print(&table);
    Ok(())
}

/// Samples of a profile, and the size of its message.
struct Message {
    ticks: u64,
    bytes: Bytes,
}

/// Profiles these processes, or all if empty. The first interval is left out, because it holds
/// names of the start.
fn profile(name: &str, pids: &[u32], interval: Duration, rounds: usize) -> Outcome<Vec<Message>> {
    let (sender, receiver) = channel();
    let (keep, name) = (option("keep", String::new()), name.to_owned());
    let (mut encoder, mut number) = (Encoder::new(Resource::of_this_machine()), 0);
    let mut builder = Profiler::builder()
        .frequency(HERTZ)
        .unwind(ebpf_profiler_unwind::tables())
        .languages(ebpf_profiler_hll::all())
        .every(interval)
        .sink(move |profile: &Profile| {
            // One message: the size is far below the limit.
            let bytes = encoder.encode(profile).into_iter().next().unwrap_or_default();
            if !keep.is_empty() {
                number += 1;
                let path = Path::new(&keep).join(format!("{name}-{number}"));
                std::fs::write(path.with_extension("otlp"), &bytes)?;
                std::fs::write(path.with_extension("pb.gz"), pprof(profile))?;
            }
            Ok(sender.send(Message { ticks: profile.count(), bytes })?)
        });
    for &pid in pids {
        builder = builder.pid(pid);
    }
    let profiler = builder.start()?;
    let messages = wait(&receiver, rounds + 1)?;
    profiler.stop()?;
    Ok(messages)
}

fn wait(receiver: &Receiver<Message>, intervals: usize) -> Outcome<Vec<Message>> {
    let all: Result<Vec<_>, _> = (0..intervals).map(|_| receiver.recv()).collect();
    Ok(all?.split_off(1))
}

fn line(name: &str, messages: &[Message], goal: &str) -> Vec<String> {
    let per_tick = |compression: Compression| {
        let len = |it: &Message| compression.compress(&it.bytes).len() as f64 / it.ticks.max(1) as f64;
        format!("{:.1}", median(&messages.iter().map(len).collect::<Vec<_>>()))
    };
    let ticks: Vec<f64> = messages.iter().map(|it| it.ticks as f64).collect();
    vec![
        name.to_owned(),
        median(&ticks).to_string(),
        per_tick(Compression::None),
        per_tick(Compression::Gzip(1)),
        per_tick(Compression::Gzip(6)),
        per_tick(Compression::Zstd(3)),
        goal.to_owned(),
    ]
}

/// A script that runs until it is dropped.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts one script per installed runtime.
fn runtimes() -> Outcome<Vec<Script>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/deep");
    let go = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deep.go.exe");
    let built = Command::new("go").args(["build", "-o"]).arg(&go).arg(folder.join("deep.go")).status();
    let mut scripts = Vec::new();
    if built.is_ok_and(|status| status.success()) {
        scripts.extend(run(&mut Command::new(&go)));
    }
    for (program, script) in [
        ("python3", "deep.py"),
        ("node", "deep.js"),
        ("perl", "deep.pl"),
        ("bash", "deep.sh"),
        ("tclsh", "deep.tcl"),
        ("java", "Deep.java"),
        ("ruby", "deep.rb"),
    ] {
        scripts.extend(run(Command::new(program).arg(folder.join(script))));
    }
    match scripts.is_empty() {
        true => Err("no runtime is installed".into()),
        false => Ok(scripts),
    }
}

fn run(command: &mut Command) -> Option<Script> {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Script)
}
