//! Snapshots of scripting languages: core files of known chains are unwound and named, and what
//! that read is kept.
//!
//! ```sh
//! cargo xtask fixtures ruby; cargo xtask fixtures v8; cargo xtask fixtures hotspot
//! cargo test --release -p live-suite --test snapshots -- --ignored --nocapture --test-threads=1
//! SNAPSHOTS=write cargo test …
//! ```
//!
//! ```text
//!   program ──gcore──► core file ──► stack and names, compared with the known chain
//!                                      │ registers, rows, stack       ──► ebpf-profiler-unwind/tests/cases/ruby_2_7.case
//!                                      └ memory and parts of files    ──► ebpf-profiler-hll/tests/snapshots/ruby_2_7
//! ```
//!
//! Parts of a file that make no difference to ranges, walker and names are left out, so that little
//! of it is kept.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the stacks are to be read")]

mod record;
mod shrink;
#[path = "../../../../ebpf-profiler-hll/tests/snapshot/mod.rs"]
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::Command;

use ebpf_profiler_unwind::Frame;
use examples::{CoreFile, Stack};

use live_suite::paths::fixtures;
use live_suite::workload::dump;

use record::record;

/// A program and its chain.
struct Subject<'a> {
    /// Name of the files.
    name: &'static str,
    about: &'static str,
    language: &'static str,
    /// Functions with their lines, root first; line 0 for any.
    chain: &'a [(&'static str, u32)],
}

const PERL: &[(&str, u32)] = &[
    ("{main}", 13),
    ("(eval)", 13),
    ("Shape::area", 5),
    ("Shape::area", 5),
    ("Shape::area", 5),
    ("main::leaf", 11),
];

#[test]
#[ignore = "needs gdb"]
fn perl() {
    test_needs::programs!("gcore", "perl");
    let subject = Subject { name: "perl_5_36", about: "methods of Perl 5.36", language: "perl", chain: PERL };
    subject.check(Command::new("perl").arg(source("calls.pl")));
}

const PHP: &[(&str, u32)] = &[
    ("{main}", 0),
    ("array_map", 0),
    ("{closure}", 13),
    ("Shape::area", 5),
    ("Shape::area", 5),
    ("Shape::area", 5),
    ("leaf", 10),
];

#[test]
#[ignore = "needs gdb"]
fn php() {
    test_needs::programs!("gcore", "php");
    let subject = Subject { name: "php_8_2", about: "methods of PHP 8.2", language: "php", chain: PHP };
    subject.check(Command::new("php").arg(source("calls.php")));
}

#[test]
#[ignore = "needs gdb and cargo xtask fixtures php"]
fn php_static() {
    test_needs::programs!("gcore");
    let Some(program) = fixture("php/8.4-static/resources/php") else { return };
    let mut chain = PHP.to_vec();
    chain[2].0 = "{closure:/tmp/calls/calls.php:12}";
    let subject =
        Subject { name: "php_8_4", about: "methods of a static PHP 8.4", language: "php", chain: &chain };
    subject.check(Command::new(program).arg("-ddisplay_startup_errors=0").arg(source("calls.php")));
}

const LUA: &[(&str, u32)] = &[
    ("main chunk", 17),
    ("pcall", 0),
    ("calls.lua:17", 17),
    ("gsub", 0),
    ("calls.lua:13", 14),
    ("area", 4),
    ("area", 4),
    ("area", 4),
    ("leaf", 11),
];

#[test]
#[ignore = "needs gdb"]
fn luajit() {
    test_needs::programs!("gcore", "luajit");
    let about = "methods of LuaJIT 2.1";
    let subject = Subject { name: "luajit_2_1", about, language: "luajit", chain: LUA };
    subject.check(Command::new("luajit").arg("-joff").arg(source("calls.lua")));
    let subject = Subject { name: "luajit_2_1_trace", about: "a trace of LuaJIT 2.1", ..subject };
    subject.check(Command::new("luajit").arg(source("calls.lua")));
}

const RUBY: &[(&str, u32)] = &[
    ("<main>", 16),
    ("Array#map", 0),
    ("block in <main>", 16),
    ("Geometry::Shape#area", 5),
    ("Geometry::Shape#area", 5),
    ("Geometry::Shape#area", 5),
    ("Geometry.leaf", 13),
];

#[test]
#[ignore = "needs gdb and cargo xtask fixtures ruby"]
fn ruby() {
    test_needs::programs!("gcore");
    let Some(program) = fixture("ruby/wheel-3.4.7/pact_cli/lib/ruby/bin.real/ruby") else { return };
    let subject = Subject { name: "ruby_3_4", about: "methods of Ruby 3.4", language: "ruby", chain: RUBY };
    let libraries = program.parent().unwrap().join("../lib");
    subject.check(
        Command::new(&program)
            .env("LD_LIBRARY_PATH", libraries)
            .arg("--disable-gems")
            .arg(source("calls.rb")),
    );
}

