//! Programs that start on a busy machine, where the profiler gets little time as well.
//!
//! | | programs beside | time |
//! | --- | --- | --- |
//! | by itself | 6 | 6 s |
//! | in the matrix | 30 and a compiler | 45 s |
//!
//! All samples of a program have to be whole, those of its chain exact, from its first one on.

use std::path::Path;

use crate::case::{Case, Ready};
use crate::chains::throws;
use crate::compile::Build;
use crate::folded::Stack;
use crate::lives;
use crate::process::Running;
use crate::profiler::{self, Order};
use crate::roots::Roots;
use live_suite::comparison::name::plain;
use live_suite::selection::is_matrix;
use live_suite::workload::load::{self, Load};

/// A program whose stacks are compared.
struct Subject {
    name: &'static str,
    ready: Ready,
    /// Samples that need not be whole: the first ones of a program whose stack is larger than the
    /// copied part.
    first: u64,
}

/// Takes longer than CI has.
mod matrix {
    use super::*;

    #[test]
    #[ignore = "profiles: needs root"]
    fn programs_that_start_on_a_busy_machine() {
        test_needs::root!();
        test_needs::programs!("gcc", "g++", "gdb");
        let (count, seconds) = if is_matrix() { (30, 45) } else { (6, 6) };
        load::make_ordinary();
        let subjects = subjects();
        let children = Build::new("children.c").build("busy_children");
        let (nursery, arguments) = lives::nursery("busy_lives", 900, 30);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("truth");
        let load = Load::start(&directory, count, 170);
        let order = Order {
            pids: Vec::new(),
            seconds: 120.0,
            frequency: if count > 6 { 1997 } else { 997 },
            output: directory.join("busy.folded"),
        };
        let working = profiler::start(&order);
        working.wait_until_it_samples();
        let life = seconds.to_string();
        let mut running: Vec<Running> = subjects.iter().map(|subject| subject.ready.start(&life)).collect();
        let mut roots = Roots::default();
        roots.scan();
        roots.add(&directory.join("busy_lives_life/life"));
        let limits = [life.as_str(), "900", "30"].map(str::to_owned);
        running.push(Running::start(&children.program, &limits));
        let arguments: Vec<String> = std::iter::once(life).chain(arguments.into_iter().skip(1)).collect();
        running.push(Running::start(&nursery.program, &arguments));
        running.into_iter().for_each(|running| _ = running.finish());
        let outcome = working.finish_now();
        drop(load);
        let mut failures = String::new();
        let mut compare = |name: &str, stacks: Vec<Stack>, wrong: u64, first: u64| {
            let samples: u64 = stacks.iter().map(|stack| stack.count).sum();
            println!("share\ttruth\tbusy\t{name}\t{}\t{samples}", samples - wrong);
            if samples == 0 || wrong.saturating_sub(first) * 1000 > samples {
                failures += &format!("\n{name}: {wrong} of {samples} samples are wrong");
            }
        };
        for Subject { name, ready, first } in &subjects {
            let stacks = ready.own(&outcome.stacks);
            let wrong = ready.compare_started(&stacks, &roots);
            compare(name, stacks, wrong, *first);
        }
        for (name, is_own) in [("lives of 30 ms", 'n'), ("forked children", 'c')] {
            let is_own = |stack: &&Stack| lives::is_life(&stack.comm, &[is_own]);
            let stacks: Vec<Stack> = outcome.stacks.iter().filter(is_own).cloned().collect();
            compare(name, stacks.clone(), broken(&stacks, &roots), 0);
        }
        assert!(failures.is_empty(), "{failures}");
    }
}

fn subjects() -> Vec<Subject> {
    let large = Case::new("large.c").known("main l1 large leaf");
    let memory = Case::new("vanish.c").arguments(&["memfd"]).learn_from(&["stay"]).called("memfd:vanish");
    let executes = Case::new("exec.c").arguments(&["both"]).called("exe");
    let executes = executes.learn_from(&["before"]).learn_from(&["after"]);
    let cases = [
        ("large frame", large, 1),
        ("memory file", memory, 0),
        ("exec", executes, 0),
        ("throws", throws(), 0),
    ];
    let prepare = |(number, (name, case, first)): (usize, (&'static str, Case, u64))| {
        let ready = case.prepare(&format!("busy_{}", name.replace(' ', "_")), 900 + number);
        Subject { name, ready, first }
    };
    cases.into_iter().enumerate().map(prepare).collect()
}

/// Returns the number of samples that are not whole, and prints some of them.
pub(crate) fn broken(stacks: &[Stack], roots: &Roots) -> u64 {
    let broken: Vec<&Stack> = stacks.iter().filter(|stack| roots.is_whole(stack) == Some(false)).collect();
    for stack in broken.iter().take(5) {
        show(stack);
    }
    broken.iter().map(|stack| stack.count).sum()
}

/// Prints a stack.
pub(crate) fn show(stack: &Stack) {
    let names: Vec<_> = stack.frames.iter().map(|frame| plain(&frame.name)).collect();
    eprintln!("    {:>5} x {}: {}", stack.count, stack.comm, names.join(" > "));
}
