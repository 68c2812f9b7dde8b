//! Interpreters found by `cargo xtask pythons`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::selection::is_matrix;

/// One interpreter.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    /// Name, for example `pyenv-3.6.15` or `built-3.13t`.
    pub(crate) name: String,
    /// Root folder; `None` for the machine's own root.
    pub(crate) root: Option<PathBuf>,
    /// Path of the program, relative to that root.
    pub(crate) program: String,
    /// Folder with its debug files, for gdb only.
    pub(crate) symbols: Option<PathBuf>,
}

/// Python version, and whether it is the free-threaded build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) is_unlocked: bool,
}

/// Returns the interpreters to test that satisfy `fits`: the oldest and the newest, or all in the
/// matrix. `TRUTH_PYTHON` selects all whose names contain one of its parts. At least one.
pub(crate) fn chosen(fits: impl Fn(&Interpreter) -> bool) -> Vec<Interpreter> {
    let path = target().join("fixtures/python/list");
    let list = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; cargo xtask pythons makes it", path.display()));
    let named = std::env::var("TRUTH_PYTHON").ok();
    let is_named = |each: &Interpreter| {
        named.as_ref().is_none_or(|named| named.split(',').any(|part| each.name.contains(part)))
    };
    let mut found: Vec<_> = list.lines().filter_map(Interpreter::parse).collect();
    found.retain(|each| is_named(each) && fits(each));
    assert!(
        !found.is_empty(),
        "{}: no interpreter fits, of those with {named:?} in their names",
        path.display()
    );
    found.sort_by_key(Interpreter::version);
    if named.is_none() && !is_matrix() && found.len() > 2 {
        found.drain(1..found.len() - 1);
    }
    found
}

/// Enters the interpreter's root, with the devices and the processes of the machine.
const ENTER: &str =
    r#"mount --rbind /dev "$0/dev" && mount --types proc proc "$0/proc" && exec chroot "$0" "$@""#;

/// Returns the workspace's target directory, which contains the tests' temporary directory.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_path_buf()
}

/// Returns the folder of the workloads.
pub(crate) fn programs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/programs"))
}

impl Interpreter {
    fn parse(line: &str) -> Option<Interpreter> {
        let [name, root, program, symbols] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let folder = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        Some(Interpreter {
            name: name.to_owned(),
            root: folder(root),
            program: program.to_owned(),
            symbols: folder(symbols),
        })
    }

    pub(crate) fn version(&self) -> Version {
        Version::parse(self.name.rsplit('-').next().unwrap())
            .unwrap_or_else(|| panic!("{} is no version", self.name))
    }

    /// Returns the command that runs a program of the workloads' folder.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.bare_command(&self.program);
        command.arg(self.folder().join(program));
        command
    }

    /// Returns the command that runs a program of the interpreter's root.
    pub(crate) fn bare_command(&self, program: &str) -> Command {
        let mut command = match &self.root {
            None => Command::new(program),
            Some(root) => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", ENTER]).arg(root).arg(program);
                command
            }
        };
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("LC_ALL", "C.UTF-8");
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    }

    /// Returns the folder of the workloads as the interpreter sees it; copied if it has a root
    /// folder.
    fn folder(&self) -> PathBuf {
        let Some(root) = &self.root else { return programs().to_path_buf() };
        for entry in fs::read_dir(programs()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, root.join("truth").join(path.file_name().unwrap())).unwrap();
        }
        PathBuf::from("/truth")
    }

    /// Returns the program's file as seen from this process.
    pub(crate) fn file(&self, program: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(program.trim_start_matches('/')),
            None => PathBuf::from(program),
        }
    }
}

impl Version {
    /// Parses `3.11.7`, `3.14` or `3.13t`.
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let is_unlocked = text.ends_with('t');
        let mut parts = text.trim_end_matches('t').split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Version { major, minor, is_unlocked })
    }

    /// Returns `true` if this version is older than `major.minor`.
    pub(crate) fn is_before(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) < (major, minor)
    }
}

#[test]
fn versions_are_read() {
    let version = |text| Version::parse(text).unwrap();
    assert_eq!(version("3.11.7"), Version { major: 3, minor: 11, is_unlocked: false });
    assert!(version("3.13t").is_unlocked);
    assert!(version("2.7.18").is_before(3, 6));
    assert!(version("3.9").is_before(3, 10));
    assert_eq!(Version::parse("x"), None);
}
