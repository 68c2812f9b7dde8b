//! C programs to profile.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Compiles `programs/NAME.c` into `directory`, with frame pointers or without.
///
/// # Errors
///
/// Fails without gcc, or if it does.
pub fn build(name: &str, frame_pointers: bool, directory: &str) -> io::Result<PathBuf> {
    let (ending, flag) =
        if frame_pointers { ("fp", "-fno-omit-frame-pointer") } else { ("nofp", "-fomit-frame-pointer") };
    let source = format!("{}/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(directory).join(format!("{name}.{ending}"));
    // By default leaf functions push no frame pointer.
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", flag, "-fno-optimize-sibling-calls", "-pthread", "-o"]).arg(&program).arg(source);
    if frame_pointers {
        gcc.arg("-mno-omit-leaf-frame-pointer");
    }
    match gcc.status()? {
        status if status.success() => Ok(program),
        status => Err(io::Error::other(format!("gcc: {status}"))),
    }
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts `spin` and waits until it is at a depth of `depth` calls.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn spin(program: &Path, depth: u32) -> io::Result<Running> {
        const LIFE_SECONDS: &str = "100000";
        let child =
            Command::new(program).arg(depth.to_string()).arg(LIFE_SECONDS).stdout(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(100));
        Ok(Running(child))
    }

    /// Starts a program and waits until it prints a line.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, or ends without a line.
    pub fn ready(command: &mut Command) -> io::Result<Running> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let running = Running(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::other(format!("{command:?} doesn't run")));
        }
        Ok(running)
    }

    /// Stops it by SIGSTOP.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Continues it by SIGCONT.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the process is a child that has not been waited for, so its id is not reused.
        unsafe { libc::kill(self.pid().cast_signed(), signal) };
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns the ids of its threads.
    ///
    /// # Errors
    ///
    /// Fails if it has exited.
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()))?;
        Ok(tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// Returns the id of the thread that has run for the longest time.
    ///
    /// # Errors
    ///
    /// Fails if it has exited.
    pub fn busiest_thread(&self) -> io::Result<u32> {
        let time = |tid: u32| -> u64 {
            let path = format!("/proc/{}/task/{tid}/schedstat", self.pid());
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or_default()
        };
        self.threads()?.into_iter().max_by_key(|&tid| time(tid)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
