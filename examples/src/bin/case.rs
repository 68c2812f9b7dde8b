//! Makes a test case from a thread of a core file, or from a raw sample of a recording: a few
//! kilobytes of text that can be unwound again anywhere.
//!
//! ```text
//! cargo run --release --bin case -- core --thread 4711 --about "waits for a child" > bash.case
//! cargo run --release --bin case -- run.ticks                     lists the raw samples
//! cargo run --release --bin case -- run.ticks --sample 3 > start.case
//! cargo run --release --bin case -- --check bash.case
//! ```

use std::path::{Path, PathBuf};

use ebpf_profiler_unwind::case::Case;
use examples::{CoreFile, Options, RecordedStack, Usage, fail, print, say};

const USAGE: Usage = Usage {
    about: "case: makes a test case from a thread of a core file, or from a raw sample of a recording",
    options: &[
        ("thread", "TID", "thread of the core file (the first)"),
        ("sample", "N", "number of a raw sample of the recording (lists them)"),
        ("about", "TEXT", "description (name of the process or thread)"),
        ("root", "DIR", "folder to search for files; repeatable (/)"),
        ("check", "", "unwind each of these cases and compare"),
    ],
    arguments: "FILE...",
};

fn main() {
    let options = Options::parse(USAGE);
    if options.has("check") {
        return check(options.arguments());
    }
    let [path] = options.arguments() else { fail("give one core file: case core --thread TID") };
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
    print(core.case(&about, stack.unwrap_or_else(|| fail("there is no such thread in the core file"))));
}

/// Prints the case of a raw sample, or lists the raw samples.
fn of_recording(path: &Path, options: &Options) {
    let stacks = RecordedStack::all(path);
    let stacks = stacks.unwrap_or_else(|error| fail(format!("{}: {error}", path.display())));
    let Some(number) = options.one::<usize>("sample") else {
        for (number, stack) in stacks.iter().enumerate() {
            say(format_args!("{number:>4}  {:>8} {}", stack.pid, stack.name));
        }
        return;
    };
    let stack = stacks.get(number).unwrap_or_else(|| fail("there is no such raw sample in the recording"));
    print(stack.case(&options.get("about", stack.name.clone())));
}

fn check(paths: &[String]) {
    let mut wrong = 0;
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| fail(format!("{path}: {error}")));
        let case: Case = text.parse().unwrap_or_else(|error| fail(format!("{path}: {error}")));
        let found = case.walk();
        if found != *case.expected() {
            say(format_args!("{path}: found\n{found}expected\n{}", case.expected()));
            wrong += 1;
        }
    }
    if wrong > 0 {
        fail(format!("{wrong} of {} cases are unwound wrongly", paths.len()));
    }
}
