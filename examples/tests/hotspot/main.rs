//! Stacks of Java programs compared with the virtual machine's own.
//!
//! ```sh
//! cargo xtask fixtures hotspot
//! sudo -E env PATH="$PATH" cargo test --release -p examples --test hotspot -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/Chains.java` prints the stacks of its leaf by `StackWalker`, hidden frames included, and runs on. A sample in
//! the leaf has to have exactly such a stack: each method, inlined or not, with its line, from the native root on; native
//! frames only between a native method and the call stub that follows. All other samples have to be whole and named.
//!
//! `TRUTH_CHAIN=streams,handles` leaves only these chains.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod judge;
mod machine;

use machine::Machine;

/// All chains of `Chains.java`.
const CHAINS: &[&str] = &[
    "recursion",
    "inlined",
    "interfaces",
    "lambdas",
    "streams",
    "exceptions",
    "reflection",
    "handles",
    "synchronized",
    "yielding",
    "native",
    "sorting",
    "loop",
];

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
    test_needs::programs!("javac", "java");
    Machine::installed().check(CHAINS, "default", &[]);
}

#[test]
#[ignore = "profiles: needs root"]
fn installed_interpreted() {
    test_needs::root!();
    test_needs::programs!("javac", "java");
    Machine::installed().check(CHAINS, "interpreted", &["-Xint"]);
}

#[test]
#[ignore = "profiles: needs root"]
fn java_25() {
    test_needs::root!();
    test_needs::programs!("javac");
    with("25", |machine| machine.check(&[CHAINS, VIRTUAL].concat(), "default", &[]));
}

fn with(version: &str, check: impl FnOnce(Machine)) {
    match Machine::fixture(version) {
        Some(machine) => check(machine),
        None => test_needs::skip(&format!("no JDK {version}: cargo xtask fixtures hotspot")),
    }
}

/// All versions, kinds of code and garbage collectors.
mod matrix {
    use super::{CHAINS, MODES, VIRTUAL, with};

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_11() {
        test_needs::root!();
        test_needs::programs!("javac");
        modes("11", CHAINS);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_17() {
        test_needs::root!();
        test_needs::programs!("javac");
        modes("17", CHAINS);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_21() {
        test_needs::root!();
        test_needs::programs!("javac");
        modes("21", &[CHAINS, VIRTUAL].concat());
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn java_25() {
        test_needs::root!();
        test_needs::programs!("javac");
        modes("25", &[CHAINS, VIRTUAL].concat());
    }

    fn modes(version: &str, chains: &[&str]) {
        for (mode, flags) in MODES {
            with(version, |machine| machine.check(chains, mode, flags));
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn garbage_collectors() {
        test_needs::root!();
        test_needs::programs!("javac");
        for version in ["11", "17", "21", "25"] {
            for (name, flags) in [
                // Their loops have no safepoints.
                (
                    "Serial",
                    &["-XX:+UseSerialGC", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"][..],
                ),
                (
                    "Parallel",
                    &["-XX:+UseParallelGC", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"],
                ),
                ("Z", &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"]),
                ("Shenandoah", &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"]),
                ("wide class pointers", &["-XX:-UseCompressedClassPointers"]),
                ("one heap", &["-XX:-SegmentedCodeCache"]),
            ] {
                with(version, |machine| machine.check(&["streams", "handles"], name, flags));
            }
        }
        with("25", |machine| {
            machine.check(&["streams", "handles"], "compact headers", &["-XX:+UseCompactObjectHeaders"]);
        });
    }
}
