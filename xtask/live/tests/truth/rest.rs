//! Everything else that runs: no truth to compare with, but whole or not can be told.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::compile::Build;
use crate::folded::Stack;
use crate::oracle::{self, Question};
use crate::process::Running;
use crate::profiler::{self, Order};
use crate::roots::Roots;

/// Prints the share of whole stacks of a compiler, Python and Node, taken as native code, and of
/// all else around.
#[test]
#[ignore = "profiles: needs root"]
fn share_of_whole_stacks() {
    test_needs::root!();
    test_needs::programs!("gcc", "g++", "gdb", "python3", "node");
    let mut roots = Roots::default();
    add_threads(&mut roots);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("truth");
    let working = profiler::start(&Order {
        pids: Vec::new(),
        seconds: 8.0,
        frequency: 499,
        output: directory.join("rest.folded"),
    });
    let load = Load::start(&directory);
    for _ in 0..60 {
        roots.scan();
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(load);
    let outcome = working.finish();
    print_shares(&outcome.stacks, &roots);
    eprintln!("by its own word: {:?}", outcome.summary);
    assert!(!outcome.stacks.is_empty());
}

/// Starts of threads in libc, which have no symbol, as seen by gdb.
fn add_threads(roots: &mut Roots) {
    let built = Build::new("threads.c").build("rest_threads");
    let running = Running::start(&built.program, &["20".to_owned()]);
    let seen = oracle::ask(running.pid(), &built.symbols, Question::default());
    for first in seen.stacks.iter().filter_map(|stack| stack.first()) {
        if let Some(address) = first.address {
            roots.add_place(&first.file, address);
        }
    }
}

/// Programs that nobody here has written.
struct Load(Vec<Child>);

impl Load {
    fn start(directory: &Path) -> Load {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/exceptions.cpp");
        let object = directory.join("rest.o").to_string_lossy().into_owned();
        let compile = format!("for i in 1 2 3 4 5 6 7 8 9; do g++ -O2 -c {source} -o {object}; done");
        let lines: &[&[&str]] = &[
            &["sh", "-c", &compile],
            &["python3", "-c", "import json\nfor i in range(10**9): json.loads(json.dumps(list(range(99))))"],
            &["node", "-e", "for (;;) JSON.parse(JSON.stringify([...Array(99).keys()]))"],
        ];
        let start = |line: &&[&str]| {
            let mut command = Command::new("timeout");
            command.arg("20").args(*line).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().ok()
        };
        Load(lines.iter().filter_map(start).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout passes the signal on to what it runs.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

fn print_shares(stacks: &[Stack], roots: &Roots) {
    let mut by_comm: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for stack in stacks {
        if let Some(whole) = roots.is_whole(stack) {
            let (all, good) = by_comm.entry(&stack.comm).or_default();
            *all += stack.count;
            *good += if whole { stack.count } else { 0 };
        }
    }
    let all: u64 = by_comm.values().map(|(all, _)| all).sum();
    let good: u64 = by_comm.values().map(|(_, good)| good).sum();
    let mut by_count: Vec<_> = by_comm.into_iter().collect();
    by_count.sort_by_key(|(_, (all, _))| std::cmp::Reverse(*all));
    eprintln!("everything else: {all} samples with user frames, {:.2} % whole", percent(good, all));
    for (comm, (all, good)) in by_count.iter().take(8) {
        eprintln!("  {comm:<16} {all:>6}  {:>6.2} %", percent(*good, *all));
    }
    print_broken(stacks.iter().filter(|stack| roots.is_whole(stack) == Some(false)));
}

/// Returns the root sides of truncated stacks, the most frequent first.
fn print_broken<'s>(stacks: impl Iterator<Item = &'s Stack>) {
    let mut beginnings: BTreeMap<String, u64> = BTreeMap::new();
    for stack in stacks {
        let first: Vec<_> = stack.user().iter().take(3).map(|frame| frame.name.clone()).collect();
        *beginnings.entry(format!("{}: {}", stack.comm, first.join(" > "))).or_default() += stack.count;
    }
    let mut beginnings: Vec<_> = beginnings.into_iter().collect();
    beginnings.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (beginning, count) in beginnings.iter().take(10) {
        eprintln!("  {count:>5} x {beginning}");
    }
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}
