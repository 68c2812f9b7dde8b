//! The pyperformance benchmarks, which `benches/pyperformance` profiles.

use std::fs;

use crate::run::{Outcome, command, fixtures, run};

/// The benchmarks, their runner, and the packages that they import. Dependencies are not resolved,
/// so that all machines have the same. psutil has one file for all versions of Python.
const PACKAGES: &[&str] = &[
    "pyperformance==1.11.0",
    "pyperf==2.10.0",
    "psutil==7.2.2",
    "pyaes==1.6.1",
    "html5lib==1.1",
    "six==1.16.0",
    "webencodings==0.5.1",
    "docutils==0.18.1",
];

/// Installs them into `target/fixtures/pyperformance`, for interpreters that have it in their
/// module path.
pub(super) fn fetch() -> Outcome {
    let folder = fixtures().join("pyperformance");
    let complete = folder.join("complete");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&complete).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    // Left behind by an interrupted attempt or another version.
    let _ = fs::remove_dir_all(&folder);
    let install = ["python3", "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"];
    run(command(&install).arg(&folder).args(PACKAGES))?;
    fs::write(&complete, wanted).map_err(|error| format!("{}: {error}", complete.display()))
}
