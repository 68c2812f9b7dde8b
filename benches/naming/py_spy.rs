//! py-spy, which reads stacks and names of another process with every sample.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use benches::usage;

/// The program fetched by `cargo xtask pythons packages`.
pub(crate) struct PySpy(PathBuf);

impl PySpy {
    /// Returns its path in the fixtures; `None` if it is missing.
    pub(crate) fn find(fixtures: &Path) -> Option<PySpy> {
        let folders = fs::read_dir(fixtures.join("py-spy")).ok()?;
        let mut programs = folders.filter_map(|folder| Some(folder.ok()?.path().join("scripts/py-spy")));
        programs.find(|program| program.exists()).map(PySpy)
    }

    /// Returns the CPU time of one sample of a running process.
    pub(crate) fn dump(&self, pid: u32) -> io::Result<Duration> {
        let mut command = Command::new(&self.0);
        command.args(["dump", "--nonblocking", "--pid", &pid.to_string()]);
        usage::wait(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// Returns the CPU time of one second of samples, and their number.
    pub(crate) fn record(&self, pid: u32, directory: &str) -> io::Result<(Duration, u64)> {
        let output = Path::new(directory).join(format!("py-spy.{pid}"));
        let mut command = Command::new(&self.0);
        command.args(["record", "--nonblocking", "--idle", "--rate", "20", "--duration", "1"]);
        command.args(["--format", "raw", "--pid", &pid.to_string(), "--output"]).arg(&output);
        let cpu = usage::wait(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)?;
        let folded = fs::read_to_string(&output)?;
        fs::remove_file(&output)?;
        let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
        Ok((cpu, folded.lines().filter_map(count).sum()))
    }
}
