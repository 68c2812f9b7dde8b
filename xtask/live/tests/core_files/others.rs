//! Stacks of the same core file by eu-stack and gdb.

use std::collections::BTreeMap;
use std::process::Command;

use live_suite::workload::dump::Dump;

/// One frame: the program counter and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) pc: u64,
    pub(crate) name: String,
}

/// Stacks by thread.
pub(crate) type Stacks = BTreeMap<u32, Vec<Line>>;

/// Runs eu-stack and parses lines like `TID 4711:` and `#0  0x00007f9524373bd3 wait4`.
pub(crate) fn eu_stack(dump: &Dump) -> Stacks {
    let mut command = Command::new("eu-stack");
    command.args(["-n", "0", "--core"]).arg(&dump.core).arg("-e").arg(&dump.program);
    let text = output(&mut command);
    let mut reader = Reader::default();
    for line in text.lines() {
        if let Some(thread) = line.strip_prefix("TID ") {
            reader.thread(thread.trim_end_matches(':'));
        } else if let Some((_, frame)) = line.strip_prefix('#').and_then(|line| line.split_once("0x")) {
            reader.frame(frame);
        }
    }
    reader.stacks
}

/// Runs gdb with `frames.py` and parses its output.
pub(crate) fn gdb(dump: &Dump) -> Stacks {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core_files/frames.py");
    let mut command = Command::new("gdb");
    command.args(["-q", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]);
    command.arg(&dump.program).arg(&dump.core).args(["-x", script]);
    let text = output(&mut command);
    let mut reader = Reader::default();
    let frames = text.lines().skip_while(|line| !line.starts_with("thread "));
    for line in frames.filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("thread ") {
            Some(thread) => reader.thread(thread),
            None => reader.frame(line),
        }
    }
    reader.stacks
}

/// Returns the output; both tools exit with status 1 after partial failures, too.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| unreachable!("{command:?}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[derive(Default)]
struct Reader {
    stacks: Stacks,
    thread: u32,
}

impl Reader {
    fn thread(&mut self, id: &str) {
        self.thread = id.parse().unwrap();
        self.stacks.insert(self.thread, Vec::new());
    }

    fn frame(&mut self, line: &str) {
        let (pc, name) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(pc) = u64::from_str_radix(pc, 16) else { return };
        let frame = Line { pc, name: name.to_owned() };
        self.stacks.entry(self.thread).or_default().push(frame);
    }
}
