//! C programs to be profiled.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Compiles `programs/NAME.c` into `directory`, with frame pointers or without.
///
/// # Errors
///
/// When there is no gcc, or it fails.
pub fn build(name: &str, frame_pointers: bool, directory: &str) -> io::Result<PathBuf> {
    let (ending, flag) =
        if frame_pointers { ("fp", "-fno-omit-frame-pointer") } else { ("nofp", "-fomit-frame-pointer") };
    let source = format!("{}/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(directory).join(format!("{name}.{ending}"));
    // Leaf functions push no frame pointer of their own unless they are told to.
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

/// A program that runs until this is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Runs `spin` at a depth of calls, and gives it time to get there.
    ///
    /// # Errors
    ///
    /// When it can't be run.
    pub fn spin(program: &Path, depth: u32) -> io::Result<Running> {
        const LONG: &str = "100000";
        let child = Command::new(program).arg(depth.to_string()).arg(LONG).stdout(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(100));
        Ok(Running(child))
    }

    /// Runs `programs/spin.py` at a depth of calls, and gives it time to get there.
    ///
    /// # Errors
    ///
    /// When it can't be run.
    pub fn python(interpreter: &str, depth: u32) -> io::Result<Running> {
        let script = format!("{}/programs/spin.py", env!("CARGO_MANIFEST_DIR"));
        let arguments = [script, depth.to_string(), "100000".to_owned()];
        let child = Command::new(interpreter).args(arguments).spawn()?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(Running(child))
    }

    /// Stops it where it is.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets it run on.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the process is a child that wasn't waited for, so the id is still its own.
        unsafe { libc::kill(self.pid().cast_signed(), signal) };
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The ids of its threads.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()))?;
        Ok(tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