const NODE: &[(&str, u32)] = &[("each", 0), ("area", 0), ("area", 0), ("area", 0), ("leaf", 0)];

/// Of versions that CI does not fetch.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "needs gdb and cargo xtask fixtures perl"]
    fn perl() {
        test_needs::programs!("gcore");
        for (name, about, root) in [
            ("perl_5_32", "methods of Perl 5.32", "5.32"),
            ("perl_5_40", "methods of Perl 5.40", "5.40"),
            ("perl_5_42", "methods of Perl 5.42", "5.42"),
        ] {
            let Some(root) = fixture(&format!("perl/{root}")) else { continue };
            let modules = root.join("usr/lib/x86_64-linux-gnu/perl-base");
            let subject = Subject { name, about, language: "perl", chain: PERL };
            subject.check(within(&root, "usr/bin/perl").arg("-I").arg(modules).arg(source("calls.pl")));
        }
        let Some(built) = fixture("perl/5.36-unthreaded") else { return };
        let subject = Subject {
            name: "perl_5_36_unthreaded",
            about: "methods of a Perl 5.36 without threads",
            language: "perl",
            chain: PERL,
        };
        subject
            .check(Command::new(built.join("perl")).arg("-I").arg(built.join("lib")).arg(source("calls.pl")));
    }

    #[test]
    #[ignore = "needs gdb and cargo xtask fixtures php"]
    fn php() {
        test_needs::programs!("gcore");
        if let Some(root) = fixture("php/7.4") {
            let subject =
                Subject { name: "php_7_4", about: "methods of PHP 7.4", language: "php", chain: PHP };
            subject.check(within(&root, "usr/bin/php7.4").arg("-n").arg(source("calls.php")));
        }
        let Some(built) = fixture("php/8.2-threads/php") else { return };
        let subject = Subject {
            name: "php_8_2_threads",
            about: "methods of a PHP 8.2 for threads",
            language: "php",
            chain: PHP,
        };
        subject.check(Command::new(built).arg("-n").arg(source("calls.php")));
    }

    #[test]
    #[ignore = "needs gdb and cargo xtask fixtures luajit"]
    fn luajit() {
        test_needs::programs!("gcore");
        let Some(root) = fixture("luajit/bullseye") else { return };
        let subject = Subject {
            name: "luajit_2_1_compact",
            about: "methods of a LuaJIT 2.1 with references of 4 bytes",
            language: "luajit",
            chain: LUA,
        };
        subject.check(within(&root, "usr/bin/luajit").arg("-joff").arg(source("calls.lua")));
    }

    #[test]
    #[ignore = "needs gdb and cargo xtask fixtures v8"]
    fn v8() {
        test_needs::programs!("gcore");
        for (name, about) in [
            ("node_12", "interpreted and optimized functions of Node.js 12"),
            ("node_14", "interpreted and optimized functions of Node.js 14"),
            ("node_16", "interpreted and optimized functions of Node.js 16"),
            ("node_18", "interpreted and optimized functions of Node.js 18"),
            ("node_20", "interpreted and optimized functions of Node.js 20"),
            ("node_22", "interpreted and optimized functions of Node.js 22"),
            ("node_24", "interpreted and optimized functions of Node.js 24"),
            ("node_25", "interpreted and optimized functions of Node.js 25"),
            ("node_26", "interpreted and optimized functions of Node.js 26"),
        ] {
            let Some(program) = fixture(&format!("{}/bin/node", name.replace('_', "-"))) else { continue };
            let subject = Subject { name, about, language: "v8js", chain: NODE };
            subject.check(Command::new(program).arg(source("calls.js")).arg("warm"));
        }
    }

    #[test]
    #[ignore = "needs gdb and cargo xtask fixtures hotspot"]
    fn hotspot() {
        test_needs::programs!("gcore", "javac");
        let classes = dump::folder();
        let javac = ["-Xlint:-options", "--release", "8", "-d"];
        dump::build(Command::new("javac").args(javac).arg(&classes).arg(source("Calls.java")));
        for (name, about) in [
            ("java_8", "interpreted and compiled methods of Java 8"),
            ("java_11", "interpreted and compiled methods of Java 11"),
            ("java_17", "interpreted and compiled methods of Java 17"),
            ("java_21", "interpreted and compiled methods of Java 21"),
            ("java_25", "interpreted and compiled methods of Java 25"),
            ("java_26", "interpreted and compiled methods of Java 26"),
            ("java_27", "interpreted and compiled methods of Java 27"),
            ("java_28", "interpreted and compiled methods of Java 28 (early access)"),
        ] {
            let Some(program) = fixture(&format!("{}/bin/java", name.replace("java_", "jdk-"))) else {
                continue;
            };
            let chain = &[
                ("Calls.main", 0),
                ("Calls.each", 0),
                ("Calls.area", 0),
                ("Calls.area", 0),
                ("Calls.area", 0),
                ("Calls.leaf", 0),
            ];
            let subject = Subject { name, about, language: "jvm", chain };
            let small = ["-Xmx24m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=8m", "-Xshare:off", "-cp"];
            subject.check(Command::new(program).args(small).arg(&classes).args(["Calls", "warm"]));
        }
    }
}

