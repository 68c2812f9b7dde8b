//! Runs external tools.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program of a Debian package and returns its output.
pub(crate) fn run(package: &str, program: &str, arguments: &[&str]) -> String {
    run_with(package, program, arguments, "")
}

/// Runs a program with standard input and returns its output.
pub(crate) fn run_with(package: &str, program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {program}, install package {package}: {error}"));
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // The program prints while it reads, so both pipes have to be served.
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success(), "{program} {arguments:?} failed: {}", output.status);
    writer.join().expect("a writer").expect("all was read");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
