//! `cargo xtask newcomer`: `cargo xtask test` on a machine that has Rust and nothing else.
//!
//! The programs that tests need are hidden in a mount namespace, and `apt-get` too. There the tests
//! run as root and as an ordinary user; they have to pass, with some of them skipped and counted.
//! The user also tries the first command of README.md, which has to answer with the command that
//! has the privilege.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use test_needs::TOOLS;

use crate::run::{Outcome, cargo, command, root, target, watch};
use crate::tally::{Tally, is_skipped};

/// Packages that Rust's linker comes with: their programs stay.
const LINKER: &[&str] = &["gcc", "binutils"];

/// Other programs that such a machine lacks.
const MORE: &[&str] = &["apt-get", "perf", "rustfilt", "bpf-linker", "py-spy", "pyenv"];

/// Folders of programs, besides those in `PATH`.
const FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// Runs the tests as both.
pub(crate) fn task(_: &[String]) -> Outcome {
    let mut tally = Tally::default();
    if test_needs::is_root() {
        tally.step("newcomer, root", |_| tests("root", "dev"));
    }
    steps(&mut tally, "dev");
    tally.close()
}

/// Runs what CI has time for: the tests as an ordinary user, and the first command of README.md.
///
/// `profile` is that in which the tests have been built.
pub(crate) fn steps(tally: &mut Tally, profile: &str) {
    if !test_needs::is_root() {
        return tally.skip(
            "newcomer",
            "a mount namespace needs root: sudo -E env PATH=\"$PATH\" cargo xtask newcomer",
        );
    }
    tally.step("newcomer, user", |_| tests("user", profile));
    tally.step("newcomer, first command", |_| first_command(profile));
}

/// Runs the tests; some of them have to be skipped.
fn tests(who: &str, profile: &str) -> Outcome {
    let mut skipped = 0_usize;
    // As root it would build the live tests in another one.
    let options: &[&str] = if profile == "dev" { &[] } else { &["--profile", profile] };
    watch(&mut within(who, &mut cargo(&[&["xtask", "test"], options].concat()))?, |line| {
        skipped += usize::from(is_skipped(line))
    })?;
    match skipped {
        0 => Err("no test was skipped: nothing was hidden".to_owned()),
        _ => Ok(()),
    }
}

/// Runs the program of the first command of README.md, for a second, as the tests have built it.
fn first_command(profile: &str) -> Outcome {
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target().join(folder).join("flamegraph");
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let mut flamegraph = command(&[&program.to_string_lossy(), "--seconds", "1", "--output", "machine.html"]);
    let output = within("user", &mut flamegraph)?.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    eprintln!("{text}");
    let has_remedy = text.lines().any(|line| line.trim_start().starts_with("sudo "));
    if has_remedy && !output.status.success() {
        Ok(())
    } else {
        Err("it named no command with sudo".to_owned())
    }
}

/// A command in a namespace without the programs.
fn within(who: &str, inner: &mut Command) -> Result<Command, String> {
    let absolute = |path: PathBuf| {
        let found = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(found)
    };
    let repository = absolute(root())?;
    let target = absolute(target())?;
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
    let folder = |name: &str, other: &str| env::var_os(name).map_or_else(|| home.join(other), PathBuf::from);
    let mut outer = command(&["unshare", "--mount", "sh"]);
    outer.arg(repository.join("xtask/src/newcomer.sh")).arg(who).arg(&repository).arg(&target);
    outer.arg(hidden().join(":")).arg(inner.get_program()).args(inner.get_args());
    outer
        .env("CARGO_HOME", folder("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", folder("RUSTUP_HOME", ".rustup"));
    Ok(outer)
}

/// The files of all programs that are hidden, behind links.
fn hidden() -> Vec<String> {
    let tools = TOOLS.iter().filter(|tool| !LINKER.contains(&tool.package)).map(|tool| tool.program);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from)).collect();
    let names = tools.chain(MORE.iter().copied());
    let files =
        names.flat_map(|name| folders.iter().filter_map(move |folder| folder.join(name).canonicalize().ok()));
    let mut files: Vec<String> = files.map(|file| file.to_string_lossy().into_owned()).collect();
    files.sort();
    files.dedup();
    files
}

#[test]
fn hides_no_program_of_the_linker() {
    let hidden = hidden();
    for program in ["cc", "ld", "as", "sh", "cargo"] {
        let file = test_needs::find(program).and_then(|file| file.canonicalize().ok());
        assert!(file.is_none_or(|file| !hidden.contains(&file.to_string_lossy().into_owned())), "{program}");
    }
}