/// Returns the command that runs a program with the libraries of its own root.
fn within(root: &Path, program: &str) -> Command {
    let mut command = Command::new(root.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
    let libraries = ["lib", "usr/lib"].map(|folder| root.join(folder).join("x86_64-linux-gnu"));
    command.arg("--library-path").arg(std::env::join_paths(libraries).unwrap()).arg(root.join(program));
    command
}

/// Returns the path of a fixture; skips the test if it isn't there.
fn fixture(path: &str) -> Option<PathBuf> {
    let path = fixtures().join(path);
    if !path.exists() {
        test_needs::skip(&format!("no {}: cargo xtask fixtures", path.display()));
    }
    path.canonicalize().ok()
}

/// Copies a program to a folder that is the same on each machine, because snapshots have its path.
fn source(name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/programs").join(name);
    let to = Path::new("/tmp/calls").join(name);
    std::fs::create_dir_all("/tmp/calls").unwrap();
    std::fs::copy(from, &to).unwrap();
    to
}

/// Returns a case without the folders of files that aren't parts of the system.
fn without_folders(case: &str) -> String {
    let line = |line: &str| match line.find(" /").filter(|_| line.starts_with("mapping")) {
        Some(at) if !line[at..].starts_with(" /usr/") => {
            format!("{} {}\n", &line[..at], line.rsplit('/').next().unwrap_or_default())
        }
        _ => format!("{line}\n"),
    };
    case.lines().map(line).collect()
}

impl Subject<'_> {
    /// Dumps a program that prints a line when it is ready, and compares its stack with the chain.
    fn check(&self, command: &mut Command) {
        let dump = dump::when_ready(self.name, command);
        let mut core = CoreFile::open(&dump.core, &[]).unwrap();
        let stacks = core.stacks();
        let has_leaf =
            |stack: &&Stack| functions(stack).iter().any(|(name, _)| *name == self.chain.last().unwrap().0);
        let stack =
            stacks.iter().find(has_leaf).unwrap_or_else(|| panic!("{}: no stack has the leaf", self.name));
        println!("{}\n{stack}", self.name);
        let found = functions(stack);
        let mut chain = self.chain.iter().peekable();
        for (name, line) in &found {
            if chain.peek().is_some_and(|(wanted, at)| wanted == name && (*at == 0 || at == line)) {
                chain.next();
            }
        }
        assert!(chain.peek().is_none(), "{}: {:?} is missing in {found:?}", self.name, chain.peek());
        if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "write") {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let case = without_folders(&core.case(self.about, stack).to_string());
            std::fs::write(root.join(format!("ebpf-profiler-unwind/tests/cases/{}.case", self.name)), case)
                .unwrap();
            let snapshot = shrink::shrink(record(self.about, self.language, &core, stack)).to_string();
            let folder = root.join("ebpf-profiler-hll/tests/snapshots");
            std::fs::create_dir_all(&folder).unwrap();
            println!("{}: {} bytes", self.name, snapshot.len());
            std::fs::write(folder.join(self.name), snapshot).unwrap();
        }
    }
}

/// Returns the functions of a stack with their lines, root first.
fn functions(stack: &Stack) -> Vec<(&str, u32)> {
    let calls = stack.calls.iter().rev().filter(|call| matches!(call.frame, Frame::Call(_)));
    calls
        .flat_map(|call| {
            let line = |place: &str| place.rsplit(':').next().and_then(|line| line.parse().ok()).unwrap_or(0);
            // The recorded line is that of the innermost.
            let count = call.functions.len();
            let functions = call.functions.iter().rev().enumerate();
            functions.map(move |(at, function)| {
                (function.name.as_str(), if at + 1 == count { line(&function.place) } else { 0 })
            })
        })
        .collect()
}
