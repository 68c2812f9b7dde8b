//! Prints the stack of every thread of a core file, as `eu-stack --core` does.
//!
//! ```text
//! cargo run --release --bin corestack -- core
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebpf_profiler_unwind::core_dump::{File, Gaps, Origin, Problem};
use examples::{CoreFile, Options, Usage, fail};

const USAGE: Usage = Usage {
    about: "corestack: prints the stack of every thread of a core file",
    options: &[
        ("root", "DIR", "where to look for files, / if it isn't given; may be given several times"),
        ("thread", "TID", "only this thread; may be given several times"),
        ("files", "", "print what became of each file that held code, too"),
    ],
    words: "core",
};

fn main() {
    let options = Options::parse(USAGE);
    let [path] = options.words() else { fail("give one core file: corestack core") };
    let roots: Vec<PathBuf> = options.all("root");
    let mut core = CoreFile::open(Path::new(path), &roots).unwrap_or_else(|error| fail(error));
    let threads: Vec<u32> = options.all("thread");
    say_gaps(core.dump.gaps());
    if options.has("files") {
        core.loaded.files().iter().for_each(|file| eprint!("{}", described(file)));
    }
    match print(&mut core, &threads) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => fail(error),
        Ok(0) => fail("there is no such thread"),
        Ok(_) => {}
    }
}

/// Prints the stacks; how many is returned.
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
        eprintln!("the core file was cut off: {} bytes of memory are missing", gaps.memory);
    }
    if gaps.notes > 0 {
        eprintln!("{} notes can't be read", gaps.notes);
    }
    if gaps.too_many {
        eprintln!("the core file claims more threads or notes than any process has; some were left out");
    }
}

fn described(file: &File) -> String {
    let origin = match &file.origin {
        Origin::Path(path) => format!("from {}", path.display()),
        Origin::Unproved(path) => format!("from {}, which may be another build", path.display()),
        Origin::Memory => "from the dump's memory".to_owned(),
        _ => "from nowhere".to_owned(),
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
