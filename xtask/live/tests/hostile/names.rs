//! Names and stacks of maximum length.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::scratch::{HANGS, Process, Scratch};
use live_suite::paths::example;

/// Length of a function's name in bytes.
const NAME: usize = 60_000;

/// Maximum resident memory of the profiler in bytes.
const MEMORY: u64 = 150 << 20;

#[test]
#[ignore = "needs root"]
fn long_names_in_deep_stacks_are_cut() {
    test_needs::root!();
    let scratch = Scratch::new("names");
    let attacker = deep_stack(&scratch);
    for ending in ["folded", "svg", "html"] {
        let output = scratch.path(&format!("x.{ending}"));
        let pid = attacker.0.id().to_string();
        let arguments = ["--seconds", "2", "--pid", &pid, "--output", &output];
        let mut profiler = Process::start(Command::new(example("flamegraph")).args(arguments));
        let mut peak = 0;
        let end = Instant::now() + HANGS;
        while profiler.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the profiler hangs");
            peak = peak.max(profiler.peak_memory());
            std::thread::sleep(Duration::from_millis(20));
        }
        let finished = profiler.output();
        assert!(finished.status.success(), "{finished:?}");
        assert!(peak < MEMORY, "{ending}: {} MiB", peak >> 20);
        let text = fs::read_to_string(&output).unwrap();
        assert!(text.len() < 64 << 20, "{ending}: {} bytes", text.len());
        assert!(text.contains("eee"), "{ending}");
        println!("{ending}: {} MiB of memory, {} bytes written", peak >> 20, text.len());
        if ending == "folded" {
            let line = text.lines().max_by_key(|line| line.len()).unwrap();
            assert!(line.split(';').count() > 1_900 && line.contains('…'), "{}", line.len());
            let counts = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
            assert!(counts.sum::<u64>() > 0);
        }
    }
}

/// Starts a program whose stack is 1,900 frames deep, with function names of 60,000 bytes.
pub(crate) fn deep_stack(scratch: &Scratch) -> Process {
    let [even, odd] = ["e", "o"].map(|letter| letter.repeat(NAME));
    let source = format!(
        "volatile unsigned long spun;
         int {odd}(int depth);
         __attribute__((noinline)) int {even}(int depth) {{
             if (depth == 0) for (;;) spun++;
             return {odd}(depth - 1) + 1;
         }}
         __attribute__((noinline)) int {odd}(int depth) {{
             if (depth == 0) for (;;) spun++;
             return {even}(depth - 1) + 1;
         }}
         int main(void) {{ return {even}(1900); }}"
    );
    let file = scratch.0.join("names.c");
    fs::write(&file, source).unwrap();
    let program = scratch.compile(&file, &["-O0", "-fno-omit-frame-pointer"]);
    Process::start(&mut Command::new(program))
}
