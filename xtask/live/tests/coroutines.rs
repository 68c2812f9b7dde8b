//! Stacks of coroutines: they are whole, and end where their own stack, or slice of a stack, does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::trace::Stop;

#[test]
#[ignore = "profiles: needs root"]
fn stacks_of_coroutines_end_at_their_base() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let program = compile();
    for (kind, body) in [("ucontext", "ucontext_body"), ("fcontext", "fcontext_body")] {
        let running = Running(Command::new(&program).arg(kind).spawn().unwrap());
        let profiler = Profiler::builder()
            .deadline(Duration::from_secs(120))
            .frequency(499)
            .pid(running.0.id())
            .unwind(ebpf_profiler_unwind::tables())
            .start()
            .unwrap();
        let profile = profiler.run_for(Duration::from_secs(2)).unwrap();
        let (mut all, mut right) = (0, 0);
        for sample in profile.samples() {
            let names: Vec<String> = sample.trace().calls().map(|call| call.to_string()).collect();
            let Some(at) = names.iter().position(|name| name == "inner") else { continue };
            all += sample.count();
            if sample.trace().stop() == Stop::Coroutine && at == 2 && names[1] == body {
                right += sample.count();
            } else {
                println!("{kind}: {} {:?} {names:?}", sample.count(), sample.trace().stop());
            }
        }
        println!("{kind}: {right} of {all} stacks are whole");
        assert!(all >= 200 && right * 1000 >= all * 995, "{kind}: {right} of {all}");
    }
}

fn compile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coroutines");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("coroutines");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/coroutines.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-fno-optimize-sibling-calls", "-o"]).arg(&program).arg(source);
    assert!(gcc.status().unwrap().success());
    program
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
