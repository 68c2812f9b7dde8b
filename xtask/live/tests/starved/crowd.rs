//! Busy programs, each in a session of its own.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
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
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        Crowd(programs.iter().cycle().take(count).map(start).collect())
    }

    /// Waits until each program has said that it works: none is still being loaded, which takes
    /// CPython some 200 ms of CPU time, and here a hundred times that.
    pub(crate) fn wait_until_all_work(&mut self) {
        let (send, works) = channel();
        for child in &mut self.0 {
            let (mut output, send) = (child.stdout.take().unwrap(), send.clone());
            std::thread::spawn(move || {
                let mut line = [0; 6];
                let is_read = output.read_exact(&mut line).is_ok();
                send.send(is_read && &line == b"works\n")
            });
        }
        let end = Instant::now() + Duration::from_secs(60);
        for _ in &self.0 {
            let left = end.saturating_duration_since(Instant::now());
            assert_eq!(works.recv_timeout(left), Ok(true), "programs don't start to work");
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
