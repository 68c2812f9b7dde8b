//! The interpreters installed on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An interpreter in its own root directory, or in the root directory of the machine.
pub(crate) struct Interpreter {
    pub(crate) root: Option<PathBuf>,
    pub(crate) program: PathBuf,
}

impl Interpreter {
    /// Returns a command that runs a script.
    pub(crate) fn run(&self, script: &Path) -> Command {
        let Some(root) = &self.root else {
            let mut command = Command::new(&self.program);
            command.arg(script);
            return command;
        };
        // The script isn't inside the root directory.
        let mut command = Command::new("chroot");
        command
            .arg(root)
            .arg(&self.program)
            .arg("-c")
            .arg(std::fs::read_to_string(script).unwrap_or_default());
        command
    }

    /// Name in messages.
    pub(crate) fn name(&self) -> String {
        match &self.root {
            Some(root) => format!("{}:{}", root.display(), self.program.display()),
            None => self.program.display().to_string(),
        }
    }
}

/// Returns all interpreters: pyenv's, the system's, and those of the list that `cargo xtask
/// pythons` writes. `PYTHONS` names another list, with lines of the form
/// `NAME<TAB>ROOT<TAB>PROGRAM`.
pub(crate) fn all() -> Vec<Interpreter> {
    let mut found = Vec::new();
    let mut add = |root: Option<PathBuf>, program: PathBuf| {
        let real = root.clone().unwrap_or("/".into()).join(program.strip_prefix("/").unwrap_or(&program));
        let real = real.canonicalize().unwrap_or_default();
        if real.exists() && found.iter().all(|(other, _)| *other != real) {
            found.push((real, Interpreter { root, program }));
        }
    };
    let versions = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv/versions"));
    for version in
        versions.and_then(|versions| std::fs::read_dir(versions).ok()).into_iter().flatten().flatten()
    {
        add(None, version.path().join("bin/python"));
    }
    for minor in 6..16 {
        add(None, format!("/usr/bin/python3.{minor}").into());
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures/python/list");
    let list = std::env::var_os("PYTHONS").map_or(list, PathBuf::from);
    for line in std::fs::read_to_string(list).unwrap_or_default().lines() {
        let mut cells = line.split('\t').skip(1).map(PathBuf::from);
        let (Some(root), Some(program)) = (cells.next(), cells.next()) else { continue };
        add((!root.as_os_str().is_empty()).then_some(root), program);
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(_, interpreter)| interpreter).collect()
}
