//! Stacks of Java programs compared with the virtual machine's own.
//!
//! ```sh
//! cargo xtask fixtures hotspot
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test hotspot -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/Chains.java` prints the stacks of its leaf by `StackWalker`, hidden frames included,
//! and runs on. A sample in the leaf has to have exactly such a stack: each method, inlined or not,
//! with its line, from the native root on; native frames only between a native method and the call
//! stub that follows. One in a stub that a method of such a stack calls has to have the same stack
//! up to this method. All other samples have to be whole and named. Some chains run from the first
//! sample of the machine on, others while their code is freed.
//!
//! `programs/KotlinChain.kt` and `programs/ScalaChain.scala` are chains in other languages.
//!
//! `TRUTH_CHAIN=streams,handles` leaves only these chains, `TRUTH_VERSION=21,25` only these
//! versions.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod callees;

mod comparison;
mod languages;
mod machine;

mod programs;

mod raw;

mod shares;

use machine::Machine;

/// All chains of `Chains.java`.
const CHAINS: &[&str] = &[
    "recursion",
    "inlined",
    "interfaces",
    "tables",
    "lambdas",
    "streams",
    "exceptions",
    "reflection",
    "handles",
    "synchronized",
    "yielding",
    "native",
    "callback",
    "unloading",
    "redefinition",
    "sorting",
    "loop",
];

/// All versions of `cargo xtask fixtures hotspot`.
const VERSIONS: &[&str] = &["8", "11", "17", "21", "25", "26", "27", "28"];

/// Chains in a virtual thread, from JDK 21 on.
const VIRTUAL: &[&str] =
    &["virtual-recursion", "virtual-streams", "virtual-reflection", "virtual-handles", "virtual-yielding"];

/// Flags that leave one kind of code.
const MODES: &[(&str, &[&str])] =
    &[("default", &[]), ("interpreted", &["-Xint"]), ("C1", &["-XX:TieredStopAtLevel=1"])];

#[test]
#[ignore = "profiles: needs root"]
fn installed_default() {
    test_needs::root!();
    test_needs::programs!("javac", "java", "gcc");
    Machine::installed().check(CHAINS, "default", &[]);
}

#[test]
#[ignore = "profiles: needs root"]
fn installed_interpreted() {
    test_needs::root!();
    test_needs::programs!("javac", "java", "gcc");
    Machine::installed().check(CHAINS, "interpreted", &["-Xint"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn java_8() {
    test_needs::root!();
    test_needs::programs!("javac", "gcc");
    with("8", |machine| machine.check(CHAINS, "default", &[]));
}

#[test]
#[ignore = "profiles: needs root"]
fn java_27() {
    test_needs::root!();
    test_needs::programs!("javac", "gcc");
    with("27", |machine| machine.check(&[CHAINS, VIRTUAL].concat(), "default", &[]));
}

#[test]
#[ignore = "profiles: needs root"]
fn samples_of_plain_programs_are_not_raw() {
    test_needs::root!();
    test_needs::programs!("javac", "java", "gcc");
    raw::check_plain_program();
}

#[test]
#[ignore = "profiles: needs root"]
fn library_without_machine_is_awaited_for_a_bound() {
    test_needs::root!();
    test_needs::programs!("gcc");
    with("25", |machine| raw::check_library_without_machine(&machine));
}

fn with(version: &str, check: impl FnOnce(Machine)) {
    let only = std::env::var("TRUTH_VERSION").ok();
    if only.is_some_and(|only| !only.split(',').any(|one| one == version)) {
        return;
    }
    match Machine::fixture(version) {
        Some(machine) => check(machine),
        None => test_needs::skip(&format!("no JDK {version}: cargo xtask fixtures hotspot")),
    }
}

fn has_virtual_threads(version: &str) -> bool {
    version.parse().is_ok_and(|version: u32| version >= 21)
}

/// All versions, kinds of code and garbage collectors.
mod matrix {
    use super::machine::APART;
    use super::{CHAINS, MODES, VERSIONS, VIRTUAL, has_virtual_threads, with};

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_8() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("8", CHAINS);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_11() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("11", CHAINS);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_17() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("17", CHAINS);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_21() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("21", &[CHAINS, VIRTUAL].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_25() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("25", &[CHAINS, VIRTUAL].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_26() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("26", &[CHAINS, VIRTUAL].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_27() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("27", &[CHAINS, VIRTUAL].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_28() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        modes("28", &[CHAINS, VIRTUAL].concat());
    }

    fn modes(version: &str, chains: &[&str]) {
        for (mode, flags) in MODES {
            with(version, |machine| machine.check(chains, mode, flags));
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        let mut failed = Vec::new();
        // The programs need Java 11.
        for version in &VERSIONS[1..] {
            with(version, |machine| failed.extend(super::programs::failures(&machine)));
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_from_their_start() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        let mut failed = Vec::new();
        for version in VERSIONS {
            let chains =
                if has_virtual_threads(version) { [CHAINS, VIRTUAL].concat() } else { CHAINS.to_vec() };
            // One has no leaf. Of the other, callers are in the heap, which a copy of the stack doesn't hold.
            let left_out = ["loop", "virtual-yielding"];
            let chains: Vec<&str> = chains.into_iter().filter(|chain| !left_out.contains(chain)).collect();
            with(version, |machine| failed.extend(machine.failures_from_start(&chains)));
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn kotlin_and_scala() {
        test_needs::root!();
        test_needs::programs!("javac", "java", "gcc");
        let Some(chains) = super::languages::compile() else {
            test_needs::skip("no compilers of Kotlin and Scala: cargo xtask fixtures hotspot");
            return;
        };
        let mut failed = Vec::new();
        for version in &VERSIONS[1..] {
            for (mode, flags) in MODES {
                with(version, |machine| failed.extend(machine.failures(&chains, mode, flags)));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_the_machine_s_tools() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        // The others come without tools.
        for version in ["11", "17", "21", "25"] {
            with(version, |machine| super::shares::check(&machine));
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn garbage_collectors() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        let mut failed = Vec::new();
        for version in VERSIONS {
            for (name, flags) in [
                ("Serial", &["-XX:+UseSerialGC", APART[0], APART[1], APART[2]][..]),
                ("Parallel", &["-XX:+UseParallelGC", APART[0], APART[1], APART[2]]),
                ("G1", &["-XX:+UseG1GC"]),
                ("Z", &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"]),
                ("Shenandoah", &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"]),
                ("wide class pointers", &["-XX:-UseCompressedClassPointers"]),
                ("wide references", &["-XX:-UseCompressedOops"]),
                ("shifted references", &["-Xmx6g"]),
                ("references with a base", &["-XX:HeapBaseMinAddress=40g"]),
            ] {
                failed.extend(differing(version, name, flags));
            }
        }
        failed.extend(differing("21", "Z generational", &["-XX:+UseZGC", "-XX:+ZGenerational"]));
        failed.extend(differing("25", "compact headers", &["-XX:+UseCompactObjectHeaders"]));
        let generational = ["-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"];
        let mode = "-XX:ShenandoahGCMode=generational";
        failed.extend(differing("25", "Shenandoah generational", &[generational[0], generational[1], mode]));
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn code_that_is_freed() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        let mut failed = Vec::new();
        for version in VERSIONS {
            for (name, flags) in [
                ("small code cache", &["-XX:ReservedCodeCacheSize=3m", "-XX:-SegmentedCodeCache"][..]),
                ("compiled early", &["-XX:Tier3InvocationThreshold=20", "-XX:Tier4InvocationThreshold=200"]),
                ("Serial", &["-XX:+UseSerialGC", APART[0], APART[1], APART[2]]),
            ] {
                let chains = ["unloading", "redefinition", "exceptions"];
                with(version, |machine| failed.extend(machine.failures(&chains, name, flags)));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn kinds_of_code() {
        test_needs::root!();
        test_needs::programs!("javac", "gcc");
        let mut failed = Vec::new();
        for version in VERSIONS {
            for (name, flags) in [
                ("one heap", &["-XX:-SegmentedCodeCache"][..]),
                ("compiled at once", &["-Xcomp", EXACT[0], EXACT[1]]),
                ("C2 only", &["-XX:-TieredCompilation"]),
                ("frame pointers", &["-XX:+PreserveFramePointer"]),
            ] {
                failed.extend(differing(version, name, flags));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    /// Flags by which code describes each instruction.
    const EXACT: [&str; 2] = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"];

    /// Returns the chains that differ, also of a virtual thread where the version has them.
    fn differing(version: &str, name: &str, flags: &[&str]) -> Vec<String> {
        let chains = ["streams", "handles", "virtual-yielding"];
        let count = if has_virtual_threads(version) { 3 } else { 2 };
        let mut failed = Vec::new();
        with(version, |machine| failed = machine.failures(&chains[..count], name, flags));
        failed
    }
}
