//! Stacks of Node.js compared with the known chains of a program: each function, with its line,
//! from `_start` to the leaf.
//!
//! ```sh
//! cargo xtask fixtures v8
//! sudo -E env PATH="$PATH" cargo test --release -p live-suite --test v8 -- --ignored --test-threads=1 --nocapture
//! ```
//!
//! `programs/chains.js` calls one chain after the other: recursion, two functions that call each
//! other, classes, a getter, callbacks of builtins, generators, exceptions, closures, an async
//! function. A sample with a function of it is exact if its functions, those that were inlined
//! included, are a chain or the root side of one, if each has its first line and is on a line
//! of its own text, and if the stack begins at `_start`.
//!
//! `programs/engines.js` runs through other code, in the main thread and two workers: regular
//! expressions, C++ that calls back, generators and asynchronous ones, WebAssembly that calls
//! itself and back. A sample is exact if its functions are one of its chains or the root side of
//! one.
//!
//! `programs/builtins.js` uses builtins of all kinds, in functions that are called one after the
//! other. A sample is exact if it has the function that uses them.
//!
//! `programs/shares.js` is sampled by Node.js itself at the same time, and shares of functions are
//! compared.
//!
//! `programs/names.js` has names and callbacks of all kinds; its stacks are compared with those of
//! Node.js itself.
//!
//! `TRUTH_VERSION=22,24` leaves only these versions; `debian` is the library without symbols.
//!
//! | mode | code |
//! | --- | --- |
//! | interpreter | bytecode alone |
//! | baseline | Sparkplug, from 16 on |
//! | default | what V8 chooses: all of them |
//! | eager lines | the same, with a table of lines for each function: callers are on the line of the call |
//! | Liftoff, TurboFan | WebAssembly by one of its compilers alone |
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints"
)]

mod builtins;
mod comparison;
mod engines;

mod recorded;

mod names;

mod shares;

mod programs;

mod native;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ebpf_profiler_core::profile::Profile;

use comparison::Comparison;
use live_suite::paths::fixtures;
use live_suite::process::Process;
use live_suite::sampled::profiler;

/// Profiling time of each mode.
const DURATION: Duration = Duration::from_secs(5);

/// Time before the samples that count.
const WARM_UP: Duration = Duration::from_secs(3);

/// Sampling frequency per CPU, in Hz.
const FREQUENCY: u32 = 499;

/// The versions that `cargo xtask fixtures v8` fetches.
const VERSIONS: &[&str] = &["12", "14", "16", "18", "20", "22", "24", "25", "26"];

/// Folder of the test's programs.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs");

/// Minimum number of exact samples, of 1,000.
const PER_MILLE: u64 = 990;

/// Flags that leave only the interpreter, since Maglev exists and before.
const INTERPRETER: &[&str] = &["--no-opt", "--no-sparkplug", "--no-maglev"];
const OLD_INTERPRETER: &[&str] = &["--no-opt"];

/// Flags that leave only baseline code, since Maglev exists and before.
const BASELINE: &[&str] = &["--no-opt", "--always-sparkplug", "--no-maglev"];
const OLD_BASELINE: &[&str] = &["--no-opt", "--always-sparkplug"];

/// Minimum number of exact samples of `builtins.js`, of 1,000.
const BUILTINS_PER_MILLE: u64 = 990;

/// The flag that builds all tables of lines at once.
const EAGER: &[&str] = &["--no-enable-lazy-source-positions"];

#[test]
#[ignore = "profiles: needs root"]
fn chains_of_node_26() {
    check("26", &[("default", &[]), ("eager lines", EAGER), ("baseline", BASELINE)]);
}

#[test]
#[ignore = "profiles: needs root"]
fn chains_of_node_12() {
    check("12", &[("default", &[]), ("eager lines", EAGER)]);
}

#[test]
#[ignore = "profiles: needs root"]
fn builtins_of_node_26() {
    let Some(node) = Node::fetched("26") else { return };
    node.check_builtins("unoptimized", UNOPTIMIZED);
    node.check_builtins("baseline", BASELINE);
}

/// Flags that leave V8's choice of interpreter and baseline code.
const UNOPTIMIZED: &[&str] = &["--no-opt"];

/// Flags that leave one compiler of WebAssembly: from 20 on, and before.
const LIFTOFF: &[&str] = &["--liftoff", "--no-wasm-tier-up", "--no-wasm-dynamic-tiering"];
const OLD_LIFTOFF: &[&str] = &["--liftoff", "--no-wasm-tier-up"];
const OLD_OPTIMIZED: &[&str] = &["--no-liftoff"];
/// Inlined functions of WebAssembly are not shown.
const OPTIMIZED: &[&str] = &["--no-liftoff", "--no-wasm-inlining"];

#[test]
#[ignore = "profiles: needs root"]
fn engines_of_node_26() {
    check_engines("26", &[("default", &[]), ("Liftoff", LIFTOFF)]);
}

#[test]
#[ignore = "profiles: needs root"]
fn engines_of_node_12() {
    check_engines("12", &[("default", &[]), ("Liftoff", OLD_LIFTOFF)]);
}

