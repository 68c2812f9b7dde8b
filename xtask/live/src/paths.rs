//! Paths of the build's folder: fixtures, scratch files, example programs.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of all fixtures, which `cargo xtask fixtures` fetches.
pub fn fixtures() -> PathBuf {
    std::env::var_os("XTASK_FIXTURES").map_or_else(|| target().join("fixtures"), PathBuf::from)
}

/// Returns the folder of files that tests write: `CARGO_TARGET_TMPDIR`, which cargo sets for tests
/// only.
pub fn scratch() -> PathBuf {
    target().join("tmp")
}

/// Returns the path of an example program, built in the same profile as the running test.
///
/// # Panics
///
/// If the program is missing, or older than one of its listed sources.
pub fn example(name: &str) -> PathBuf {
    let program = profile().join(name);
    let profile = profile().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let profile = if profile == "debug" { "dev" } else { &profile };
    let remedy = format!("cargo build --profile {profile} --package examples");
    assert!(program.exists(), "no {}; build it with: {remedy}", program.display());
    if let Some(source) = newer_source(&program) {
        panic!("{} is older than {}; build it again with: {remedy}", program.display(), source.display());
    }
    program
}

/// Returns a source file that is newer than a program. `cargo build` lists them beside it, as
/// `PROGRAM: SOURCE SOURCE...`; `cargo test` lists none.
fn newer_source(program: &Path) -> Option<PathBuf> {
    let list = fs::read_to_string(program.with_extension("d")).ok()?;
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    let built = modified(program).ok()?;
    let sources = list.split_once(": ")?.1.split_whitespace().map(PathBuf::from);
    sources.into_iter().find(|source| modified(source).is_ok_and(|source| source > built))
}

/// Returns the folder of the profile in which the running test is built: it is in `deps` there.
fn profile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

fn target() -> PathBuf {
    profile().parent().unwrap().to_owned()
}
