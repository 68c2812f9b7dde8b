//! A program that is profiled from its start to its end.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ebpf_profiler_core::profile::Profile;

use live_suite::sampled::profiler;

use crate::function::Function;

/// Sampling frequency per CPU, in Hz.
pub(crate) const FREQUENCY: u32 = 997;

/// Runs a program, which a shell becomes as soon as the profiler has started. Returns its functions
/// and its profile.
pub(crate) fn run(command: Command) -> (Vec<Function>, Profile) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut program = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let profiler = profiler([program.id()], FREQUENCY);
    writeln!(program.stdin.take().unwrap()).unwrap();
    let output = program.wait_with_output().unwrap();
    let (profile, _) = profiler.finish().unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    (text.lines().filter_map(Function::parse).collect(), profile)
}
