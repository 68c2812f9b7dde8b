//! Interpreters: the installed one, and those that `cargo xtask fixtures perl` has fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::fixtures;
use live_suite::root;

/// One interpreter.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    /// Name, for example `installed` or `5.40`.
    pub(crate) name: String,
    /// Root folder; `None` for the machine's own root.
    root: Option<PathBuf>,
    program: PathBuf,
    /// Folder of its modules; `None` for those that it finds itself.
    modules: Option<PathBuf>,
}

/// The programs, as those of the machine's root see them.
pub(crate) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perl/programs");

/// The same within the root of an interpreter.
const INSIDE: &str = "/truth";

impl Interpreter {
    /// Returns the `perl` in `PATH`.
    pub(crate) fn installed() -> Interpreter {
        Interpreter { name: "installed".to_owned(), root: None, program: "perl".into(), modules: None }
    }

    /// Returns one that was fetched into a folder that is its root, `None` if it wasn't.
    pub(crate) fn fetched(name: &str, program: &str) -> Option<Interpreter> {
        let root = folder(name)?;
        let inside = root.join(&INSIDE[1..]);
        fs::create_dir_all(&inside).unwrap();
        for entry in fs::read_dir(PROGRAMS).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), inside.join(entry.file_name())).unwrap();
        }
        let name = if program == "perl" { name.to_owned() } else { format!("{name} {program}") };
        // The program for debugging searches elsewhere for the basic modules.
        let modules = Some("/usr/lib/x86_64-linux-gnu/perl-base".into());
        let program = Path::new("/usr/bin").join(program);
        Some(Interpreter { name, root: Some(root), program, modules })
    }

    /// Returns one that was built, `None` if it wasn't.
    pub(crate) fn built(name: &str) -> Option<Interpreter> {
        let folder = folder(name)?;
        let (program, modules) = (folder.join("perl"), Some(folder.join("lib")));
        Some(Interpreter { name: name.to_owned(), root: None, program, modules })
    }

    /// Returns a folder for the test's files, as the interpreter sees it.
    pub(crate) fn folder(&self) -> PathBuf {
        let name = format!("perl-{}", std::process::id());
        Path::new(if self.root.is_some() { INSIDE } else { env!("CARGO_TARGET_TMPDIR") }).join(name)
    }

    /// Returns the path of a file of the interpreter's root.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(inside)) => root.join(inside),
            _ => path.to_path_buf(),
        }
    }

    /// Returns the command that runs the chains.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(&[], "chains.pl", arguments)
    }

    /// Returns the command that runs one of the programs, with Perl's own options before it.
    pub(crate) fn program(&self, options: &[&str], program: &str, arguments: &[&str]) -> Command {
        let mut command = self.bare(options);
        command
            .arg(Path::new(if self.root.is_some() { INSIDE } else { PROGRAMS }).join(program))
            .args(arguments);
        command
    }

    /// Returns the command that runs the interpreter.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        self.seeing(&[], arguments)
    }

    /// Returns the command that runs the interpreter, which sees these folders.
    pub(crate) fn seeing(&self, folders: &[&Path], arguments: &[&str]) -> Command {
        let mut command = root::command(self.root.as_ref(), folders, &self.program);
        if let Some(modules) = &self.modules {
            command.arg("-I").arg(modules);
        }
        // A root has no locales, of which Perl warns.
        command.env("LC_ALL", "C").args(arguments);
        command
    }
}

fn folder(name: &str) -> Option<PathBuf> {
    fixtures().join("perl").join(name).canonicalize().ok()
}
