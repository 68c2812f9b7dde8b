//! LuaJIT alone and in other programs, of `cargo xtask fixtures luajit`.

use std::path::{Path, PathBuf};
use std::process::Command;

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
        let fixtures = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
        let fixtures = std::env::var_os("XTASK_FIXTURES").map_or(fixtures, PathBuf::from);
        let folder = fixtures.join("luajit").join(name).canonicalize().ok()?;
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

    /// Adds an option.
    pub(crate) fn with(mut self, option: &str) -> Host {
        self.options.push(option.into());
        self
    }

    /// Returns a command that runs one of the programs.
    pub(crate) fn command(&self, program: &str) -> Command {
        let Some(root) = &self.root else {
            let mut command = Command::new(&self.program);
            command.args(&self.options).arg(Path::new(PROGRAMS).join(program));
            return command;
        };
        for file in std::fs::read_dir(PROGRAMS).unwrap().map_while(Result::ok) {
            std::fs::copy(file.path(), root.join("tmp").join(file.file_name())).unwrap();
        }
        let mut command = Command::new("chroot");
        command.arg(root).arg(&self.program).args(&self.options).arg(Path::new("/tmp").join(program));
        command
    }
}
