//! Runs other programs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program of a Debian package and gives what it prints.
pub(crate) fn run(package: &str, program: &str, arguments: &[&str]) -> String {
    run_with(package, program, arguments, "")
}

/// The same, with something to read.
pub(crate) fn run_with(package: &str, program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {program}, install package {package}: {error}"));
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // It prints while it reads, so both sides have to go on.
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success(), "{program} {arguments:?} failed: {}", output.status);
    writer.join().expect("a writer").expect("all was read");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a path is called in arguments.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
