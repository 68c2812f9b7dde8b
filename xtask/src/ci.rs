//! `cargo xtask ci`: the steps of CI, also for a fresh machine.

use std::time::Duration;

use test_needs::TOOLS;

use crate::again::twice;
use crate::binaries::Binary;
use crate::crates::Extent;
use crate::run::{Outcome, target, watch};
use crate::tally::Tally;
use crate::{api, collector, crates, debian, fixtures, kernels, newcomer, object, pythons, test};

/// Debian packages that CI needs beside those of [`TOOLS`], each with its use.
const PACKAGES: &[&str] = &[
    "libc6-dev",   // links static programs
    "procps",      // sends signals to them
    "python3-pip", // fetches Go toolchains
    // Profiled, or their core files unwound.
    "libjemalloc2", // other allocators
    "libmimalloc2.0",
    "libtcmalloc-minimal4",
    "luajit",
];

/// The profile of cargo in which all tests are built. Cargo.toml describes it.
const PROFILE: &str = "ci";

/// Test programs of unwind that run at more length here.
const LENGTHY_TESTS: &[&str] = &["fuzz", "gimli", "registers"];

/// Time after which no step works any more. CI ends runs after 90 minutes, without a word on their
/// steps.
const LIMIT: Duration = Duration::from_secs(80 * 60);

/// The oldest kernel of each object: without `bpf_loop` and with it. All else ran on the machine's
/// own, a newer one; `cargo xtask kernels` has all.
const OLDEST: &[&str] = &["5.10", "6.1"];

/// Longest time of these kernels, with second runs: emulated at once, they take five minutes where
/// nothing else runs.
const KERNELS: Duration = Duration::from_secs(24 * 60);

/// The kernel of arm64.
const ARM64_KERNEL: &str = "arm64-6.12";

/// Longest time of a kernel of arm64, with its programs, which are built for it.
const ARM64: Duration = Duration::from_secs(20 * 60);

/// Installs packages and runs all steps.
pub(crate) fn task(_: &[String]) -> Outcome {
    let mut tally = Tally::within(LIMIT);
    let tools = test::packages(&TOOLS.iter().collect::<Vec<_>>());
    let packages = [PACKAGES, kernels::arm64::PACKAGES, object::PACKAGES, &tools].concat();
    tally.limited_step("Debian packages", LIMIT, |_| debian::install(&packages));
    let mut tests = Vec::new();
    // What is fetched waits for the network most of the time.
    tally.beside(
        |tally| {
            test::checks(tally);
            tests = test::build_tests(tally, PROFILE);
        },
        prepare,
    );
    test::tests(&mut tally, &tests, PROFILE);
    newcomer::steps(&mut tally, PROFILE);
    crates::steps(&mut tally, Extent::Brief);
    tally.step("public items", |_| api::task(&["--check".to_owned()]));
    if test::can_profile(&mut tally) {
        test::live(&mut tally, &tests);
    }
    tally.step("optimized", |summaries| optimized(&tests, summaries));
    tally.limited_step("kernels", KERNELS, |_| {
        kernels::profile_by(target().join(PROFILE).join("flamegraph"), &tests, OLDEST)
    });
    tally.limited_step("arm64", ARM64, |_| kernels::profile_on_arm64(ARM64_KERNEL));
    tally.close()
}

/// Checks the kernel object and fetches what tests profile.
fn prepare(tally: &mut Tally) {
    // First: it is the object that is tested.
    tally.limited_step("kernel object", LIMIT, |_| object::task(&["--check".to_owned()]));
    // The live tests send to it.
    tally.step("collector", |_| collector::build().map(|program| eprintln!("{}", program.display())));
    for language in fixtures::LANGUAGES {
        tally.step(language.title, |_| (language.fetch)(true));
    }
    // The oldest and the newest of Debian's, beside those of pyenv.
    tally.step("interpreters", |_| pythons::task(&["ends".to_owned()]));
    tally.step("images of kernels", |_| kernels::fetch(&[OLDEST, &[ARM64_KERNEL]].concat()));
}

/// Runs the tests of unwind that take too long without optimizations: all files of the system, and
/// fuzzing without coverage, whose number of inputs bounds it.
fn optimized(tests: &[Binary], summaries: &mut Vec<String>) -> Outcome {
    let is_long = |test: &&Binary| {
        test.package == "ebpf-profiler-unwind" && LENGTHY_TESTS.contains(&test.name.as_str())
    };
    let long: Vec<&Binary> = tests.iter().filter(is_long).collect();
    if long.len() < LENGTHY_TESTS.len() {
        return Err(format!("of {LENGTHY_TESTS:?} only {} are built", long.len()));
    }
    long.iter().try_for_each(|test| {
        let run = |selected: &[&str], see: &mut dyn FnMut(&str)| {
            let mut command = test.command(&[&["--include-ignored", "--nocapture"], selected].concat());
            watch(command.env("FUZZ_ROUNDS", "100000"), see)
        };
        twice(&[], run, &mut |line| summaries.extend(test::summary(line)))
    })
}
