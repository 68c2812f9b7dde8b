//! The dumped programs.

use std::process::Command;
use std::time::Duration;

use examples::{CoreFile, Stack};

use crate::compare::{Difference, compare};
use live_suite::workload::dump::{after, are_here, build, by_the_kernel, folder, source, when_ready};

/// Builds a program in the folder of these tests, from a compiler with its options and a source.
fn built(name: &str, compiler: &[&str], from: &str) -> Command {
    let program = folder().join(name);
    build(Command::new(compiler[0]).args(&compiler[1..]).arg("-o").arg(&program).arg(source(from)));
    Command::new(program)
}

#[test]
#[ignore = "needs gdb, eu-stack and node"]
fn node() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "node");
    if !are_here(&["gdb", "eu-stack", "node"]) {
        return;
    }
    compare(&when_ready("node", Command::new("node").arg(source("calls.js"))), 8, &[INTERPRETED]);
}

/// Frames of JavaScript are functions of scripts in ours, and addresses of generated code in
/// others.
const INTERPRETED: Difference = Difference {
    why: "ours has functions of scripts where eu-stack has code of the runtime",
    is: |thread| thread.has_scripts_within(&thread.eu_stack),
};

#[test]
#[ignore = "needs gdb, eu-stack and python3"]
fn python() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "python3");
    if !are_here(&["gdb", "eu-stack", "python3"]) {
        return;
    }
    compare(&when_ready("python", Command::new("python3").arg(source("calls.py"))), 5, &[]);
}

/// HotSpot's code has neither frame pointers nor unwind data that other tools read: they show one
/// frame of it, or none, and what follows is not on the stack. Ours are methods.
const METHODS: Difference = Difference {
    why: "ours goes on, to the root, behind methods of Java, where eu-stack and gdb end or go astray",
    is: |thread| thread.has_scripts_behind(&thread.eu_stack) || thread.has_scripts_behind(&thread.gdb),
};

#[test]
#[ignore = "needs gdb, eu-stack and a JDK"]
fn java() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "java", "javac");
    if !are_here(&["gdb", "eu-stack", "javac"]) {
        return;
    }
    let classes = folder();
    build(Command::new("javac").arg("-d").arg(&classes).arg(source("Calls.java")));
    let small = ["-Xmx24m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=8m", "-Xshare:off"];
    let mut java = Command::new("java");
    let dump = when_ready("java", java.args(small).arg("-cp").arg(&classes).arg("Calls"));
    compare(&dump, 10, &[METHODS]);
    // The compiler puts several calls into one frame. Nearly all time is spent in the innermost one.
    let stacks = CoreFile::open(&dump.core, &[]).unwrap().stacks();
    let counts: Vec<_> = stacks.iter().map(|stack| count(stack, "Calls.count")).collect();
    println!("calls of Calls.count in each thread: {counts:?}");
    assert_eq!(counts.iter().filter(|&&count| count > 0).count(), 2);
    assert!(counts.contains(&13) && counts.iter().all(|&count| count <= 13));
}

/// Returns the number of calls of a function in a stack, with those that were inlined.
fn count(stack: &Stack, function: &str) -> usize {
    let functions = stack.calls.iter().flat_map(|call| &call.functions);
    functions.filter(|called| called.name == function).count()
}

#[test]
#[ignore = "needs gdb, eu-stack and clang"]
fn clang() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "clang");
    let clang =
        ["clang", "clang-14"].into_iter().find(|name| test_needs::find(name).is_some()).unwrap_or("clang");
    if !are_here(&["gdb", "eu-stack", clang]) {
        return;
    }
    let mut command = Command::new(clang);
    // One process, with enough work.
    command.args(["-fintegrated-cc1", "-O2", "-c", "-x", "c++", &source("heavy.cpp"), "-o", "/dev/null"]);
    compare(&after("clang", Duration::from_millis(700), &mut command), 1, &[]);
}

/// Go's own frames end where the thread of the operating system starts; no frame can follow.
const BEGIN_OF_THREAD: Difference = Difference {
    why: "eu-stack goes on behind the first function of a thread",
    is: |thread| thread.ends_before(&thread.eu_stack),
};

