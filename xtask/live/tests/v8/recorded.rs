//! Programs that Node.js samples itself, by `--cpu-prof`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebpf_profiler_core::profile::Profile;

use live_suite::sampled::{FREQUENCY, profiler};

use crate::Node;

/// Flags by which TurboFan inlines nothing: before 25, `--cpu-prof` shows the innermost of inlined
/// functions as their caller.
pub(crate) const SEPARATE: &[&str] = &["--no-turbo-inlining"];

/// Time from the start of the profiler to the samples that count.
const WARM_UP: Duration = Duration::from_secs(1);

/// A program under `--cpu-prof`, which is killed with this.
pub(crate) struct Recorded<'n> {
    node: &'n Node,
    child: Child,
    /// First microsecond of the samples that count.
    begin: String,
    file: PathBuf,
}

impl<'n> Recorded<'n> {
    /// Starts a program and waits until it is compiled.
    pub(crate) fn start(node: &'n Node, flags: &[&str], program: &str) -> Recorded<'n> {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("node-{}.cpuprofile", node.name));
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(&node.program);
        command.arg("--cpu-prof").arg("--cpu-prof-dir").arg(file.parent().unwrap());
        command.arg("--cpu-prof-name").arg(file.file_name().unwrap()).args(flags).arg(program);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let begin = line.trim().strip_prefix("ready ").unwrap().to_owned();
        Recorded { node, child, begin, file }
    }

    /// Profiles the program.
    pub(crate) fn profile(&self, duration: Duration) -> Profile {
        let profiler = profiler([self.child.id()], FREQUENCY);
        std::thread::sleep(WARM_UP);
        drop(profiler.take_profile().unwrap_or_else(|error| panic!("{error}")));
        std::thread::sleep(duration);
        profiler.take_profile().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Ends the program and returns the output of a script that reads its file: `FILE BEGIN
    /// ARGUMENT...`.
    pub(crate) fn read(mut self, script: &str, arguments: &[&str]) -> String {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(self.child.wait().unwrap().success());
        let mut read = Command::new(&self.node.program);
        let output = read.arg(script).arg(&self.file).arg(&self.begin).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
