//! `cargo xtask ci`: what CI runs, on a machine that may be fresh.

use crate::run::{Outcome, cargo};
use crate::tally::Tally;
use crate::{collector, crates, debian, fixtures, kernels, object, pythons, test};

/// Debian packages, each with what needs it.
const PACKAGES: &[&str] = &[
    "gcc",             // truth programs
    "g++",             // truth programs
    "libc6-dev",       // static ones among them
    "binutils",        // stripped ones among them
    "gdb",             // says what their stacks are
    "elfutils",        // says what the stacks of core files are
    "llvm",            // says where their lines are
    "dwz",             // shares debug information among them
    "chromium",        // shows flame graphs
    "chromium-driver", // looks at them
    "bpftool",         // the kernel's own count of runs
    "qemu-system-x86", // other kernels
    // Whose core files are looked at.
    "nodejs",
    "python3",
    "default-jdk-headless",
    "clang",
    "golang-go",
    "musl-tools",
    "python3-pip", // Go toolchains
    // What compilers for arm64 write, and its C library.
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
];

/// Tests that take too long without optimizations.
const LONG: &[&str] = &[
    "test",
    "--release",
    "-p",
    "ebpf-profiler-unwind",
    "--test",
    "fuzz",
    "--test",
    "gimli",
    "--test",
    "registers",
    "--",
    "--include-ignored",
    "--nocapture",
];

/// Installs, then does everything.
pub(crate) fn task(_: &[String]) -> Outcome {
    debian::install(&[PACKAGES, object::PACKAGES].concat())?;
    let mut tally = Tally::default();
    // First, because what is tested is the object of this source.
    tally.step("kernel object", |_| object::task(&["--check".to_owned()]));
    // The live tests send to it.
    tally.step("collector", |_| collector::build().map(|program| eprintln!("{}", program.display())));
    tally.step("fixtures", |_| fixtures::task(&["go".to_owned()]));
    // The one that has to be built takes too long here.
    tally.step("interpreters", |_| pythons::task(&["packages".to_owned()]));
    test::steps(&mut tally);
    crates::steps(&mut tally);
    test::live(&mut tally, test::ALL);
    // Without coverage, but long: the number of inputs bounds it. And all files of the system, which takes too long
    // without optimizations.
    tally.step("optimized", |summaries| {
        let mut long = cargo(LONG);
        long.env("FUZZ_ROUNDS", "100000");
        test::tests(long, summaries)
    });
    tally.step("kernels", |_| kernels::task(&[]));
    tally.close()
}
