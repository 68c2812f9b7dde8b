//! A program that calls and returns all the time, and processes that live shortly.

use std::time::Duration;

use live_suite::sampled::profiler;

use crate::comparison::Comparison;
use crate::program::{Ruby, Running};
use crate::seen::{Seen, Stack, stacks};

/// Chains of `programs/moves.rb`, root first; a stack is the beginning of one.
const CHAINS: &[&str] = &[
    "<main>;Process.clock_gettime",
    "<main>;Float#<",
    "<main>;Moves#all;Moves#blocks;Array#each;block in Moves#blocks;Moves#add",
    "<main>;Moves#all;Moves#blocks;Array#each;block in Moves#blocks;Moves#add;Integer#+",
    "<main>;Moves#all;Moves#sorts;Enumerable#sort_by;Array#each;block in Moves#sorts;Integer#-@",
    "<main>;Moves#all;Moves#sorts;Enumerable#sort_by;Array#each;Enumerable#sort_by",
    "<main>;Moves#all;Moves#sorts;Enumerable#sort_by;Integer#<=>",
    "<main>;Moves#all;Moves#replaces;String#gsub;block in Moves#replaces;String#upcase",
    "<main>;Moves#all;Moves#replaces;String#gsub;String#to_s",
    "<main>;Moves#all;Moves#raises;Kernel#raise;Exception.exception;Exception#initialize",
    "<main>;Moves#all;Moves#raises;Kernel#raise;Exception.exception;Class#new;Exception#initialize",
    "<main>;Moves#all;Moves#raises;Kernel#raise;Class#new;Exception#initialize",
    "<main>;Moves#all;Moves#raises;Kernel#raise;Exception#backtrace",
    "<main>;Moves#all;Moves#raises;Kernel#raise;Exception#exception",
    "<main>;Moves#all;Moves#raises;rescue in Moves#raises;Module#===",
    "<main>;Moves#all;Moves#raises;rescue in Moves#raises;Moves#add",
    "<main>;Moves#all;Moves#raises;rescue in Moves#raises;Moves#add;Integer#+",
    "<main>;Moves#all;Moves#raises;ensure in Moves#raises;Moves#add",
    "<main>;Moves#all;Moves#raises;Moves#add;Integer#+",
    "<main>;Moves#all;Moves#evaluates;Kernel#eval;Moves#evaluates;Moves#add;Integer#+",
    "<main>;Moves#all;Moves#compares;Enumerable#max;Array#each;block in Moves#compares;String#<=>",
    "<main>;Moves#all;Moves#compares;Array#max;block in Moves#compares;String#<=>",
];

/// Profiling time.
const TIME: Duration = Duration::from_secs(4);

/// Number of short processes, and their life in seconds: with a compiler, the first round of the
/// program alone takes 0.3 s.
const PROCESSES: usize = 5;
const LIFE: &str = "1";

/// Profiles the program while it runs.
pub(crate) fn check(ruby: &Ruby) -> Comparison {
    let running = Running::start(ruby.command("moves.rb"));
    let profile = crate::profile(std::slice::from_ref(&running), || std::thread::sleep(TIME));
    compare_all(&stacks(&profile), |stack| stack.pid == running.pid())
}

/// Profiles processes from their first sample to their last.
pub(crate) fn first_samples(ruby: &Ruby) -> Comparison {
    let profiler = profiler([std::process::id()], crate::FREQUENCY);
    for _ in 0..PROCESSES {
        let status = ruby.command("moves.rb").args(["silent", LIFE]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    // Before the script runs there is no Ruby frame.
    compare_all(&stacks(&profile), |stack| stack.ruby().any(is_own))
}

fn is_own(seen: &Seen) -> bool {
    matches!(seen, Seen::Ruby { file, .. } if file.ends_with("moves.rb"))
}

fn compare_all(stacks: &[Stack], is_compared: impl Fn(&Stack) -> bool) -> Comparison {
    let mut comparison = Comparison::default();
    for stack in stacks.iter().filter(|stack| is_compared(stack)) {
        comparison.add(stack, compare(stack));
    }
    comparison
}

fn compare(stack: &Stack) -> Result<(), String> {
    if let Some(reason) = &stack.broken {
        return Err(format!("broken: {reason}"));
    }
    let name = |seen: &Seen| match seen {
        Seen::Ruby { name, .. } => name.clone(),
        Seen::Native { name, .. } => name.clone(),
    };
    // The collector runs at any allocation.
    let mut names: Vec<String> =
        stack.ruby().map(name).filter(|name| name != crate::collections::COLLECTION).collect();
    // Evaluated code is freed when it ends, often before it is named: its frames are marked then.
    let unnamed = names.iter().position(|name| name.starts_with("[ruby: "));
    if let Some(at) = unnamed.filter(|&at| at > 0 && names[at - 1] == "Kernel#eval") {
        names[at] = "Moves#evaluates".to_owned();
    }
    let shown = names.join(";") + ";";
    let is_known = CHAINS.iter().any(|chain| format!("{chain};").starts_with(&shown));
    if names.is_empty() || !is_known { Err(format!("no such chain: {shown}")) } else { Ok(()) }
}
