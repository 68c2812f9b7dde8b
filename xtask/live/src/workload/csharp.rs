//! Programs in C# that run as hooks of other programs, which have .NET inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths::{fixtures, scratch};

/// Programs in the package of a release.
const PROGRAMS: &[&str] = &["azmcp", "dist/azmcp", "plugins/dosai/dosai-linux-amd64"];

/// Assemblies that a hook refers to: with these names in all versions.
const REFERENCES: &str = "packs/Microsoft.NETCore.App.Ref/3.1.0/ref/netcoreapp3.1";

/// Returns the program of a release, and a source file compiled as its hook; `None` if it or the
/// compiler wasn't fetched.
pub fn hooked(release: &str, source: &Path) -> Option<(PathBuf, PathBuf)> {
    let folder = fixtures().join("dotnet");
    let package = folder.join(release).join("package");
    let program = PROGRAMS.iter().map(|path| package.join(path)).find(|path| path.exists())?;
    Some((program.canonicalize().unwrap(), compiled(&folder.join("compiler"), source)?))
}

/// Compiles a file; returns the path of the assembly, `None` without a compiler.
fn compiled(compiler: &Path, source: &Path) -> Option<PathBuf> {
    let folder = compiler.canonicalize().ok()?;
    let sdk = folder.join("package");
    let entries = fs::read_dir(sdk.join("sdk")).ok()?;
    let version =
        entries.filter_map(|entry| entry.ok()).map(|entry| entry.path()).find(|path| path.is_dir())?;
    let output = scratch().join(source.with_extension("dll").file_name()?);
    let mut command = Command::new(sdk.join("dotnet"));
    command
        .arg(version.join("Roslyn/bincore/csc.dll"))
        .args(["-nologo", "-target:library", "-optimize+", "-unsafe+", "-debug-", "-langversion:8"])
        .arg(format!("-out:{}", output.display()));
    for entry in fs::read_dir(sdk.join(REFERENCES)).ok()?.filter_map(Result::ok) {
        if entry.path().extension().is_some_and(|extension| extension == "dll") {
            command.arg(format!("-reference:{}", entry.path().display()));
        }
    }
    command
        .arg(source)
        .env("LD_LIBRARY_PATH", folder.join("usr/lib/x86_64-linux-gnu"))
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    let result = command.output().unwrap();
    let printed = String::from_utf8_lossy(&result.stdout);
    assert!(result.status.success(), "{command:?}: {printed}");
    Some(output)
}