/// Without unwind data eu-stack follows frame pointers, which skip the caller of a leaf without
/// one.
const LEAF: Difference = Difference {
    why: "eu-stack, without unwind data, has left out the caller of a leaf that keeps no frame pointer",
    is: |thread| {
        thread.ours.len() == thread.eu_stack.len() + 1 && {
            let mut without = thread.ours.iter().map(|line| line.pc).collect::<Vec<_>>();
            without.remove(1);
            without.into_iter().eq(thread.eu_stack.iter().map(|line| line.pc))
        }
    },
};

#[test]
#[ignore = "needs gdb, eu-stack and go"]
fn go() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "go");
    if !are_here(&["gdb", "eu-stack", "go"]) {
        return;
    }
    let mut program = built("calls_go", &["go", "build"], "calls.go");
    compare(&when_ready("go", &mut program), 3, &[BEGIN_OF_THREAD]);
}

#[test]
#[ignore = "needs gdb, eu-stack and go"]
fn go_stripped() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "go");
    if !are_here(&["gdb", "eu-stack", "go"]) {
        return;
    }
    let mut program = built("calls_go_stripped", &["go", "build", "-ldflags=-s -w"], "calls.go");
    compare(&when_ready("go_stripped", &mut program), 3, &[BEGIN_OF_THREAD, LEAF]);
}

#[test]
#[ignore = "needs gdb, eu-stack and rustc"]
fn rust() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "rustc");
    if !are_here(&["gdb", "eu-stack", "rustc"]) {
        return;
    }
    let mut program = built("server", &["rustc", "-O", "--edition=2024"], "server.rs");
    compare(&when_ready("rust", &mut program), 8, &[]);
}

#[test]
#[ignore = "needs gdb, eu-stack and gcc"]
fn glibc() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "gcc");
    if !are_here(&["gdb", "eu-stack", "gcc"]) {
        return;
    }
    let mut program = built("threads_glibc", &["gcc", "-O2", "-pthread"], "threads.c");
    compare(&when_ready("glibc", &mut program), 4, &[]);
}

#[test]
#[ignore = "needs gdb, eu-stack, rustc and gcc"]
fn written_by_the_kernel() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "rustc", "gcc");
    if !are_here(&["gdb", "eu-stack", "rustc", "gcc"]) {
        return;
    }
    let server = built("server_that_ends", &["rustc", "-O", "--edition=2024"], "server.rs");
    let threads = built("threads_that_end", &["gcc", "-O2", "-pthread"], "threads.c");
    for (name, program, least) in [("kernel_server", server, 8), ("kernel_threads", threads, 4)] {
        if let Some(dump) = by_the_kernel(name, program.get_program().as_ref()) {
            compare(&dump, least, &[]);
        }
    }
}

#[test]
#[ignore = "needs gdb, eu-stack and musl-gcc"]
fn musl() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "musl-gcc");
    if !are_here(&["gdb", "eu-stack", "musl-gcc"]) {
        return;
    }
    let mut program = built("threads_musl", &["musl-gcc", "-O2", "-pthread"], "threads.c");
    compare(&when_ready("musl", &mut program), 4, MUSL);
}

#[test]
#[ignore = "needs gdb, eu-stack and musl-gcc"]
fn musl_static() {
    test_needs::programs!("gdb", "gcore", "eu-stack", "musl-gcc");
    if !are_here(&["gdb", "eu-stack", "musl-gcc"]) {
        return;
    }
    let mut program = built("threads_musl_static", &["musl-gcc", "-static", "-O2", "-pthread"], "threads.c");
    compare(&when_ready("musl_static", &mut program), 4, MUSL);
}

/// Debian builds musl without unwind data: each frame through it is a guess. The stack ends at the
/// latest in `_start` or `clone`, which are recognized by their instructions.
const MUSL: &[Difference] = &[
    Difference {
        why: "ours goes on in musl, which has no unwind data",
        is: |thread| thread.goes_on_behind(&thread.eu_stack),
    },
    Difference {
        why: "ours goes on behind musl's signal trampoline, which eu-stack takes for the last function",
        is: |thread| thread.goes_on_behind(&thread.eu_stack[..thread.eu_stack.len() - 1]),
    },
];
