//! Interpreters: the installed one, and those that `cargo xtask fixtures php` has fetched.

use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::fixtures;
use live_suite::root;

/// One interpreter.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    /// Name, for example `installed` or `8.4-static`.
    pub(crate) name: String,
    /// Root folder; `None` for the machine's own root.
    root: Option<PathBuf>,
    /// Path of the program, relative to that root.
    program: PathBuf,
    options: Vec<&'static str>,
}

impl Interpreter {
    /// Returns the `php` in `PATH`.
    pub(crate) fn installed(options: &[&'static str]) -> Interpreter {
        let name = ["installed"].iter().chain(options).copied().collect::<Vec<_>>().join(" ");
        Interpreter { name, root: None, program: "php".into(), options: options.to_vec() }
    }

    /// Returns one that was fetched, `None` if it wasn't; `program` is relative to its folder,
    /// which is its root if `program` is absolute.
    pub(crate) fn fetched(name: &str, program: &str, options: &[&'static str]) -> Option<Interpreter> {
        let folder = fixtures().join("php").join(name).canonicalize().ok()?;
        let (root, program) = match program.starts_with('/') {
            true => (Some(folder), PathBuf::from(program)),
            false => (None, folder.join(program)),
        };
        let name = [name].iter().chain(options).copied().collect::<Vec<_>>().join(" ");
        Some(Interpreter { name, root, program, options: options.to_vec() })
    }

    /// Returns the path of a file that was built, `None` if it wasn't.
    pub(crate) fn built(name: &str, file: &str) -> Option<PathBuf> {
        let folder = fixtures().join("php").join(name).canonicalize().ok()?;
        folder.join("complete").is_file().then(|| folder.join(file)).filter(|path| path.is_file())
    }

    /// Returns `true` if it compiles scripts.
    pub(crate) fn has_jit(&self) -> bool {
        self.options.iter().any(|option| option.starts_with("-dopcache.jit="))
            && !self.options.contains(&"-dopcache.jit=off")
    }

    /// Returns the command that runs a program of the workloads' folder.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.bare(&[]);
        command.arg(self.folder().join(program)).args(arguments);
        command
    }

    /// Returns the command that runs a program of the interpreter's root.
    pub(crate) fn other(&self, program: impl AsRef<Path>) -> Command {
        root::command(self.root.as_ref(), &[], program.as_ref())
    }

    /// Returns the path of a file of the interpreter's root.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(inside)) => root.join(inside),
            _ => path.to_path_buf(),
        }
    }

    /// Returns the command that runs the interpreter, which sees these folders.
    pub(crate) fn bare(&self, folders: &[&Path]) -> Command {
        let mut command = root::command(self.root.as_ref(), folders, &self.program);
        // A root without time zones makes it warn.
        command.arg("-ddisplay_startup_errors=0").args(&self.options);
        command
    }

    /// Returns the version, as the interpreter prints it.
    pub(crate) fn version(&self) -> (u32, u32) {
        let code = "echo PHP_MAJOR_VERSION, ' ', PHP_MINOR_VERSION;";
        let output = self.bare(&[]).args(["-r", code]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (major, minor) = text.split_once(' ').unwrap_or_else(|| panic!("{}: {text}", self.name));
        (major.parse().unwrap(), minor.parse().unwrap())
    }

    /// Returns the folder of the workloads as the interpreter sees it; copied if it has a root
    /// folder.
    pub(crate) fn folder(&self) -> PathBuf {
        let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/programs"));
        let Some(root) = &self.root else { return programs.to_path_buf() };
        let inside = root.join("truth");
        std::fs::create_dir_all(&inside).unwrap();
        for entry in std::fs::read_dir(programs).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, inside.join(path.file_name().unwrap())).unwrap();
        }
        PathBuf::from("/truth")
    }
}
