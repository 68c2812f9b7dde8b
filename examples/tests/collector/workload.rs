//! Programs to be profiled: one whose functions are known, main > l1 > spread > l2 > l3 > leaf, and some others.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use crate::scratch::Scratch;

/// The program while it runs; it ends with the value.
pub(crate) struct Workload(Child, String);

impl Workload {
    pub(crate) fn start(scratch: &Scratch) -> Workload {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/chain.c");
        let program = scratch.path("chain");
        assert!(Command::new("gcc").args(["-O1", "-o", &program, source]).status().unwrap().success());
        let child = Command::new(&program).arg("600").stdout(Stdio::null()).spawn().unwrap();
        Workload(child, program)
    }

    /// A script that says when it is ready, by whatever Python there is.
    pub(crate) fn of_python(script: &str) -> Workload {
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Workload(child, script.to_owned())
    }

    /// Programs that are elsewhere with each tick.
    pub(crate) fn of_many_stacks() -> Workload {
        // None of them waits for a disk.
        let script =
            "while :; do awk 'BEGIN { for (i = 0; i < 200000; i++) x = x i }'; ls -lR /proc/self; done";
        let child = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        Workload(child, "sh".to_owned())
    }

    /// A program that is in the kernel most of its time.
    pub(crate) fn of_system_calls() -> Workload {
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", "bs=1"]).stderr(Stdio::null());
        Workload(command.spawn().unwrap(), "dd".to_owned())
    }

    /// Takes its file away while it runs.
    pub(crate) fn delete(&self) {
        std::fs::remove_file(&self.1).unwrap();
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
