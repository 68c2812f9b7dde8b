//! Profiled jobs: benchmarks of pyperformance, and a program with a pool.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use benches::interpreter::Interpreter;

/// A job with a pool of processes; all others are benchmarks of pyperformance.
pub(crate) const POOL: &str = "pool";

/// Enters the interpreter's root, with devices, processes and benchmarks mounted.
const ENTER: &str = r#"
    mount --rbind /dev "$1/dev" && mount --types proc proc "$1/proc" && mount --types tmpfs jobs "$1/truth" &&
    mkdir "$1/truth/pyperformance" "$1/truth/programs" && mount --bind "$2" "$1/truth/pyperformance" &&
    mount --bind "$3" "$1/truth/programs" && root=$1 && shift 3 && exec chroot "$root" "$@""#;

/// A process that waits for a start signal, so that all of it is profiled.
const WAIT: &str = r#"read begin && exec "$@""#;

/// A process and its descendants, until it is dropped.
#[derive(Debug)]
pub(crate) struct Job(Child);

impl Job {
    /// Starts a process that will run the job repeatedly.
    pub(crate) fn prepare(interpreter: &Interpreter, job: &str) -> io::Result<Job> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let (here, ours) = (fixtures().join("pyperformance"), programs.clone());
        let is_own = interpreter.root.is_empty();
        let folder =
            |outside: PathBuf, name: &str| if is_own { outside } else { Path::new("/truth").join(name) };
        let (benchmarks, programs) = (folder(here.clone(), "pyperformance"), folder(programs, "programs"));
        let mut command = Command::new("sh");
        command.args(["-c", WAIT, "sh"]);
        if !is_own {
            command
                .args(["unshare", "--mount", "sh", "-c", ENTER, "sh", &interpreter.root])
                .arg(here)
                .arg(ours);
        }
        command.arg(&interpreter.program);
        if job == POOL {
            command.arg(programs.join("pool.py"));
        } else {
            let script = format!("pyperformance/data-files/benchmarks/bm_{job}/run_benchmark.py");
            command.arg(benchmarks.join(script));
            // One process that measures until it is killed.
            command.args(["--worker", "--loops=1", "--warmups=0", "--values=1000000"]);
        }
        command.env("PYTHONPATH", benchmarks).env("PYTHONDONTWRITEBYTECODE", "1").env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn().map(Job)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.0.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(b"\n"))
    }

    /// Returns `true` while it runs.
    pub(crate) fn is_running(&mut self) -> io::Result<bool> {
        self.0.try_wait().map(|ended| ended.is_none())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the call has no preconditions. The group is that of a child that has not been waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// Returns the folder of the fixtures of `cargo xtask`.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures")
}
