//! Prints the stack of every thread of a core file, as `eu-stack --core` does.
//!
//! ```text
//! cargo run --release --bin corestack -- core
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebpf_profiler_unwind::core_dump::{File, Gaps, Origin, Problem};
use examples::{CoreFile, Options, Usage, fail, say};

const USAGE: Usage = Usage {
    about: "corestack: prints the stack of every thread of a core file",
    options: &[
        ("root", "DIR", "folder to search for files; repeatable (/)"),
        ("thread", "TID", "only this thread; repeatable"),
        ("files", "", "also print the origin of each file with code"),
    ],
    arguments: "CORE",
};

fn main() {
    let options = Options::parse(USAGE);
    let [path] = options.arguments() else { fail("give one core file: corestack core") };
    let roots: Vec<PathBuf> = options.all("root");
    let mut core = CoreFile::open(Path::new(path), &roots).unwrap_or_else(|error| fail(error));
    let threads: Vec<u32> = options.all("thread");
    say_gaps(core.dump.gaps());
    if options.has("files") {
        core.loaded.files().iter().for_each(|file| say(described(file).trim_end()));
    }
    match print(&mut core, &threads) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => fail(format!("cannot print: {error}")),
        Ok(0) => fail("there is no such thread in the core file"),
        Ok(_) => {}
    }
}

/// Prints the stacks and returns their number.
fn print(core: &mut CoreFile, threads: &[u32]) -> io::Result<usize> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let process = core.dump.process();
    writeln!(out, "PID {} - {}", process.id, process.name)?;
    let mut printed = 0;
    for stack in core.stacks() {
        if threads.is_empty() || threads.contains(&stack.thread.id) {
            write!(out, "{stack}")?;
            printed += 1;
        }
    }
    out.flush()?;
    Ok(printed)
}

fn say_gaps(gaps: Gaps) {
    if gaps.memory > 0 {
        say(format_args!("the core file is truncated: {} bytes of memory are missing", gaps.memory));
    }
    if gaps.notes > 0 {
        say(format_args!("{} notes cannot be read", gaps.notes));
    }
    if gaps.too_many {
        say("the core file has more threads or notes than the limit; some were left out");
    }
}

fn described(file: &File) -> String {
    let origin = match &file.origin {
        Origin::Path(path) => format!("from {}", path.display()),
        Origin::Unproved(path) => format!("from {}, possibly another build", path.display()),
        Origin::Memory => "from the dump's memory".to_owned(),
        _ => "not found".to_owned(),
    };
    let problems: String =
        file.problems.iter().map(|problem| format!("    {}\n", sentence(problem))).collect();
    format!("{}: {origin}\n{problems}", file.path)
}

fn sentence(problem: &Problem) -> String {
    match problem {
        Problem::Different(path) => {
            format!("{} is another build; give --root DIR with the right one", path.display())
        }
        Problem::Unreadable(path, error) => format!("{}: {error}", path.display()),
        Problem::Elf(path, error) => format!("{}: {error}", path.display()),
        Problem::NotInDump(error) => format!("no unwind data in the dump: {error}"),
        _ => format!("{problem:?}"),
    }
}
