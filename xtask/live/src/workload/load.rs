//! Programs that keep the machine busy.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::compile;

/// Busy programs, killed on drop.
pub struct Load(Vec<Child>);

impl Load {
    /// Starts `count` programs that work for `seconds` at most, and a compiler that runs again and
    /// again if there are many.
    pub fn start(directory: &Path, count: usize, seconds: u32) -> Load {
        let program = directory.join("busy");
        compile::gcc(&compile::tests().join("programs/chain.c"), &program, &["-O2"]);
        let seconds = seconds.to_string();
        let mut children: Vec<Child> =
            (0..count).map(|_| start(Command::new(&program).arg(&seconds))).collect();
        if count > COMPILER_FROM_PROGRAMS {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/exceptions.cpp");
            let object = directory.join("busy.o").to_string_lossy().into_owned();
            let compile = format!("while :; do g++ -O2 -c {source} -o {object}; done");
            children.push(start(Command::new("timeout").args([&seconds, "sh", "-c", &compile])));
        }
        Load(children)
    }
}

/// Gives this thread, and the programs that it starts, the ordinary priority: the profiler's own is
/// compared with it.
pub fn make_ordinary() {
    let thread = std::fs::read_link("/proc/thread-self").expect("there is a thread");
    let id = thread.file_name().unwrap_or_default();
    let status = Command::new("renice").args(["-n", "0", "-p"]).arg(id).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the priority can't be set");
}

/// Number of programs beyond which a compiler runs, too.
const COMPILER_FROM_PROGRAMS: usize = 10;

fn start(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it can be run")
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout passes this signal on to what it runs.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}
