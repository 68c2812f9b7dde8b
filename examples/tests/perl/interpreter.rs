//! Interpreters: the installed one, and those that `cargo xtask fixtures perl` has fetched.

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The workload, as programs of the machine's root see it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perl/programs/chains.pl");

/// The same within the root of an interpreter.
const INSIDE: &str = "/truth/chains.pl";

/// Enters the interpreter's root, with the devices and the processes of the machine.
const ENTER: &str =
    r#"mount --rbind /dev "$0/dev" && mount --types proc proc "$0/proc" && exec chroot "$0" "$@""#;

impl Interpreter {
    /// Returns the `perl` in `PATH`.
    pub(crate) fn installed() -> Interpreter {
        Interpreter { name: "installed".to_owned(), root: None, program: "perl".into(), modules: None }
    }

    /// Returns one that was fetched into a folder that is its root, `None` if it wasn't.
    pub(crate) fn fetched(name: &str) -> Option<Interpreter> {
        let root = folder(name)?;
        let inside = root.join(&INSIDE[1..]);
        std::fs::create_dir_all(inside.parent()?).unwrap();
        std::fs::copy(PROGRAM, inside).unwrap();
        let program = "/usr/bin/perl".into();
        Some(Interpreter { name: name.to_owned(), root: Some(root), program, modules: None })
    }

    /// Returns one that was built, `None` if it wasn't.
    pub(crate) fn built(name: &str) -> Option<Interpreter> {
        let folder = folder(name)?;
        let (program, modules) = (folder.join("perl"), Some(folder.join("lib")));
        Some(Interpreter { name: name.to_owned(), root: None, program, modules })
    }

    /// Returns the command that runs the workload.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (mut command, workload) = match &self.root {
            None => (Command::new(&self.program), PROGRAM),
            Some(root) => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", ENTER]).arg(root).arg(&self.program);
                (command, INSIDE)
            }
        };
        if let Some(modules) = &self.modules {
            command.arg("-I").arg(modules);
        }
        // A root has no locales, of which Perl warns.
        command.env("LC_ALL", "C").arg(workload).args(arguments);
        command
    }
}

fn folder(name: &str) -> Option<PathBuf> {
    let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures/perl");
    fixtures.join(name).canonicalize().ok()
}
