//! Kinds of samples arrive with their units, counts and totals.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::otelcol::{self, Options, Otelcol};
use crate::scratch::Scratch;
use live_suite::workload::steps::{Running, build};

/// Number of allocations that the function `plain` leaves in use, and their bytes.
const PLAIN: (u64, u64) = (400, 40_000);

/// Requests of the disk.
const REQUESTS: u64 = 200;

#[test]
#[ignore = "needs root and a collector"]
fn each_kind_arrives_with_its_unit_and_total() {
    test_needs::root!();
    test_needs::programs!("gcc", "python3");
    let Some(program) = otelcol::program() else { return };
    let scratch = Scratch::new("kinds");
    let file = scratch.path("received.json");
    let options = Options { file: Some(&file), ..Options::default() };
    let mut collector = Otelcol::start(&program, &scratch, &options);
    let program = build("collector", "gcc", "in_use.c", "in_use", &["-pthread"]);
    let (mut memory, mut disk) = (Running::start(&mut Command::new(program)), start_disk());
    let mut agent = Agent::new(&collector.endpoint("http"))
        .with(&["--protocol", "http", "--interval", "600"])
        .with(&["--on", "off-cpu", "--on", "malloc-live:1", "--on", "block-latency"])
        .with(&["--pid", &memory.child.id().to_string()])
        .with(&["--pid", &disk.child.id().to_string()])
        .start();
    agent.wait_for_samples();
    let began = Instant::now();
    memory.step("held");
    disk.step("end");
    let most = began.elapsed().as_nanos() as u64;
    let account = agent.end();
    println!("{account}");
    let sums = wait_for(&file);
    collector.kill();
    println!("{sums:?}");
    assert_eq!(account.dropped, 0, "{account}");
    let all = |kind: &str| sums.get(&(kind.to_owned(), String::new())).copied().unwrap_or_default();
    let plain = sums.get(&("inuse_space bytes".to_owned(), "plain".to_owned()));
    assert_eq!(plain, Some(&PLAIN));
    // The program that reads is read, too.
    let (requests, latency) = all("block_latency nanoseconds");
    assert!(requests >= REQUESTS && (1..most).contains(&latency), "{requests}, {latency} of {most}");
    // Both wait for their lines.
    let (waits, time) = all("off_cpu nanoseconds");
    assert!(waits >= 2 && time > 0, "{waits}, {time}");
}

/// Returns counts and values by kind and function, which is empty for all samples of a kind, once
/// the collector has written them.
fn wait_for(file: &str) -> BTreeMap<(String, String), (u64, u64)> {
    let end = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(file).unwrap_or_default().ends_with('\n') {
        assert!(Instant::now() < end, "the collector has written nothing");
        sleep(Duration::from_millis(100));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/collector/folded.py");
    let output = Command::new("python3").args([script, file, "kinds"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut sums = BTreeMap::<(String, String), (u64, u64)>::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap();
        let kind = format!("{} {}", word(), word());
        let (count, value): (u64, u64) = (word().parse().unwrap(), word().parse().unwrap());
        let mut functions: Vec<&str> =
            word().split(';').filter_map(|frame| frame.split(':').nth(1)).collect();
        functions.sort_unstable();
        functions.dedup();
        for function in functions.into_iter().chain([""]) {
            let sum = sums.entry((kind.clone(), function.to_owned())).or_default();
            *sum = (sum.0 + count, sum.1 + value);
        }
    }
    sums
}

/// Starts a program that reads from a disk.
fn start_disk() -> Running {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kinds.data");
    fs::write(&data, vec![1; (REQUESTS as usize) << 14]).unwrap();
    let read = format!("dd if={} of=/dev/null bs=16k iflag=direct 2>/dev/null", data.display());
    let script = format!("sync; echo ready; read line; {read}; echo end; read line");
    Running::start(Command::new("sh").args(["-c", &script]))
}
