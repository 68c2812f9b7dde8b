//! `cargo xtask pythons`: one CPython of each kind, for the tests that profile it.
//!
//! ```text
//! pyenv-3.6.15                 those that pyenv has installed, with libpython as a shared library
//! debian-3.13                  Debian's, in a folder of its own with the libc that it was built for
//! built-3.13t                  built here from Debian's source package, without the global lock
//! ```
//!
//! What is there stands in `target/fixtures/python/list`, a line for each: its name, the folder that is to be its root
//! (or nothing), the program, the folder of its debug files (or nothing). `examples/tests/python` reads it, and
//! `benches/pyperformance`.

mod built;
mod debian;
mod pyenv;
mod pyperformance;
mod suite;

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::run::{Outcome, command, fixtures, run};

/// An interpreter that can be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Interpreter {
    /// Where it is from, and its version.
    name: String,
    /// The folder that it has to see as its root; empty where that is the machine's own.
    root: String,
    /// The program, as seen from that root.
    program: String,
    /// The folder with its debug files, for debuggers alone; empty where the program has its symbols itself.
    symbols: String,
}

/// Gets all that can be had here, or with `packages` all that needn't be built; what can't is said and left out.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let mut found = pyenv::installed();
    if found.is_empty() {
        eprintln!(
            "      pyenv is not in PATH, or has installed nothing: 2.7 and 3.6 to 3.13 are not tested as it builds them"
        );
    }
    let mut left_out = Vec::new();
    let mut keep = |interpreter: Result<Interpreter, String>| match interpreter {
        Ok(interpreter) => found.push(interpreter),
        Err(error) => {
            eprintln!("      left out: {error}");
            left_out.push(error);
        }
    };
    for package in debian::PACKAGES {
        keep(package.interpreter());
    }
    if arguments.first().is_none_or(|what| what != "packages") {
        keep(built::without_global_lock());
    }
    py_spy()?;
    pyperformance::fetch()?;
    let list: String = found.iter().map(Interpreter::line).collect();
    let path = folder().join("list");
    fs::write(&path, list).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("      {} interpreters in {}", found.len(), path.display());
    judge(&left_out, env::var_os("CI").is_some())
}

/// Without CI an interpreter may be left out, with it all that are fetched have to be there.
fn judge(left_out: &[String], in_ci: bool) -> Outcome {
    match left_out {
        [first, ..] if in_ci => Err(format!("{} interpreters left out, such as: {first}", left_out.len())),
        _ => Ok(()),
    }
}

/// py-spy, which the tests compare with.
fn py_spy() -> Outcome {
    let folder = fixtures().join("py-spy");
    let program = folder.join(format!("py_spy-{PY_SPY}.data/scripts/py-spy"));
    if program.is_file() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let package = format!("py-spy=={PY_SPY}");
    run(
        command(&["python3", "-m", "pip", "download", "--quiet", "--no-deps", &package]).current_dir(&folder)
    )?;
    let wheels = fs::read_dir(&folder).map_err(failed)?.flatten().map(|entry| entry.path());
    for wheel in wheels.filter(|path| path.extension().is_some_and(|ending| ending == "whl")) {
        run(command(&["python3", "-m", "zipfile", "-e"]).arg(wheel).arg(&folder))?;
    }
    // A wheel doesn't say what may be run.
    fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(failed)
}

const PY_SPY: &str = "0.4.1";

/// Where they all are.
fn folder() -> PathBuf {
    let folder = fixtures().join("python");
    // Whoever writes into it says that it is missing.
    let _ = fs::create_dir_all(&folder);
    folder.canonicalize().unwrap_or(folder)
}

impl Interpreter {
    fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}\n", self.name, self.root, self.program, self.symbols)
    }
}

#[test]
fn the_list_has_four_columns() {
    let here = Interpreter { name: "a-3.9".into(), program: "/p/python".into(), ..Interpreter::default() };
    assert_eq!(here.line(), "a-3.9\t\t/p/python\t\n");
}

#[test]
fn an_interpreter_that_is_left_out_fails_in_ci_only() {
    let left_out = ["no such package".to_owned()];
    assert!(judge(&left_out, false).is_ok());
    assert!(judge(&left_out, true).is_err());
    assert!(judge(&[], true).is_ok());
}
