//! The single-step oracle: a program runs under ptrace, and its stack is known from each call and return that it executes. At every
//! n-th instruction the walker's stack is compared with that.
//!
//! ```sh
//! cargo test -p ebpf-profiler-unwind --test steps -- --ignored --nocapture                   # the programs below
//! STEPS_EVERY=100 STEPS=10000000 STEPS_PROGRAM='openssl speed -seconds 1 sha256' cargo test ... custom
//! ```
//!
//! ```text
//!   instruction   shadow stack                       expected frames
//!   call f        push (return address, its slot)    pc, then each return address, up to the program's entry
//!   ret           pop
//!   other         pop what is below rsp: longjmp, exceptions
//!   signal        push (interrupted pc), push (restorer)
//! ```
//!
//! A stack pointer that moves by more than 1 MiB is another stack, whose lower frames are known only from there on.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![expect(clippy::print_stdout, reason = "prints a table")]

mod judge;

mod programs;

mod ptrace;

mod shadow;

mod target;

use std::path::PathBuf;
use std::process::Command;

use judge::{Class, Judge, Tally};
use ptrace::{Event, Tracee};
use shadow::Shadow;
use target::Target;

/// The extent of a test.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Number of instructions from one comparison to the next.
    every: u64,
    /// Maximum number of instructions.
    steps: u64,
    /// `true` if the loader's instructions, before the program's entry, are among them.
    has_loader: bool,
}

impl Extent {
    fn of(every: u64, steps: u64) -> Extent {
        let from =
            |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
        Extent { every: from("STEPS_EVERY", every).max(1), steps: from("STEPS", steps), has_loader: false }
    }
}

/// Steps through a program.
fn run(command: Command, extent: Extent) -> Tally {
    let mut tracee = Tracee::start(command).expect("ptrace is permitted");
    if !extent.has_loader {
        tracee.run_to_entry().expect("the program is started");
    }
    let mut target = Target::new(tracee.pid());
    let mut shadow = Shadow::new(tracee.registers().expect("it is stopped").rsp);
    let mut judge = Judge::default();
    let mut count = 0;
    while count < extent.steps {
        let Some(before) = tracee.registers() else { break };
        if count % extent.every == 0 {
            judge.compare(&mut target, &before, &shadow);
        }
        let code = target.code(before.rip);
        target.notice_system_call(&code, before.rax);
        match tracee.step() {
            Event::Step => {}
            Event::Signal => shadow.interrupt(before.rip),
            Event::End => break,
        }
        let Some(after) = tracee.registers() else { break };
        shadow.step(&code, &before, &after, |address| target.word(address));
        count += 1;
    }
    judge.tally.steps = count;
    judge.tally.switches = shadow.switches;
    judge.tally
}

/// Prints a line of the table.
fn report(name: &str, tally: &Tally) {
    println!(
        "{name}: {} instructions, {} of other stacks only in part, {} switches",
        tally.steps, tally.partial, tally.switches
    );
    for class in [Class::Table, Class::Derived, Class::Guess] {
        let results = tally.of(class);
        let all = results.exact + results.truncated + results.wrong;
        if all > 0 {
            let share = 100.0 * results.exact as f64 / all as f64;
            let (truncated, wrong) = (results.truncated, results.wrong);
            println!("  {class:?}: {all} compared, {share:.3} % exact, {truncated} truncated, {wrong} wrong");
        }
    }
    for (place, example) in tally.worst().iter().take(8) {
        println!("    {} x {place}: {}", example.count, example.text);
    }
}

/// Runs a program and prints its results.
fn check(name: &str, command: Command, extent: Extent) -> Tally {
    let tally = run(command, extent);
    report(name, &tally);
    assert!(tally.steps > 1000, "{name} ended after {} instructions", tally.steps);
    tally
}

/// Fails unless all frames with derived rules are right, and nearly all with unwind data.
fn assert_exact(name: &str, tally: &Tally) {
    let (table, derived) = (tally.of(Class::Table), tally.of(Class::Derived));
    let all = table.exact + table.truncated + table.wrong;
    assert!(table.exact * 1000 >= all * 999, "{name}: {table:?}");
    assert_eq!(derived.wrong + derived.truncated, 0, "{name}");
}

/// From the kernel's first instruction on.
#[test]
#[ignore = "takes a minute"]
fn loader() {
    let extent = Extent { has_loader: true, ..Extent::of(5, 100_000) };
    let tally = check("the loader of /bin/true", Command::new("/bin/true"), extent);
    assert_exact("the loader", &tally);
}

/// Steps through a program in C, built with options of gcc.
fn check_compiled(options: &[&str]) -> Tally {
    let program = programs::compile("frames.c", options);
    let name = format!("frames.c {}", options.join(" "));
    let tally = check(&name, Command::new(&program.0), Extent::of(7, 150_000));
    assert_exact(&name, &tally);
    tally
}

#[test]
#[ignore = "takes a minute"]
fn gcc_without_optimization() {
    test_needs::programs!("gcc");
    check_compiled(&["-O0"]);
}

#[test]
#[ignore = "takes a minute"]
fn gcc_with_optimization() {
    test_needs::programs!("gcc");
    check_compiled(&["-O2"]);
}

/// Its own functions have derived rules; the functions of libc have unwind data.
#[test]
#[ignore = "takes a minute"]
fn gcc_without_unwind_data() {
    test_needs::programs!("gcc");
    let tally = check_compiled(&["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]);
    assert!(tally.of(Class::Derived).exact > 100, "{:?}", tally.of(Class::Derived));
}

#[test]
#[ignore = "takes a minute"]
fn openssl() {
    test_needs::programs!("openssl");
    let mut command = Command::new("openssl");
    command.args(["dgst", "-sha512", "/proc/self/exe"]);
    let tally = check("openssl dgst", command, Extent::of(20, 400_000));
    assert_exact("openssl dgst", &tally);
}

/// This program: Rust.
#[test]
#[ignore = "takes a minute"]
fn rust() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--list");
    let tally = check("Rust", command, Extent::of(20, 200_000));
    assert_exact("Rust", &tally);
}

/// The command line in `STEPS_PROGRAM`, or else the first instructions of a short program.
#[test]
#[ignore = "takes a minute"]
fn custom() {
    let (line, steps) = match std::env::var("STEPS_PROGRAM") {
        Ok(line) => (line, 10_000_000),
        Err(_) => ("/bin/echo derived".to_owned(), 20_000),
    };
    let mut words = line.split_whitespace();
    let mut command = Command::new(PathBuf::from(words.next().expect("a program")));
    command.args(words);
    let tally = check(&line, command, Extent::of(20, steps));
    assert_exact(&line, &tally);
}
