//! Programs that tests need, and skipping of tests that lack one.
//!
//! ```no_run
//! #[test]
//! fn names_of_cpp() {
//!     test_needs::programs!("g++", "c++filt");
//!     // ... compiles and compares
//! }
//! ```
//!
//! On a machine without `g++` this test prints `skipped: names_of_cpp: no g++, of package g++` and
//! passes; `cargo xtask test` counts these lines. With the variable `CI` set it fails instead.

use std::env;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

mod table;

pub use table::{TOOLS, Tool};

/// Skips the test that it stands in, unless all of these programs are in `PATH`.
#[macro_export]
macro_rules! programs {
    ($($program:expr),+ $(,)?) => {
        if let Some(reason) = $crate::missing(&[$($program),+]) {
            return $crate::skip(&reason);
        }
    };
}

/// Skips the test that it stands in, unless it runs as root.
#[macro_export]
macro_rules! root {
    () => {
        if !$crate::is_root() {
            return $crate::skip("it needs root");
        }
    };
}

/// Skips the test that it stands in, unless a file is present.
#[macro_export]
macro_rules! file {
    ($path:expr, $remedy:expr) => {
        let path = $path;
        if !path.exists() {
            return $crate::skip(&format!("no {}; make it with: {}", path.display(), $remedy));
        }
    };
}

/// Prints why the current test has nothing to test.
///
/// # Panics
///
/// If the variable `CI` is set: there everything must be present.
pub fn skip(reason: &str) {
    let in_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!in_ci, "CI skips no test: {reason}");
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map_or(String::new(), |name| format!("{name}: "));
    // Not captured, unlike what `println!` prints in a test that passes.
    let _ = writeln!(std::io::stdout(), "skipped: {test}{reason}");
}

/// Returns a sentence on the first of these programs that is not in `PATH`.
pub fn missing(programs: &[&str]) -> Option<String> {
    let program = programs.iter().find(|program| find(program).is_none())?;
    let tool = TOOLS.iter().find(|tool| tool.program == *program);
    Some(match tool {
        Some(tool) => format!("no {program}, of package {}", tool.package),
        None => format!("no {program}"),
    })
}

/// Returns the path of an executable program in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let is_executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(is_executable)
}

/// Returns `true` if the current process runs as root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_package_of_missing_program() {
        assert_eq!(missing(&["sh", "ls"]), None);
        assert_eq!(missing(&["sh", "no-such-program"]).as_deref(), Some("no no-such-program"));
    }

    #[test]
    fn each_program_has_one_line() {
        for (at, tool) in TOOLS.iter().enumerate() {
            assert!(TOOLS[..at].iter().all(|other| other.program != tool.program), "{}", tool.program);
            assert!(!tool.package.is_empty() && !tool.purpose.is_empty());
        }
    }
}
