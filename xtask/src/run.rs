//! Running other programs.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The result of a task; the error is a sentence.
pub(crate) type Outcome = Result<(), String>;

/// Returns a command that runs in the root of the repository.
pub(crate) fn command(line: &[&str]) -> Command {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command; its output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    eprintln!("+ {}", shown(command));
    let status = command.status().map_err(|error| cannot(command, &error.to_string()))?;
    if status.success() { Ok(()) } else { Err(cannot(command, &status.to_string())) }
}

/// Runs a command and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| cannot(command, &error.to_string()))?;
    if !output.status.success() {
        return Err(cannot(command, &String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command; prints each line of its output and passes it to `see`.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Outcome {
    eprintln!("+ {}", shown(command));
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| cannot(command, &error.to_string()))?;
    let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).split(b'\n'));
    for line in lines.into_iter().flatten().map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // A closed terminal doesn't stop the task.
        let _ = writeln!(std::io::stdout(), "{line}");
        see(&line);
    }
    let status = child.wait().map_err(|error| cannot(command, &error.to_string()))?;
    if status.success() { Ok(()) } else { Err(cannot(command, &status.to_string())) }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder of fixtures: `fixtures` in the target directory.
///
/// With `XTASK_FIXTURES=FOLDER` it is created as a link to that folder, which several checkouts can share.
pub(crate) fn fixtures() -> PathBuf {
    let here = target().join("fixtures");
    if let Some(shared) = env::var_os("XTASK_FIXTURES").map(PathBuf::from)
        && !here.exists()
    {
        // Without the link everything is rebuilt.
        let _ = fs::create_dir_all(target());
        let _ = fs::create_dir_all(&shared);
        let _ = symlink(shared, &here);
    }
    here
}

/// Returns a command of the cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&[&[cargo.as_str()], arguments].concat())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let program = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    std::iter::once(program(&words[0])).chain(words[1..].iter().cloned()).collect::<Vec<_>>().join(" ")
}

fn cannot(command: &Command, why: &str) -> String {
    format!("{}: {}", shown(command), why.trim())
}
