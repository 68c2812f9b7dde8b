//! Programs with .NET inside, of the releases that `cargo xtask fixtures dotnet` has fetched.

use std::path::{Path, PathBuf};
use std::process::Command;

use live_suite::workload::csharp;

/// The program, as a hook.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dotnet/programs/chains.cs");

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
