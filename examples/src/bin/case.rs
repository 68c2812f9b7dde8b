//! Makes a test case of a thread of a core file, or of a stack in a recording: a few kilobytes of text that can be walked
//! again anywhere.
//!
//! ```text
//! cargo run --release --bin case -- core --thread 4711 --about "waits for a child" > bash.case
//! cargo run --release --bin case -- run.ticks                     lists the stacks that the kernel side didn't walk
//! cargo run --release --bin case -- run.ticks --sample 3 > start.case
//! cargo run --release --bin case -- --check bash.case
//! ```

use std::path::{Path, PathBuf};

use ebpf_profiler_unwind::case::Case;
use examples::{CoreFile, Options, RecordedStack, Usage, fail, print};

const USAGE: Usage = Usage {
    about: "case: makes a test case of a thread of a core file, or of a stack in a recording",
    options: &[
        ("thread", "TID", "which thread; the first if it isn't given"),
        ("sample", "N", "which stack of a recording; lists them if it isn't given"),
        ("about", "TEXT", "what it is, in words"),
        ("root", "DIR", "where to look for files, / if it isn't given; may be given several times"),
        ("check", "", "the words are cases: walks each of them"),
    ],
    words: "core",
};

fn main() {
    let options = Options::parse(USAGE);
    if options.has("check") {
        return check(options.words());
    }
    let [path] = options.words() else { fail("give one core file: case core --thread TID") };
    if path.ends_with(".ticks") {
        return of_recording(Path::new(path), &options);
    }
    let roots: Vec<PathBuf> = options.all("root");
    let mut core = CoreFile::open(Path::new(path), &roots).unwrap_or_else(|error| fail(error));
    let about: String = options.get("about", core.dump.process().name.to_string());
    let thread: Option<u32> = options.one("thread");
    let stacks = core.stacks();
    let wanted = |id| thread.is_none_or(|thread| thread == id);
    let stack = stacks.iter().find(|stack| wanted(stack.thread.id));
    print(core.case(&about, stack.unwrap_or_else(|| fail("there is no such thread"))));
}

/// A stack that was left to be walked in user space, or a list of them.
fn of_recording(path: &Path, options: &Options) {
    let stacks = RecordedStack::all(path);
    let stacks = stacks.unwrap_or_else(|error| fail(format!("{}: {error}", path.display())));
    let Some(number) = options.one::<usize>("sample") else {
        for (number, stack) in stacks.iter().enumerate() {
            eprintln!("{number:>4}  {:>8} {}", stack.pid, stack.name);
        }
        return;
    };
    let stack = stacks.get(number).unwrap_or_else(|| fail("there is no such stack"));
    print(stack.case(&options.get("about", stack.name.clone())));
}

fn check(paths: &[String]) {
    let mut wrong = 0;
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| fail(format!("{path}: {error}")));
        let case: Case = text.parse().unwrap_or_else(|error| fail(format!("{path}: {error}")));
        let found = case.walk();
        if found != *case.expected() {
            eprintln!("{path}: found\n{found}expected\n{}", case.expected());
            wrong += 1;
        }
    }
    if wrong > 0 {
        fail(format!("{wrong} of {} cases are walked wrongly", paths.len()));
    }
}
