//! Programs with .NET inside, of the releases that `cargo xtask fixtures dotnet` has fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use live_suite::paths::fixtures;
use live_suite::workload::csharp;

/// The program, as a hook.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dotnet/programs/chains.cs");

/// Number of types in the schemas: enough for half a minute.
const TYPES: u32 = 100_000;

/// Returns the command that compiles schemas, `None` if the compiler wasn't fetched.
pub(crate) fn schemas() -> Option<Command> {
    let program = fixtures().join("dotnet/8.0.15/package/tools/linux/x64/bebopc");
    let program = program.exists().then_some(program)?;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("types.bop");
    let of = |id| {
        format!(
            "enum Kind{id} {{ A = 1; B = 2; }}\nstruct Point{id} {{ int32 x; string name; array[string] tags; \
             Kind{id} kind; }}\nmessage Order{id} {{ 1 -> Point{id} at; 2 -> array[Point{id}] all; }}\n"
        )
    };
    fs::write(&path, (0..TYPES).map(of).collect::<String>()).unwrap();
    let mut command = Command::new(program);
    command
        .arg("--include")
        .arg(&path)
        .args(["build", "--no-emit", "--generator", "cs:out.cs"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    Some(command)
}

/// A release of .NET, within a program.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    program: PathBuf,
    /// The compiled hook.
    hook: PathBuf,
}

impl Release {
    /// Returns a release, `None` if it or the compiler wasn't fetched.
    pub(crate) fn fetched(name: &str) -> Option<Release> {
        let (program, hook) = csharp::hooked(name, Path::new(SOURCE))?;
        Some(Release { program, hook })
    }

    /// Returns the command that runs the chains.
    pub(crate) fn chains(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--help")
            .env("DOTNET_STARTUP_HOOKS", &self.hook)
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("DOTNET_TieredCompilation", "1");
        command
    }
}
