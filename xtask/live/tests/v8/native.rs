//! A runtime whose functions cannot be named: V8 in Deno, a program without symbols of V8 and
//! without unwind data.
//!
//! Its stacks have to be whole, the code of its compilers shown as such, and nothing named as a
//! script.

use std::path::{Path, PathBuf};
use std::process::Command;

use ebpf_profiler_core::profile::{Call, Kind, Profile};

use live_suite::paths::fixtures;

use live_suite::process::Process;

use crate::profile;

/// Minimum number of whole stacks, of 1,000.
const PER_MILLE: u64 = 990;

/// A program of the test, which no runtime is found in.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/chains.js");

/// Fails unless nearly all stacks of Deno are whole.
pub(crate) fn check_deno() {
    let program: PathBuf = fixtures().join("deno/deno");
    if !program.exists() {
        return test_needs::skip("no Deno: cargo xtask fixtures v8");
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deno");
    let mut command = Command::new(program);
    command.env("DENO_DIR", cache).args(["run", "--no-config", "--quiet", PROGRAM, "120"]);
    check("Deno", command);
}

fn check(name: &str, mut command: Command) {
    let running = Process(command.spawn().unwrap());
    let comparison = Comparison::on(&profile(running.id()));
    println!("share\tv8\t{name}\tnative\t{}\t{}", comparison.whole, comparison.samples);
    println!("      {comparison:?}");
    assert!(comparison.samples >= 200, "{name}: {comparison:?}");
    assert!(comparison.whole * 1000 >= comparison.samples * PER_MILLE, "{name}: {comparison:?}");
    assert_eq!((comparison.scripts, comparison.unmarked), (0, 0), "{name}: {comparison:?}");
}

/// Judged samples.
#[derive(Debug, Default)]
struct Comparison {
    /// Samples with code of the compilers.
    samples: u64,
    whole: u64,
    /// Samples with a frame of a script.
    scripts: u64,
    /// Samples in which no caller of compiled code is marked as a guess.
    unmarked: u64,
    /// The outermost functions of a stack that isn't whole.
    example: Option<String>,
}

impl Comparison {
    fn on(profile: &Profile) -> Comparison {
        let mut comparison = Comparison::default();
        for sample in profile.samples() {
            let (trace, count) = (sample.trace(), sample.count());
            let calls: Vec<Call<'_>> = trace.calls().collect();
            let is_script =
                |call: &Call<'_>| matches!(call, Call::Function { frame, .. } if frame.script().is_some());
            if calls.iter().any(is_script) {
                comparison.scripts += count;
            }
            if !calls.iter().any(|call| call.kind() == Kind::RunTime) {
                continue;
            }
            comparison.samples += count;
            if matches!(calls.first(), Some(Call::Truncated(_))) {
                let outermost: Vec<_> = calls.iter().take(4).map(ToString::to_string).collect();
                comparison.example = Some(outermost.join(";"));
            } else {
                comparison.whole += count;
            }
            if !calls.iter().any(Call::is_guessed) {
                comparison.unmarked += count;
            }
        }
        comparison
    }
}
