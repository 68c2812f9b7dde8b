//! Code without unwind data, whose rules the running profiler derives: stacks are whole, and right.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its shares"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::Builder;
use ebpf_profiler_core::profile::{Profile, Summary, TraceView};

use live_suite::compile;
use live_suite::process::Process;

/// `kernel` has no unwind data, keeps a number in the frame pointer, and has too large a frame for a guess.
const SOURCE: &str = r#"
__asm__(".text\n.p2align 4\n.globl kernel\n.type kernel, @function\nkernel:\n"
    "push %rbp\npush %rbx\nsub $0x800, %rsp\nmov $3, %ebp\nxor %ebx, %ebx\n"
    "1: imul $5, %rbp, %rbp\nadd $3, %rbp\ninc %rbx\ncmp %rdi, %rbx\njne 1b\n"
    "mov %rbp, %rax\nadd $0x800, %rsp\npop %rbx\npop %rbp\nret\n.size kernel, .-kernel\n");
unsigned long kernel(unsigned long);
static volatile unsigned long sink;
__attribute__((noinline)) static void middle(unsigned long n) { sink += kernel(n); sink *= 3; }
__attribute__((noinline)) static void outer(void) { middle(1000000); sink++; }
int main(void) { for (;;) outer(); }
"#;

const WARM_UP: Duration = Duration::from_secs(3);

#[test]
#[ignore = "profiles: needs root"]
fn code_without_unwind_data_is_unwound_exactly() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let running = Process::start(&mut Command::new(compiled()));
    let (profile, health) = profile(&running, |builder| builder, Duration::from_secs(2));
    let (mut all, mut right) = (0, 0);
    for sample in profile.samples() {
        let names = names(sample.trace());
        if names.first().is_none_or(|name| name != "kernel") {
            continue;
        }
        all += sample.count();
        let is_chain = names.starts_with(&["kernel", "middle", "outer", "main"].map(str::to_owned));
        if sample.trace().is_whole()
            && is_chain
            && sample.trace().is_derived()
            && !sample.trace().is_guessed()
        {
            right += sample.count();
        } else {
            println!("{} {:?} {names:?}", sample.count(), sample.trace().stop());
        }
    }
    println!("{right} of {all} stacks are right");
    assert!(all >= 100 && right * 1000 >= all * 995, "{right} of {all}");
    assert!(health.pipeline.derived >= right && health.pipeline.registry.derived_tables >= 1);
    assert!(profile.summary().derived >= right);
}

/// The other test would pass without derived rules if guesses sufficed.
#[test]
#[ignore = "profiles: needs root"]
fn without_derived_rules_callers_are_missing() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let running = Process::start(&mut Command::new(compiled()));
    let (profile, health) = profile(&running, |builder| builder.derive_rules(false), Duration::from_secs(1));
    let Summary { samples, whole, derived, .. } = profile.summary();
    assert!(samples >= 30 && whole * 10 < samples, "{whole} of {samples}");
    assert_eq!((derived, health.pipeline.registry.derived_tables), (0, 0));
}

/// Profiles a process; the first seconds, in which rules are derived, are left out.
fn profile(
    running: &Process,
    change: impl FnOnce(Builder) -> Builder,
    duration: Duration,
) -> (Profile, ebpf_profiler_core::live::Health) {
    let builder = Profiler::builder()
        .deadline(Duration::from_secs(120))
        .frequency(499)
        .pid(running.id())
        .languages(ebpf_profiler_hll::all())
        .unwind(ebpf_profiler_unwind::tables());
    // `DERIVED_RULES=off` shows the same without them.
    let derives = std::env::var_os("DERIVED_RULES").is_none_or(|value| value != "off");
    let profiler = change(builder.derive_rules(derives)).start().unwrap();
    std::thread::sleep(WARM_UP);
    println!("while rules are derived: {}", profiler.take_profile().unwrap().summary());
    std::thread::sleep(duration);
    let profile = profiler.take_profile().unwrap();
    let health = profiler.health();
    let Summary { guessed, derived, .. } = profile.summary();
    println!("{}; {derived} derived, {guessed} guessed", profile.summary());
    profiler.stop().unwrap();
    (profile, health)
}

/// Returns the names of a stack's functions, innermost first.
fn names(trace: TraceView<'_>) -> Vec<String> {
    let mut names: Vec<String> = trace.calls().map(|call| call.to_string()).collect();
    names.reverse();
    names
}

fn compiled() -> PathBuf {
    compile::text("derived", "kernel", SOURCE, &["-O1", "-g", "-fno-optimize-sibling-calls"])
}

