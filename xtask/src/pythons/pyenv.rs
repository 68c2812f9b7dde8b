//! Interpreters that pyenv has installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::Interpreter;
use crate::run::{command, output};

/// Returns its CPythons, the oldest first.
pub(super) fn installed() -> Vec<Interpreter> {
    let Some(root) = root() else { return Vec::new() };
    let entries = fs::read_dir(root.join("versions")).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = entries.filter_map(|entry| interpreter(&entry.path())).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.into_iter().map(|(_, interpreter)| interpreter).collect()
}

/// Returns pyenv's folder, from the environment or from `pyenv root`.
fn root() -> Option<PathBuf> {
    let said = || output(&mut command(&["pyenv", "root"])).ok().map(|root| PathBuf::from(root.trim()));
    env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(said)
}

/// Returns version and interpreter of a folder such as `3.11.7`; `None` for other implementations,
/// whose folders begin with a name.
fn interpreter(folder: &Path) -> Option<((u32, u32, String), Interpreter)> {
    let name = folder.file_name()?.to_str()?;
    let mut parts = name.split('.');
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    let program = folder.join("bin").join(format!("python{major}.{minor}"));
    let program = program.is_file().then(|| program.to_string_lossy().into_owned())?;
    let interpreter = Interpreter { name: format!("pyenv-{name}"), program, ..Interpreter::default() };
    Some(((major, minor, name.to_owned()), interpreter))
}
