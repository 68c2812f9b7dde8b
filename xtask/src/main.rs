//! Tasks of the project; `cargo xtask` without arguments lists them.

mod again;
mod api;
mod binaries;
mod ci;
mod collector;
mod crates;
mod debian;
mod fixtures;
mod kernels;
mod layers;
mod limit;
mod matrix;
mod newcomer;
mod object;
mod pythons;
mod run;
mod tally;
mod test;
mod words;

use std::process::ExitCode;

use run::Outcome;

/// A task: its name, what it does, and the function that does it with the rest of the command line.
type Task = (&'static str, &'static str, fn(&[String]) -> Outcome);

const TASKS: &[Task] = &[
    (
        "test",
        "[--profile NAME]: format, lints, layers, documentation, tests, and as root live tests; installs programs that \
         tests need",
        test::task,
    ),
    ("ci", "installs missing Debian packages, then runs all checks and tests", ci::task),
    (
        "object",
        "rebuilds the kernel object; --check compares it with the one in the repository",
        object::task,
    ),
    ("layers", "checks that each crate depends only on crates below it", layers::task),
    (
        "matrix",
        "[go] [hotspot] [v8] [events] [hostile] [crates] ...: every version of every language, or of those that are named, at \
         length, as root; prints the share of exact stacks",
        matrix::task,
    ),
    (
        "newcomer",
        "runs test where nothing but Rust is installed, in a mount namespace, as root and as a user",
        newcomer::task,
    ),
    ("api", "writes the public items of each library to its public-api.txt; --check compares", api::task),
    (
        "crates",
        "checks the libraries: sets of features, the oldest Rust, arm64, packages, fuzz targets",
        crates::task,
    ),
    (
        "words",
        "[FOLDER]...: checks the first words of doc lines, and comments for phrases that need a second reading",
        words::task,
    ),
    (
        "fixtures",
        "[beam|dotnet|go|hotspot|luajit|perl|php|ruby|v8 [ends]]: fetches runtimes and programs for tests; ends: those \
         that CI tests; without a name: kernels, the collector, Go and Java",
        fixtures::task,
    ),
    (
        "pythons",
        "fetches or builds the interpreters that the tests profile into target/fixtures/python",
        pythons::task,
    ),
    (
        "kernels",
        "[--kernel 6.1] [--seconds 120] [--file FILE]... [-- PROGRAM ARGUMENT...]: boots them in QEMU",
        kernels::task,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = arguments.first().and_then(|name| TASKS.iter().find(|task| task.0 == name));
    let asks_for_help = arguments.iter().take_while(|it| *it != "--").any(|it| it == "--help" || it == "-h");
    let Some((name, _, run)) = task.filter(|_| !asks_for_help) else {
        usage();
        return ExitCode::from(if asks_for_help { 0 } else { 2 });
    };
    match run(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("cargo xtask {name}: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn usage() {
    eprintln!("usage: cargo xtask TASK\n");
    for (name, what, _) in TASKS {
        eprintln!("  {name:<10} {what}");
    }
}