mod matrix {
    use super::*;

    const NUMPY: &str = "
import numpy as np
a = np.random.rand(700, 700)
def product():
    return a @ a
def decompose():
    return np.linalg.svd(a[:160, :160])
while True:
    product()
    decompose()
";

    /// Python in which numpy is installed: `python3 -m venv numpy-venv && numpy-venv/bin/pip install numpy==2.4.6` in the folder of
    /// the fixtures.
    fn python() -> Option<PathBuf> {
        let fixtures = std::env::var_os("XTASK_FIXTURES")?;
        Some(Path::new(&fixtures).join("numpy-venv/bin/python3")).filter(|python| python.exists())
    }

    #[test]
    #[ignore = "profiles: needs root and numpy"]
    fn kernels_of_openblas() {
        test_needs::root!();
        let Some(python) = python() else { return test_needs::skip("no fixture numpy-venv") };
        let mut command = Command::new(python);
        command.args(["-c", NUMPY]).env("OPENBLAS_CORETYPE", "Haswell").env("OPENBLAS_NUM_THREADS", "1");
        let running = Process::start(&mut command);
        let (profile, _) = profile(&running, |builder| builder, Duration::from_secs(10));
        let (mut all, mut whole, mut kernels, mut right) = (0, 0, 0, 0);
        for sample in profile.samples() {
            let trace = sample.trace();
            let mut calls: Vec<_> = trace.calls().collect();
            calls.reverse();
            all += sample.count();
            whole += if trace.is_whole() { sample.count() } else { 0 };
            let is_blas = |module: Option<&str>| module.is_some_and(|module| module.contains("openblas"));
            if !is_blas(calls.first().and_then(|call| call.module())) {
                continue;
            }
            kernels += sample.count();
            // Kernel, OpenBLAS, numpy, and the function of the script that called it.
            let behind = calls.iter().position(|call| !is_blas(call.module())).unwrap_or(calls.len());
            let is_numpy = calls
                .get(behind)
                .and_then(|call| call.module())
                .is_some_and(|module| module.contains("umath"));
            let names = names(trace);
            let has = |name: &str| names.iter().any(|it| it.contains(name));
            let blas = names[..behind].join(" ");
            let is_of =
                if blas.contains("gesdd") { has("decompose") } else { has("product") || has("decompose") };
            if is_numpy && is_of && has("<module>") {
                right += sample.count();
            } else {
                println!("{} {:?} {names:?}", sample.count(), trace.stop());
            }
        }
        println!("numpy: {whole} of {all} whole; {right} of {kernels} chains of OpenBLAS right");
        assert!(all >= 200 && whole * 1000 >= all * 995, "{whole} of {all}");
        assert!(kernels >= 100 && right * 1000 >= kernels * 995, "{right} of {kernels}");
    }

    /// Skips a test without this program, which CI does not install, or without root.
    fn is_missing(program: &str) -> bool {
        let is_there = test_needs::is_root() && test_needs::find(program).is_some();
        if !is_there {
            test_needs::skip(&format!("it needs root and {program}"));
        }
        !is_there
    }

    /// Profiles a program; of its stacks, `least` thousandths must be whole.
    fn check(mut command: Command, least: u64) {
        let running = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let (profile, _) = profile(&running, |builder| builder, Duration::from_secs(10));
        for sample in profile.samples().filter(|sample| !sample.trace().is_whole()) {
            let names = names(sample.trace());
            println!("{} {:?} {names:?}", sample.count(), sample.trace().stop());
        }
        let Summary { samples, whole, .. } = profile.summary();
        assert!(samples >= 200 && whole * 1000 >= samples * least, "{whole} of {samples}");
    }

    #[test]
    #[ignore = "profiles: needs root and openssl"]
    fn openssl_speed() {
        if is_missing("openssl") {
            return;
        }
        let mut openssl = Command::new("openssl");
        openssl.args(["speed", "-seconds", "20", "-evp", "sha256"]);
        check(openssl, 995);
    }

    #[test]
    #[ignore = "profiles: needs root and ffmpeg"]
    fn codecs_x264_and_x265() {
        if is_missing("ffmpeg") {
            return;
        }
        // The functions of x264 that search trellises don't keep the frame pointer, so they have no rules.
        for (codec, least) in [("libx264", 980), ("libx265", 995)] {
            let mut ffmpeg = Command::new("ffmpeg");
            ffmpeg.args(["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30:duration=600", "-c:v", codec]);
            ffmpeg.args(["-f", "null", "-"]);
            check(ffmpeg, least);
        }
    }
}
