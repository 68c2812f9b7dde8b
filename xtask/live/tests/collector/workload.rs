//! Programs to profile: one with the known chain main > l1 > spread > l2 > l3 > leaf, and others.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use live_suite::compile;

use crate::scratch::Scratch;

/// The running program; killed on drop.
pub(crate) struct Workload(Child, String);

impl Workload {
    pub(crate) fn start(scratch: &Scratch) -> Workload {
        let program = scratch.path("chain");
        compile::gcc(&compile::tests().join("programs/chain.c"), Path::new(&program), &["-O1"]);
        let child = Command::new(&program).arg("600").stdout(Stdio::null()).spawn().unwrap();
        Workload(child, program)
    }

    /// Starts a script, with any Python, and waits until it is ready.
    pub(crate) fn of_python(script: &str) -> Workload {
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Workload(child, script.to_owned())
    }

    /// Starts programs with a new stack at nearly each sample.
    pub(crate) fn of_many_stacks() -> Workload {
        // None of them waits for a disk.
        let script =
            "while :; do awk 'BEGIN { for (i = 0; i < 200000; i++) x = x i }'; ls -lR /proc/self; done";
        let child = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        Workload(child, "sh".to_owned())
    }

    /// Starts a program that spends most of its time in the kernel.
    pub(crate) fn of_system_calls() -> Workload {
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", "bs=1"]).stderr(Stdio::null());
        Workload(command.spawn().unwrap(), "dd".to_owned())
    }

    /// Deletes the program's file while it runs.
    pub(crate) fn delete(&self) {
        std::fs::remove_file(&self.1).unwrap();
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
