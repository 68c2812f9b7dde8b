//! The emulated machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixtures::Architecture;
use crate::run::{Outcome, command};

/// Prints the output of a guest that boots a version of Linux, and fails unless the program in it
/// succeeded.
pub(super) fn run(version: &str, mut machine: Machine, limit: Duration) -> Outcome {
    let start = Instant::now();
    let mut ended = None;
    while let Some(line) = machine.line(limit.saturating_sub(start.elapsed()))? {
        eprintln!("  Linux {version:<4} | {}", shown(&line));
        ended = ended.or_else(|| status(&line));
    }
    eprintln!("  Linux {version:<4} | {:.1} s", start.elapsed().as_secs_f64());
    match ended {
        Some(0) => Ok(()),
        Some(status) => Err(format!("the program ended with {status}")),
        None => Err("the machine stopped before the program ended".to_owned()),
    }
}

/// A QEMU process, killed on drop.
pub(super) struct Machine {
    child: Child,
    lines: Receiver<String>,
}

impl Machine {
    /// Starts a machine with these processors, whose kernel gets further parameters.
    pub(super) fn start(
        architecture: Architecture,
        image: &Path,
        archive: &Path,
        processors: &str,
        parameters: &[String],
    ) -> Result<Machine, String> {
        let (program, package, options, own) = match architecture {
            Architecture::Amd64 => ("qemu-system-x86_64", "qemu-system-x86", AMD64, AMD64_PARAMETERS),
            Architecture::Arm64 => ("qemu-system-aarch64", "qemu-system-arm", ARM64, ARM64_PARAMETERS),
        };
        let parameters = [&[own.to_owned()], parameters].concat().join(" ");
        let mut child = command(&[program])
            .args(QEMU)
            .args(options)
            .args(["-smp", processors, "-append", &parameters])
            .arg("-kernel")
            .arg(image)
            .arg("-initrd")
            .arg(archive)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}; it is in the package {package}"))?;
        let (sender, lines) = mpsc::channel();
        let serial = child.stdout.take().map(BufReader::new);
        thread::spawn(move || {
            for line in serial.into_iter().flat_map(|serial| serial.split(b'\n')).map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Machine { child, lines })
    }

    /// Returns the next line; `None` at the end.
    fn line(&mut self, limit: Duration) -> Result<Option<String>, String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err("the machine exceeded its time limit".to_owned()),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No devices; stops on a panic and at the end of init.
const QEMU: &[&str] = &["-m", "1024", "-nographic", "-no-reboot", "-nic", "none"];

/// On two threads, kernels of x86_64 that replace instructions another processor runs panic or hang now and then.
const AMD64: &[&str] = &["-accel", "tcg,thread=single", "-cpu", "max"];

/// A fast cipher signs addresses: the architecture's own takes most of the time, emulated.
const ARM64: &[&str] = &["-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on"];

/// Parameters of the kernel. On a busy host the emulated timer is late, and the kernel would report it as broken.
const AMD64_PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check";
const ARM64_PARAMETERS: &str = "console=ttyAMA0 quiet panic=-1";

/// Removes control sequences that the firmware sends to terminals.
fn shown(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts
        .map(|part| part.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default());
    rest.fold(first, |shown, part| shown + part)
}

/// Returns the exit status in init's last line.
fn status(line: &str) -> Option<i32> {
    line.split_once("guest: ended with ")?.1.trim().parse().ok()
}

#[test]
fn removes_control_sequences() {
    assert_eq!(shown("\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mSeaBIOS"), "SeaBIOS");
    assert_eq!(shown("142 ready"), "142 ready");
}

#[test]
fn reads_exit_status_from_last_line() {
    assert_eq!(status("guest: ended with 0"), Some(0));
    assert_eq!(status("[    1.2] guest: ended with 137"), Some(137));
    assert_eq!(status("guest: Linux 6.1.0"), None);
}
