//! The toy language: conformance, and the folded stacks of a live process.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use ebpf_profiler_core::sink::folded;
use ebpf_profiler_core::{Profiler, testing};
use examples::toy::Toy;

#[test]
fn toy_language_passes_conformance_test() {
    test_needs::programs!("gcc");
    let file = std::fs::read(compile("conformance")).unwrap();
    assert_eq!(testing::language(&Toy, &file), Ok(()));
}

#[test]
#[ignore = "profiles: needs root"]
fn script_functions_replace_loops_of_toy_interpreter() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let running = Running(Command::new(compile("live")).spawn().unwrap());
    let profiler = Profiler::builder()
        .frequency(499)
        .pid(running.0.id())
        .unwind(ebpf_profiler_unwind::tables())
        .languages([Box::new(Toy) as _])
        .start()
        .unwrap();
    let profile = profiler.run_for(Duration::from_secs(3)).unwrap();
    let mut text = Vec::new();
    folded::write(&profile, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (mut all, mut exact, mut draw) = (0, 0, 0);
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let count: u64 = count.parse().unwrap();
        // Native frames above the script's are the kernel's.
        let user: Vec<&str> = stack.split(';').filter(|frame| !frame.ends_with("_[k]")).collect();
        all += count;
        if user.ends_with(&["main", "main", "frame", "draw"]) {
            draw += count;
            exact += count;
        } else if user.ends_with(&["main", "main", "frame"]) {
            exact += count;
        }
    }
    assert!(all > 50, "{text}");
    assert!(exact * 1000 >= all * 990, "{exact} of {all}:\n{text}");
    // `draw` does three quarters of the work.
    assert!((exact * 65..exact * 85).contains(&(draw * 100)), "{draw} of {exact}");
}

fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("toy-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("toy");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/toy/toy.c");
    let status = Command::new("gcc").args(["-O2", "-rdynamic", source, "-o"]).arg(&program).status().unwrap();
    assert!(status.success());
    program
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
