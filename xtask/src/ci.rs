//! `cargo xtask ci`: the steps of CI, also for a fresh machine.

use crate::run::{Outcome, cargo};
use crate::tally::Tally;
use crate::{api, collector, crates, debian, fixtures, kernels, newcomer, object, pythons, test};

/// Debian packages that CI needs, each with its use.
const PACKAGES: &[&str] = &[
    "gcc",             // compiles C test programs
    "g++",             // compiles C test programs
    "libc6-dev",       // links static ones
    "binutils",        // strips them
    "gdb",             // unwinds their stacks, for comparison
    "elfutils",        // unwinds their core files, for comparison
    "llvm",            // names their lines, for comparison
    "dwz",             // shares debug information between them
    "chromium",        // shows flame graphs
    "chromium-driver", // drives chromium
    "bpftool",         // reads the kernel's types
    "qemu-system-x86", // other kernels
    // Profiled, or their core files unwound.
    "nodejs",
    "python3",
    "php-cli",
    "default-jdk-headless",
    "clang",
    "golang-go",
    "musl-tools",
    "python3-pip", // Go toolchains
    // Code for arm64, and its C library.
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

/// Installs packages and runs all steps.
pub(crate) fn task(_: &[String]) -> Outcome {
    debian::install(&[PACKAGES, object::PACKAGES].concat())?;
    let mut tally = Tally::default();
    // First: it is the object that is tested.
    tally.step("kernel object", |_| object::task(&["--check".to_owned()]));
    // The live tests send to it.
    tally.step("collector", |_| collector::build().map(|program| eprintln!("{}", program.display())));
    tally.step("fixtures", |_| fixtures::task(&["go".to_owned()]));
    // Without the one that is built from source, which takes minutes.
    tally.step("interpreters", |_| pythons::task(&["packages".to_owned()]));
    test::steps(&mut tally);
    newcomer::steps(&mut tally);
    crates::steps(&mut tally);
    tally.step("public items", |_| api::task(&["--check".to_owned()]));
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
