//! Samples that end later, memory in use and requests of disks, taken live and from their
//! recording.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Trigger;
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::replay::Replay;

use live_suite::workload::steps::{Running, build};

/// Bytes that `plain` of the program leaves in use, and those after it freed a part.
const PLAIN: [u64; 2] = [40_000, 20_000];

/// Requests of the disk.
const REQUESTS: u64 = 200;

#[test]
#[ignore = "profiles: needs root"]
fn replayed_samples_have_the_values_of_their_ends() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("held");
    fs::create_dir_all(&folder).unwrap();
    let (data, recording) = (folder.join("data"), folder.join("run.ticks"));
    fs::write(&data, vec![1; (REQUESTS as usize) << 14]).unwrap();
    let read =
        format!("read line; dd if={} of=/dev/null bs=16k iflag=direct 2>/dev/null; echo end", data.display());
    let mut memory =
        Running::start(&mut Command::new(build("replay", "gcc", "in_use.c", "in_use", &["-pthread"])));
    let mut disk = Running::start(Command::new("sh").args(["-c", &format!("sync; echo ready; {read}")]));

    let triggers = ["malloc-live:1", "block-latency"].map(|text| text.parse::<Trigger>().unwrap());
    let builder = triggers.into_iter().fold(Profiler::builder(), |builder, trigger| builder.on(trigger));
    let builder = builder.pid(memory.child.id()).pid(disk.child.id()).ring_size(64 << 20).record(&recording);
    let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start().unwrap();
    memory.step("held");
    disk.step("end");
    let first = profiler.take_profile().unwrap();
    memory.step("end");
    let (second, health) = profiler.finish().unwrap();
    let recorded = health.recording.unwrap();
    assert_eq!((health.lost, recorded.error, recorded.left_out), (0, None, 0));
    drop((memory, disk));

    let replay = Replay::open(&recording).unwrap().unwind(ebpf_profiler_unwind::tables());
    let replayed: Vec<Profile> = replay.profiles().unwrap().map(Result::unwrap).collect();
    let live = [first, second];
    assert_eq!(replayed.len(), live.len());
    for ((live, replayed), plain) in live.iter().zip(&replayed).zip(PLAIN) {
        let totals = [0, 1].map(|kind| (live.of_kind(kind).total(), live.of_kind(kind).count()));
        println!("{totals:?}: bytes in use, samples; nanoseconds, requests");
        assert_eq!(of(live, "plain"), plain);
        for kind in [0, 1] {
            assert_eq!(stacks(replayed, kind), stacks(live, kind));
        }
    }
    // The program that reads is read, too.
    let requests = live[0].of_kind(1);
    assert!(requests.count() >= REQUESTS && requests.total() > 0, "{} requests", requests.count());
}

/// Returns values and counts of the samples of a kind by process, thread and stack.
fn stacks(profile: &Profile, kind: usize) -> BTreeMap<String, (u64, u64)> {
    let mut stacks = BTreeMap::<String, (u64, u64)>::new();
    let profile = profile.of_kind(kind);
    for sample in profile.samples() {
        let calls: Vec<String> = sample.trace().calls().map(|call| call.to_string()).collect();
        let at = format!("{};{};{}", sample.process().pid, sample.thread().tid, calls.join(";"));
        let sums = stacks.entry(at).or_default();
        *sums = (sums.0 + sample.value(), sums.1 + sample.count());
    }
    stacks
}

/// Returns the bytes in use of a function.
fn of(profile: &Profile, function: &str) -> u64 {
    let stacks = stacks(profile, 0).into_iter();
    stacks
        .filter(|(calls, _)| calls.split(';').any(|call| call == function))
        .map(|(_, (value, _))| value)
        .sum()
}
