//! LuaJIT alone and in other programs, of `cargo xtask fixtures luajit`.

use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::fixtures;
use live_suite::root;

/// The folder of the programs.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/luajit/programs");

/// A program that runs scripts with LuaJIT.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Folder to use as root; `None` for the machine's own.
    root: Option<PathBuf>,
    program: PathBuf,
    options: Vec<PathBuf>,
}

impl Host {
    /// The interpreter of this machine, with options.
    pub(crate) fn installed(options: &[&str]) -> Host {
        let options = options.iter().map(PathBuf::from).collect();
        Host { root: None, program: "luajit".into(), options }
    }

    /// Returns the program with this name, `None` if it isn't there.
    pub(crate) fn find(name: &str) -> Option<Host> {
        let folder = fixtures().join("luajit").join(name).canonicalize().ok()?;
        let list = std::fs::read_to_string(folder.join("complete")).ok()?;
        let [root, program, option] = list.lines().collect::<Vec<_>>()[..] else { return None };
        let options = match option {
            "" => Vec::new(),
            "HOST" => vec![folder.join("host.py")],
            option => vec![option.into()],
        };
        // An absolute path stays as it is.
        let program = folder.join(program);
        Some(Host { root: (!root.is_empty()).then_some(folder), program, options })
    }

    /// Returns `true` if scripts can call LuaJIT's functions for C: those of a static library or a
    /// Python extension are hidden.
    pub(crate) fn exports_interface(&self) -> bool {
        self.root.is_some() || self.program == Path::new("luajit")
    }

    /// Adds an option.
    pub(crate) fn with(mut self, option: &str) -> Host {
        self.options.push(option.into());
        self
    }

    /// Returns a command that runs one of the programs.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.seeing(&[], program)
    }

    /// Returns a command that runs one of the programs, which sees these folders.
    pub(crate) fn seeing(&self, folders: &[&Path], program: &str) -> Command {
        let programs = Path::new(PROGRAMS);
        let mut command = root::command(self.root.as_ref(), &[folders, &[programs]].concat(), &self.program);
        command.args(&self.options).arg(programs.join(program));
        command
    }
}
