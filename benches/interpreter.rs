//! The interpreters that `cargo xtask pythons` has found.

use std::fs;
use std::io;
use std::path::Path;

/// An interpreter.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// What to call it.
    pub name: String,
    /// The folder that is its root; empty where that is the machine's own.
    pub root: String,
    /// The program, as seen from there.
    pub program: String,
}

/// Those in the list among the fixtures whose names hold one of `wanted`.
///
/// # Errors
///
/// When there is no list.
pub fn interpreters(fixtures: &Path, wanted: &str) -> io::Result<Vec<Interpreter>> {
    let list = fs::read_to_string(fixtures.join("python/list"))
        .map_err(|error| io::Error::other(format!("{error}; cargo xtask pythons packages makes the list")))?;
    let parse = |line: &str| {
        let [name, root, program, _] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let [name, root, program] = [name, root, program].map(str::to_owned);
        Some(Interpreter { name, root, program })
    };
    let is_wanted = |each: &Interpreter| wanted.split(',').any(|part| each.name.contains(part));
    Ok(list.lines().filter_map(parse).filter(is_wanted).collect())
}
