//! Busy programs, each in a session of its own.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Interpreters and their programs. Each runs `inner`, called by `middle`.
const PROGRAMS: [(&str, &str); 6] = [
    ("node", "busy.js"),
    ("perl", "busy.pl"),
    ("php", "busy.php"),
    ("python3", "busy.py"),
    ("ruby", "busy.rb"),
    ("luajit", "busy.lua"),
];

/// Clock ticks of `/proc/PID/stat` in a second.
const TICKS: f64 = 100.0;

/// Programs that end by themselves, and are killed on drop.
pub(crate) struct Crowd(Vec<Child>);

impl Crowd {
    /// Starts `count` programs that work for `life` at most.
    pub(crate) fn start(count: usize, life: Duration) -> Crowd {
        let programs: Vec<_> = PROGRAMS
            .into_iter()
            .filter(|(interpreter, _)| test_needs::missing(&[interpreter]).is_none())
            .collect();
        let start = |(interpreter, program): &(&str, &str)| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/starved/programs");
            let mut command = Command::new("setsid");
            command.arg(interpreter).arg(PathBuf::from(folder).join(program)).arg(life.as_secs().to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        Crowd(programs.iter().cycle().take(count).map(start).collect())
    }

    /// Waits until each program has worked for some time: none is still being loaded.
    pub(crate) fn wait_until_all_work(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.0.iter().any(|child| cpu_time(child.id()) < 0.1) {
            assert!(Instant::now() < end, "programs don't start to work");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn has(&self, pid: u32) -> bool {
        self.0.iter().any(|child| child.id() == pid)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Returns the CPU time of a process, in seconds.
fn cpu_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let field =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (field(11) + field(12)) / TICKS
}