#[test]
#[ignore = "profiles: needs root"]
fn shares_are_those_of_the_machine_s_tool() {
    ["12", "26"].into_iter().filter_map(Node::fetched).for_each(|node| shares::check_shortly(&node));
}

/// Versions between the oldest and the latest.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn engines_without_liftoff() {
        check_engines("12", &[("TurboFan", OLD_OPTIMIZED)]);
        check_engines("26", &[("TurboFan", OPTIMIZED)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn engines_of_other_versions() {
        for version in ["14", "16", "18", "20", "22", "24", "25"] {
            check_engines(version, &[("default", &[])]);
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn builtins_of_all_versions() {
        for node in VERSIONS.iter().filter_map(|version| Node::fetched(version)) {
            let version: u32 = node.name.parse().unwrap();
            let is_old = version < 20;
            node.check_builtins("default", &[]);
            node.check_builtins("unoptimized", UNOPTIMIZED);
            node.check_builtins("interpreter", if is_old { OLD_INTERPRETER } else { INTERPRETER });
            if version >= 16 {
                node.check_builtins("baseline", if is_old { OLD_BASELINE } else { BASELINE });
            }
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn shares_are_those_of_the_machine_s_tool() {
        let nodes = VERSIONS.iter().filter_map(|version| Node::fetched(version));
        nodes.for_each(|node| shares::check(&node, Duration::from_secs(20)));
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn names_are_those_of_the_machine_s_tool() {
        for node in VERSIONS.iter().filter_map(|version| Node::fetched(version)) {
            names::check(&node, "default", &[], Duration::from_secs(10));
            names::check(&node, "interpreter", &["--no-opt"], Duration::from_secs(10));
        }
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn runtime_without_symbols() {
        test_needs::root!();
        native::check_deno();
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_from_their_start() {
        let nodes = VERSIONS.iter().filter_map(|version| Node::fetched(version));
        let failed: Vec<String> = nodes.flat_map(|node| programs::failures(&node)).collect();
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_of_a_library_without_symbols() {
        let failed = Node::of_debian().map_or(Vec::new(), |node| programs::failures(&node));
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_a_library_without_symbols() {
        let Some(node) = Node::of_debian() else { return };
        let modes: [(&str, &[&str]); 3] =
            [("default", &[]), ("interpreter", OLD_INTERPRETER), ("baseline", OLD_BASELINE)];
        modes.iter().for_each(|(mode, flags)| node.check(mode, flags));
        node.check_engines("default", &[]);
        [("default", &[] as &[&str]), ("unoptimized", UNOPTIMIZED), ("baseline", OLD_BASELINE)]
            .iter()
            .for_each(|(mode, flags)| node.check_builtins(mode, flags));
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn interpreter_of_node_12() {
        check("12", &[("interpreter", OLD_INTERPRETER)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn modes_of_node_26() {
        check("26", &[("Maglev", &["--no-turbofan"]), ("interpreter", INTERPRETER)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_25() {
        check("25", &[("default", &[]), ("eager lines", EAGER), ("baseline", BASELINE)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_24() {
        check(
            "24",
            &[("default", &[]), ("eager lines", EAGER), ("interpreter", INTERPRETER), ("baseline", BASELINE)],
        );
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_22() {
        check("22", &[("default", &[]), ("interpreter", INTERPRETER), ("baseline", BASELINE)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_20() {
        check("20", &[("default", &[]), ("interpreter", INTERPRETER), ("baseline", BASELINE)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_18() {
        check("18", &[("default", &[]), ("interpreter", OLD_INTERPRETER), ("baseline", OLD_BASELINE)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_16() {
        check("16", &[("default", &[]), ("interpreter", OLD_INTERPRETER), ("baseline", OLD_BASELINE)]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_node_14() {
        check("14", &[("default", &[]), ("interpreter", OLD_INTERPRETER)]);
    }

    /// The Node.js of this machine.
    #[test]
    #[ignore = "profiles: needs root"]
    fn chains_of_installed_node() {
        test_needs::root!();
        test_needs::programs!("node");
        let own = Node { name: "installed".to_owned(), program: PathBuf::from("node"), root: None };
        own.check("default", &[]);
        own.check("interpreter", &["--no-opt"]);
    }

    #[test]
    #[ignore = "profiles: needs root"]
    fn builtins_of_installed_node() {
        test_needs::root!();
        test_needs::programs!("node");
        let own = Node { name: "installed".to_owned(), program: PathBuf::from("node"), root: None };
        own.check_builtins("unoptimized", UNOPTIMIZED);
        own.check_builtins("baseline", OLD_BASELINE);
    }
}

/// Checks the modes of a fetched version.
fn check(version: &str, modes: &[(&str, &[&str])]) {
    let Some(node) = Node::fetched(version) else { return };
    modes.iter().for_each(|(mode, flags)| node.check(mode, flags));
}

/// Checks modes of code that isn't JavaScript's, in a fetched version.
fn check_engines(version: &str, modes: &[(&str, &[&str])]) {
    let Some(node) = Node::fetched(version) else { return };
    modes.iter().for_each(|(mode, flags)| node.check_engines(mode, flags));
}

/// A version of Node.js.
struct Node {
    name: String,
    program: PathBuf,
    /// The program's root directory, if it isn't that of the machine.
    root: Option<PathBuf>,
}

impl Node {
    /// Returns a fetched version; skips the test if it isn't there. `None` if `TRUTH_VERSION` has
    /// only others.
    fn fetched(version: &str) -> Option<Node> {
        Node::in_folder(version, &fixtures().join(format!("node-{version}")), "bin/node")
    }

    /// As [`Node::fetched`], with the path of the program in a folder.
    fn in_folder(name: &str, folder: &Path, program: &str) -> Option<Node> {
        let only = std::env::var("TRUTH_VERSION").ok();
        if only.is_some_and(|only| !only.split(',').any(|one| one == name)) {
            return None;
        }
        if !test_needs::is_root() {
            test_needs::skip("it needs root");
            return None;
        }
        let program = folder.join(program);
        if !program.exists() {
            test_needs::skip(&format!("no Node.js {name}: cargo xtask fixtures v8"));
            return None;
        }
        Some(Node { name: name.to_owned(), program, root: None })
    }

    /// Returns Debian's Node.js, whose V8 is in a library without symbol table.
    fn of_debian() -> Option<Node> {
        let folder = fixtures().join("node-debian");
        let mut node = Node::in_folder("debian", &folder, "usr/bin/node")?;
        node.root = Some(folder.canonicalize().unwrap());
        node.program = PathBuf::from("/usr/bin/node");
        Some(node)
    }

    /// Returns a command that runs it, and sees the folder `shown` even if it has another root
    /// directory.
    fn command(&self, shown: &Path) -> Command {
        const RUN: &str = "root=$1 shown=$2; shift 2; mkdir -p \"$root$shown\" && mount --bind \"$shown\" \"$root$shown\" \
                           && cd / && exec unshare --root \"$root\" \"$@\"";
        let Some(root) = &self.root else { return Command::new(&self.program) };
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", RUN, "sh"]).args([root, shown, &self.program]);
        command
    }

    /// Fails unless nearly all samples of `engines.js` are exact, in three threads and in each
    /// chain.
    fn check_engines(&self, mode: &str, flags: &[&str]) {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/engines.js");
        let mut command = self.command(Path::new(PROGRAMS));
        let running = Process::start(command.args(flags).arg(program).args(["120", "", "2"]));
        let profile = profile(running.id());
        let comparison = engines::Comparison::on(&profile, program);
        println!("share\tv8\t{}\tengines, {mode}\t{}\t{}", self.name, comparison.exact, comparison.samples);
        println!("      {comparison}");
        assert!(comparison.is_good(PER_MILLE), "Node.js {} {mode}: {comparison}", self.name);
        assert_eq!(comparison.threads.len(), 3, "Node.js {} {mode}: {comparison}", self.name);
        assert_eq!(comparison.missing(), Vec::<&str>::new(), "Node.js {} {mode}: {comparison}", self.name);
    }

    /// Fails unless nearly all samples of `builtins.js` are exact.
    fn check_builtins(&self, mode: &str, flags: &[&str]) {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/builtins.js");
        let mut command = self.command(Path::new(PROGRAMS));
        let only = std::env::var("TRUTH_KIND").unwrap_or_default();
        let running = Process::start(command.args(flags).args([program, "120", &only]));
        let comparison = builtins::Comparison::on(&profile(running.id()), program, running.0.id());
        println!("share\tv8\t{}\tbuiltins, {mode}\t{}\t{}", self.name, comparison.exact, comparison.samples);
        println!("      {comparison}");
        assert!(comparison.is_good(BUILTINS_PER_MILLE), "Node.js {} {mode}: {comparison}", self.name);
    }

    /// Fails unless nearly all samples of a mode are exact.
    fn check(&self, mode: &str, flags: &[&str]) {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/v8/programs/chains.js");
        let mut command = self.command(Path::new(PROGRAMS));
        let running = Process::start(command.args(flags).arg(program).arg("120"));
        let profile = profile(running.id());
        let comparison = Comparison::on(&profile, program);
        println!("share\tv8\t{}\t{mode}\t{}\t{}", self.name, comparison.exact, comparison.samples);
        println!("      {comparison}");
        assert!(comparison.is_good(PER_MILLE), "Node.js {} {mode}: {comparison}", self.name);
        let (with_line, all) = comparison.lines;
        assert!(with_line * 1000 >= all * PER_MILLE, "Node.js {} {mode}: {comparison}", self.name);
        let (on_call, all) = comparison.calls;
        let is_exact = mode != "eager lines" || on_call * 1000 >= all * PER_MILLE && all > 0;
        assert!(is_exact, "Node.js {} {mode}: {comparison}", self.name);
    }
}

/// Profiles a process.
fn profile(pid: u32) -> Profile {
    let profiler = profiler([pid], FREQUENCY);
    std::thread::sleep(WARM_UP);
    drop(profiler.take_profile().unwrap_or_else(|error| panic!("{error}")));
    std::thread::sleep(DURATION);
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    profile
}
