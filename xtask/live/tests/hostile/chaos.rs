//! All attacks beside one another.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::names::deep_stack;
use crate::processes::{FORKS, compile, copy_of_runtime, end_group, profile_with, ready};
use crate::scratch::{NOBODY, Process, Scratch};

/// Maximum memory of the profiler in bytes.
const MEMORY: u64 = 150 << 20;

/// The most that the memory may grow between the first and the last third, in bytes.
const GROWTH: u64 = 16 << 20;

/// Seconds of the test, unless `CHAOS_SECONDS` is set.
const SECONDS: u64 = 600;

mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn attacks_beside_one_another_cost_no_other_program() {
        test_needs::root!();
        let seconds = std::env::var("CHAOS_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
        let folders = ["deep", "remap", "lives", "mappings", "forking", "runtimes"]
            .map(|name| Scratch::new(&format!("chaos-{name}")));
        let [deep, remap, lives, mappings, forking, runtimes] = &folders;
        let mut attackers = vec![deep_stack(deep)];
        attackers.push(Process::start(Command::new(compile(remap, "remap")).uid(NOBODY)));
        let program = compile(lives, "lives");
        for _ in 0..2 {
            attackers.push(Process::start(Command::new(&program).arg(lives.path("")).uid(NOBODY)));
        }
        let program = compile(runtimes, "runtimes");
        if let Some(runtime) = copy_of_runtime(runtimes) {
            let mut attacker = Process::start(Command::new(program).arg(runtime).uid(NOBODY));
            ready(&mut attacker);
            attackers.push(attacker);
        }
        let start_mappings = |scratch: &Scratch| {
            let mut command = Command::new(compile(scratch, "mappings"));
            command.args([&scratch.path(""), &FORKS.to_string()]);
            Process::start(command.uid(NOBODY).process_group(0))
        };
        let mut groups = vec![start_mappings(mappings)];
        ready(&mut groups[0]);
        let profiled = Scratch::new("chaos");
        let profile = profile_with(&profiled, seconds, MEMORY, || groups.push(start_mappings(forking)));
        groups.iter().for_each(end_group);
        let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
        // While it samples, ten times a second; naming comes behind that.
        let sampled = profile.memory.len().min(seconds as usize * 9);
        let (early, late) = (0..sampled / 3, sampled / 3 * 2..sampled);
        let (few, many) =
            (most(&profile.descriptors[early.clone()]), most(&profile.descriptors[late.clone()]));
        let (early, late) = (most(&profile.memory[early]), most(&profile.memory[late]));
        let minutes: Vec<_> = profile.memory.chunks(600).map(|minute| most(minute) >> 20).collect();
        eprintln!("resident in each minute: {minutes:?} MiB");
        eprintln!("resident: {} MiB, then {} MiB; {few} descriptors, then {many}", early >> 20, late >> 20);
        profile.require_ordinary();
        assert!(late <= early + GROWTH, "{} MiB, then {} MiB", early >> 20, late >> 20);
        // Code files stay open for a second or two after their processes.
        assert!(many <= few * 2 + 64, "{few} descriptors, then {many}");
    }
}
