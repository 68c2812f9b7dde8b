//! Test programs: built by one run of cargo, then run one by one, each with its own time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::again::twice;
use crate::limit::{self, limited};
use crate::run::{Outcome, cargo, command, json, output, read, say, shown};
use crate::tally::exceeded;

/// A program that runs tests of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    /// Name of the crate's folder.
    pub(crate) package: String,
    /// Name of the target: that of the file in `tests`, or of the crate for its unit tests.
    pub(crate) name: String,
    /// Path of the program.
    file: PathBuf,
    /// Folder of the crate, in which tests run.
    folder: PathBuf,
}

/// Longest time of one program whose tests don't profile.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Programs that run at the same time.
const TOGETHER: usize = 2;

/// Builds the tests that these arguments of `cargo test` select, and returns their programs.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<Binary>, String> {
    let mut build = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    build.args(arguments).stderr(Stdio::inherit());
    eprintln!("+ {}", shown(&build));
    let messages = output(&mut build)?;
    let parsed: Result<Vec<Value>, String> = messages.lines().map(json).collect();
    Ok(parsed?.iter().filter_map(Binary::of).collect())
}

impl Binary {
    /// Reads cargo's message on something that it built; `None` if that runs no tests.
    fn of(message: &Value) -> Option<Binary> {
        if message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Binary {
            package: folder.file_name()?.to_string_lossy().into_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
            file: PathBuf::from(message["executable"].as_str()?),
            folder,
        })
    }

    /// Returns `true` if the program has tests that are marked as ignored, besides the skipped
    /// ones.
    pub(crate) fn has_ignored(&self, skipped: &[&str]) -> Result<bool, String> {
        let list = output(self.command(&["--list", "--format=terse", "--ignored"]).args(skips(skipped)))?;
        Ok(list.lines().any(|line| line.ends_with(": test")))
    }

    /// Copies the program, and returns where.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<PathBuf, String> {
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| error.to_string())?;
        fs::copy(&self.file, path).map_err(|error| format!("{}: {error}", self.file.display()))?;
        Ok(path.to_owned())
    }

    /// Returns a command that runs the program.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&[&self.file.to_string_lossy()]);
        command.args(arguments).current_dir(&self.folder);
        command
    }

    /// Runs the tests that are not marked as ignored, and returns the printed lines.
    fn run(&self) -> (Vec<String>, Outcome) {
        let mut lines = vec![format!("     Running {} {}", self.package, self.name)];
        let run = |selected: &[&str], see: &mut dyn FnMut(&str)| read(&mut self.command(selected), see);
        let done = limited(LIMIT, || twice(&[], run, &mut |line| lines.push(line.to_owned())));
        let named = |reason: String| match done.is_exceeded {
            true => format!("{} {}: {}", self.package, self.name, exceeded(LIMIT, &reason)),
            false => format!("{} {}: {reason}", self.package, self.name),
        };
        (lines, done.result.map_err(named))
    }
}

/// Runs the tests of all programs that are not marked as ignored, two programs at a time, and
/// passes their lines on.
pub(crate) fn run_all(binaries: &[Binary], see: impl FnMut(&str) + Send) -> Outcome {
    let (rest, see) = (Mutex::new(binaries.iter()), Mutex::new(see));
    let failed = Mutex::new(Vec::new());
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    let steps = limit::steps();
    let work = || {
        limit::enter(steps.clone());
        while let Some(binary) = next() {
            let (lines, outcome) = binary.run();
            let mut see = see.lock().unwrap_or_else(PoisonError::into_inner);
            for line in &lines {
                say(line);
                see(line);
            }
            failed.lock().unwrap_or_else(PoisonError::into_inner).extend(outcome.err());
        }
    };
    thread::scope(|scope| {
        for _ in 1..TOGETHER {
            scope.spawn(work);
        }
        work();
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Arguments by which a test runner skips tests with these words in their names.
pub(crate) fn skips<'s>(words: &[&'s str]) -> Vec<&'s str> {
    words.iter().flat_map(|word| ["--skip", word]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_and_runs_tests_of_a_crate() {
        let binaries = build(&["-p", "test-needs", "--lib"]).unwrap_or_default();
        let names: Vec<_> = binaries.iter().map(|binary| (&*binary.package, &*binary.name)).collect();
        assert_eq!(names, [("needs", "test_needs")]);
        assert_eq!(binaries[0].has_ignored(&[]), Ok(false));
        let lines = Mutex::new(Vec::new());
        let outcome = run_all(&binaries, |line| {
            lines.lock().map(|mut lines| lines.push(line.to_owned())).unwrap_or(())
        });
        assert_eq!(outcome, Ok(()));
        assert!(lines.into_inner().is_ok_and(|lines| lines.iter().any(|line| line.ends_with(" ... ok"))));
    }
}
