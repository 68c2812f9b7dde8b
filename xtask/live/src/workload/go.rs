//! Programs in Go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::tests;
use crate::paths::{fixtures, scratch};

/// Returns the folder of a version of Go that `cargo xtask fixtures go` has fetched; `None` if it
/// is missing, and the test is skipped.
pub fn fetched(version: &str) -> Option<PathBuf> {
    let go = fixtures().join(format!("go-{version}"));
    if !go.join("bin/go").exists() {
        test_needs::skip(&format!("no Go {version}: cargo xtask fixtures go"));
        return None;
    }
    Some(go.canonicalize().unwrap())
}

/// Returns the folder of the installed Go.
pub fn installed() -> PathBuf {
    let root = Command::new("go").args(["env", "GOROOT"]).env("GOTOOLCHAIN", "local").output().unwrap();
    String::from_utf8(root.stdout).unwrap().trim().into()
}

/// Builds a program of sources in `tests/programs`, stripped. A second one uses C.
pub fn build(go: &Path, name: &str, sources: &[&str], flags: &[&str]) -> PathBuf {
    let folder = folder();
    let program = folder.join(name);
    let programs = tests().join("programs");
    let mut command = Command::new(go.join("bin/go"));
    command.args(["build", "-ldflags=-s -w", "-o"]).arg(&program).args(flags);
    command.args(sources.iter().map(|source| programs.join(source)));
    let status = command
        .env("GOROOT", go)
        .env("GOCACHE", folder.join("cache"))
        .envs([("GOTOOLCHAIN", "local"), ("GO111MODULE", "off"), ("GOFLAGS", "")])
        .env("CGO_ENABLED", if sources.len() > 1 { "1" } else { "0" })
        .status()
        .unwrap();
    assert!(status.success(), "go build: {status}");
    program
}

/// Creates the folder of programs in Go.
pub fn folder() -> PathBuf {
    let folder = scratch().join("go");
    fs::create_dir_all(&folder).unwrap();
    folder
}
