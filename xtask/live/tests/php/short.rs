//! Many short requests, from the first one on, to workers that live for some of them.
//!
//! Each script calls a chain of functions whose names and lines tell its number, so that a function
//! that another request left in the same memory shows:
//!
//! ```text
//!   7.php   {main} ──► S7\Page::render ──► S7\body ──► array_map ──► S7\{closure} ──► S7\work       lines: 7 below short.php's
//! ```
//!
//! A sample of a worker is exact if its script frames begin such a chain, with file and lines, from
//! `_start` on. The innermost function may be on any of its lines.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ebpf_profiler_core::profile::Sample;
use ebpf_profiler_core::trace::Stop;

use crate::interpreter::Interpreter;
use crate::served;
use crate::server::{Kind, Server, Workers};
use crate::{PER_MILLE, duration};
use live_suite::comparison::Comparison;
use live_suite::sampled::{FREQUENCY, Seen, Stack, profiler, stacks_of};

/// Number of scripts.
const SCRIPTS: u32 = 12;

/// Number of threads that send requests.
const CLIENTS: usize = 3;

/// Number of requests that a worker serves.
const REQUESTS: usize = 40;

/// Minimum number of samples in functions of scripts, of 1,000.
const IN_SCRIPTS: u64 = 300;

/// A function of a script: its name behind the namespace, the line on which it calls the next one,
/// and its lines, in a script without number.
struct Function(&'static str, u32, RangeInclusive<u32>);

/// The chain, root first.
const CHAIN: &[Function] = &[
    Function("{main}", 31, 1..=32),
    Function("Page::render", 8, 6..=9),
    Function("body", 17, 12..=18),
    Function("array_map", 0, 0..=0),
    Function("{closure", 15, 14..=16),
    Function("work", 0, 20..=29),
];

/// Internal functions that functions of the chain call beside the next one, on the same line.
const BESIDE: &[(&str, &str)] = &[("{main}", "microtime"), ("body", "implode")];

/// Internal functions that the chain calls at its end.
const CALLED: &[&str] = &["microtime"];

/// Profiles the workers of a server with these settings.
pub(crate) fn check(version: &str, settings: &[&str]) {
    let Some(php) = Interpreter::fetched(version, &format!("/usr/bin/php{version}"), &[]) else {
        return test_needs::skip(&format!("no PHP {version}: cargo xtask fixtures php"));
    };
    let Some(server) = Server::start(Kind::Fpm, &php, settings, Workers { count: 2, requests: REQUESTS })
    else {
        return test_needs::skip(&format!("no PHP {version} for FastCGI: cargo xtask fixtures php"));
    };
    for number in 1..=SCRIPTS {
        fs::write(server.outside.join(format!("{number}.php")), script(number)).unwrap();
    }
    let profiler = profiler(server.pids(), FREQUENCY);
    let answers = send(&server);
    let folder = server.folder.display().to_string();
    drop(server);
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    // A worker that exits has given up its stack.
    let has_stack = |sample: &Sample<'_>| sample.trace().stop() != Stop::NoUserStack;
    let is_own = |sample: &Sample<'_>| sample.process().executable.contains("php-fpm");
    let stacks = stacks_of(&profile, |sample| is_own(sample) && has_stack(sample));
    let comparison = Comparison::on(&stacks, |stack| compare(stack, &folder));
    let in_scripts: u64 =
        comparison.lines.iter().filter(|(line, _)| **line != 0).map(|(_, count)| count).sum();
    let mut workers: Vec<_> = stacks.iter().map(|stack| stack.pid).collect();
    workers.sort_unstable();
    workers.dedup();
    let name = format!("{version} Fpm{}", served::suffix(settings));
    println!("share\tphp\t{name}\tshort\t{}\t{}", comparison.exact, comparison.samples);
    println!("{answers} requests, {} processes, {in_scripts} samples in functions of scripts", workers.len());
    if comparison.exact < comparison.samples {
        println!("{name}: {comparison}");
    }
    assert!(comparison.is_good(PER_MILLE), "{name}: {comparison}");
    assert!(
        in_scripts * 1000 > comparison.samples * IN_SCRIPTS,
        "{name}: {in_scripts} of {}",
        comparison.samples
    );
    assert!(answers / REQUESTS as u64 > 4, "{name}: {answers} requests");
}

/// Sends requests; returns the number of correct answers.
fn send(server: &Server) -> u64 {
    let (end, answers) = (Instant::now() + duration(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let answers = &answers;
            scope.spawn(move || {
                let numbers = (1..=SCRIPTS).cycle().skip(client * 5);
                for number in numbers.take_while(|_| Instant::now() < end) {
                    // The request of a worker that ends may be refused.
                    let answer = server.get(&format!("{number}.php"), "").unwrap_or_default();
                    answers.fetch_add(
                        u64::from(answer == format!("{} done", namespace(number))),
                        Ordering::Relaxed,
                    );
                }
            });
        }
    });
    answers.into_inner()
}

/// Returns the text of a script, whose functions are as many lines below those of the program as
/// its number says.
fn script(number: u32) -> String {
    let head = namespace(number) + ";" + &"\n".repeat(number as usize);
    include_str!("programs/short.php").replacen("NAMESPACE;", &head, 1)
}

fn namespace(number: u32) -> String {
    format!("S{number}")
}

/// Returns the number of script frames in an exact stack. Fails with the difference.
fn compare(stack: &Stack, folder: &str) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    // A stripped program has no names.
    let is_root = |seen: &Seen| matches!(seen, Seen::Native(name) if name == "_start" || name.is_empty());
    if !stack.frames.first().is_some_and(is_root) {
        return Err("doesn't begin at _start".to_owned());
    }
    if stack.frames.contains(&Seen::Native("execute_ex".to_owned())) {
        return Err("a loop without its script frames".to_owned());
    }
    let mut scripts = stack.frames.iter().filter(|seen| matches!(seen, Seen::Script { .. })).peekable();
    let mut expected = CHAIN.iter();
    let (mut number, mut count, mut before) = (0, 0, "");
    while let Some(seen @ Seen::Script { name, file, line, .. }) = scripts.next() {
        if count == 0 {
            let script = file.strip_prefix(folder).and_then(|file| file[1..].strip_suffix(".php"));
            number =
                script.and_then(|number| number.parse().ok()).ok_or_else(|| format!("{seen} at first"))?;
        }
        let Some(Function(function, call, lines)) = expected.next() else {
            let is_called = CALLED.contains(&name.as_str()) && file.is_empty();
            return if is_called { Ok(count) } else { Err(format!("{seen} is one too many")) };
        };
        if file.is_empty() && scripts.peek().is_none() && BESIDE.contains(&(before, name.as_str())) {
            return Ok(count);
        }
        let is_internal = lines.contains(&0);
        let is_name = match *function {
            "{main}" => name == "{main}",
            "{closure" => name.contains("{closure") && name.contains(&(namespace(number) + "\\")),
            function if is_internal => name == function,
            function => *name == format!("{}\\{function}", namespace(number)),
        };
        let is_file = if is_internal { file.is_empty() } else { *file == format!("{folder}/{number}.php") };
        let own = line.saturating_sub(number);
        // Code of the JIT has no line at the leaf.
        let is_line = match scripts.peek() {
            Some(_) if expected.len() > 0 => is_internal || own == *call,
            _ => *line == 0 || lines.contains(&own),
        };
        if !is_name || !is_file || !is_line {
            return Err(format!("{seen} instead of {function} of {number}, line {call}"));
        }
        (count, before) = (count + 1, *function);
    }
    Ok(count)
}
