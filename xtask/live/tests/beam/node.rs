//! Erlang nodes, of the releases that `cargo xtask fixtures beam` has fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::paths::fixtures;
use live_suite::root;

/// The programs, as those of the machine's root see them.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beam/programs");

/// The same within the root of a release.
const INSIDE: &str = "/truth";

/// The folder of Erlang in its root.
const ERLANG: &str = "/usr/lib/erlang";

/// Code of Elixir in its root, for Erlang's code path.
const ELIXIR: &[&str] = &["elixir", "logger", "eex", "ex_unit"];

/// A release of Erlang, with Elixir.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    root: PathBuf,
    /// Folder of its programs.
    programs: String,
}

impl Release {
    /// Returns a release, `None` if it wasn't fetched.
    pub(crate) fn fetched(name: &str) -> Option<Release> {
        let root = fixtures().join("beam").join(name).canonicalize().ok()?;
        let folders = fs::read_dir(root.join(&ERLANG[1..])).ok()?;
        let mut names = folders.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let system = names.find(|name| name.starts_with("erts-"))?;
        let inside = root.join(&INSIDE[1..]);
        fs::create_dir_all(&inside).unwrap();
        for entry in fs::read_dir(PROGRAMS).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), inside.join(entry.file_name())).unwrap();
        }
        Some(Release { root, programs: format!("{ERLANG}/{system}/bin") })
    }

    /// Returns the command that evaluates an expression in Erlang.
    pub(crate) fn evaluate(&self, options: &[&str], expression: &str) -> Command {
        let mut command = self.bare();
        command.args(options).args(["-noshell", "-eval", expression]);
        command
    }

    /// Returns the command that loads one of the programs and calls a function of it.
    pub(crate) fn erlang(&self, options: &[&str], module: &str, function: &str) -> Command {
        let expression = format!(
            "{{ok, M, Code}} = compile:file(\"{INSIDE}/{module}\", [binary]), \
             {{module, M}} = code:load_binary(M, \"{module}.beam\", Code), M:{function}()."
        );
        self.evaluate(options, &expression)
    }

    /// Returns the command that runs one of the programs in Elixir.
    pub(crate) fn elixir(&self, program: &str) -> Command {
        let mut command = self.bare();
        for name in ELIXIR {
            command.arg("-pa").arg(format!("/usr/lib/elixir/lib/{name}/ebin"));
        }
        command.args(["-noshell", "-elixir_root", "/usr/lib/elixir/lib", "-s", "elixir", "start_cli"]);
        command.args(["-extra", &format!("{INSIDE}/{program}")]);
        command
    }

    fn bare(&self) -> Command {
        let program = Path::new(&self.programs).join("erlexec");
        let mut command = root::command(Some(&self.root), &[], &program);
        command
            .envs([("ROOTDIR", ERLANG), ("BINDIR", &self.programs), ("EMU", "beam"), ("PROGNAME", "erl")])
            .envs([("HOME", "/tmp"), ("LANG", "C.UTF-8")]);
        command
    }
}
