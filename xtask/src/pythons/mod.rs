//! `cargo xtask pythons`: one CPython of each kind, for the tests that profile it.
//!
//! ```text
//! pyenv-3.6.15                 those that pyenv has installed, with libpython as a shared library
//! debian-3.13                  Debian's, in a folder of its own with the libc that it was built for
//! built-3.13t                  built here from Debian's source package, without the global lock
//! ```
//!
//! `target/fixtures/python/list` has a line for each: its name, its root folder (or nothing), the
//! program, the folder of its debug files (or nothing). `xtask/live/tests/python` reads it, and
//! `benches/pyperformance`.

mod built;
mod debian;
mod pyenv;
mod pyperformance;
mod suite;

pub(crate) use suite::Suite;

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::run::{Outcome, command, fixtures, run};

/// An installed interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Interpreter {
    /// Its origin and version, such as `debian-3.13`.
    name: String,
    /// The folder to use as its root; empty for the machine's own.
    root: String,
    /// Path of the program within that root.
    program: String,
    /// The folder of its debug files, for debuggers; empty if the program has symbols.
    symbols: String,
}

/// Gets all interpreters, or with `packages` those that need no build, or with `ends` the oldest
/// and the newest package of them; reports and omits those that fail.
pub(crate) fn task(arguments: &[String]) -> Outcome {
    let extent = arguments.first().map_or("", String::as_str);
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
    for package in debian::PACKAGES.iter().filter(|package| extent != "ends" || package.is_end()) {
        keep(package.interpreter());
    }
    if extent.is_empty() {
        keep(built::without_global_lock());
    }
    py_spy()?;
    // For benches only.
    if extent != "ends" {
        pyperformance::fetch()?;
    }
    let list: String = found.iter().map(Interpreter::line).collect();
    let path = folder().join("list");
    fs::write(&path, list).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("      {} interpreters in {}", found.len(), path.display());
    judge(&left_out, env::var_os("CI").is_some())
}

/// Fails in CI if an interpreter was left out.
fn judge(left_out: &[String], in_ci: bool) -> Outcome {
    match left_out {
        [first, ..] if in_ci => Err(format!("{} interpreters left out, such as: {first}", left_out.len())),
        _ => Ok(()),
    }
}

/// Fetches py-spy, the reference of a test.
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
    // A wheel has no permissions.
    fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(failed)
}

const PY_SPY: &str = "0.4.1";

/// Returns the folder of all interpreters.
fn folder() -> PathBuf {
    let folder = fixtures().join("python");
    // A failure shows when it is written to.
    let _ = fs::create_dir_all(&folder);
    folder.canonicalize().unwrap_or(folder)
}

impl Interpreter {
    fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}\n", self.name, self.root, self.program, self.symbols)
    }
}

#[test]
fn writes_four_columns() {
    let here = Interpreter { name: "a-3.9".into(), program: "/p/python".into(), ..Interpreter::default() };
    assert_eq!(here.line(), "a-3.9\t\t/p/python\t\n");
}

#[test]
fn fails_in_ci_if_interpreter_is_left_out() {
    let left_out = ["no such package".to_owned()];
    assert!(judge(&left_out, false).is_ok());
    assert!(judge(&left_out, true).is_err());
    assert!(judge(&[], true).is_ok());
}
