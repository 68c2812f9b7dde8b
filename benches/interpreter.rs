//! Interpreters found by `cargo xtask pythons`.

use std::fs;
use std::io;
use std::path::Path;

/// An interpreter.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Name in the output.
    pub name: String,
    /// Root folder; empty for that of the machine.
    pub root: String,
    /// Path of the program below that root.
    pub program: String,
}

/// Returns the interpreters in the fixtures whose names contain one of `wanted`.
///
/// # Errors
///
/// Fails if the list is missing.
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
