//! Native frames, as gdb reports them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::interpreter::{Interpreter, Version};

/// One native frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NativeFrame {
    /// `None` without a symbol.
    pub(crate) name: Option<String>,
    /// File name without its directory; empty without a file.
    pub(crate) file: String,
    /// Virtual address in the file.
    pub(crate) address: u64,
}

/// Stacks, root first, by thread.
pub(crate) type Skeletons = BTreeMap<u32, Vec<NativeFrame>>;

/// Returns the stacks of all threads of these processes, which run one program.
pub(crate) fn ask(pids: &[u32], program: &Path, interpreter: &Interpreter) -> Skeletons {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-quiet", "-iex", "set debuginfod enabled off"]);
    // Reading the symbols of one interpreter takes seconds; they are read once.
    let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/gdb");
    command.args([
        "-iex",
        &format!("set index-cache directory {cache}"),
        "-iex",
        "set index-cache enabled on",
    ]);
    command.args(["-iex", "set auto-load off"]);
    if let Some(root) = &interpreter.root {
        command.args(["-iex", &format!("set sysroot {}", root.display())]);
    }
    if let Some(symbols) = &interpreter.symbols {
        command.args(["-iex", &format!("set debug-file-directory {}", symbols.display())]);
    }
    let output = command
        .arg("-x")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/skeleton.py"))
        .arg(program)
        .env("SKELETON_PIDS", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
        .env("SKELETON_PLACES", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth"))
        .output()
        .expect("gdb can't be run; it is in the package gdb");
    let stacks = parse(&String::from_utf8_lossy(&output.stdout));
    assert!(!stacks.is_empty(), "gdb saw no stack of {pids:?}: {}", String::from_utf8_lossy(&output.stderr));
    stacks
}

fn parse(text: &str) -> Skeletons {
    let mut stacks = Skeletons::new();
    let mut thread = None;
    for line in text.lines() {
        if let Some(tid) = line.strip_prefix("thread ").and_then(|tid| tid.parse().ok()) {
            thread = Some(tid);
        } else if let (Some(frame), Some(tid)) = (NativeFrame::parse(line), thread) {
            stacks.entry(tid).or_default().push(frame);
        }
    }
    stacks.values_mut().for_each(|stack| stack.reverse());
    stacks
}

impl NativeFrame {
    fn parse(line: &str) -> Option<NativeFrame> {
        let [name, file, address] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(NativeFrame {
            name: (name != "?").then(|| name.to_owned()),
            file: file.rsplit('/').next().unwrap_or_default().to_owned(),
            address: u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?,
        })
    }

    /// Returns `true` for a frame of the interpreter loop.
    pub(crate) fn is_loop(&self, version: Version) -> bool {
        self.name.as_deref().is_some_and(|name| is_loop(name, version))
    }
}

/// Returns `true` if a function is the interpreter loop. In newer versions the one of the older
/// name only calls it.
pub(crate) fn is_loop(name: &str, version: Version) -> bool {
    name.split(['.', ' ', '@']).next() == Some(LOOPS[usize::from(version.major > 2)])
}

/// Returns `true` if a function is the interpreter loop of any version.
pub(crate) fn is_loop_of_any(name: &str) -> bool {
    name.split(['.', ' ', '@']).next().is_some_and(|name| LOOPS.contains(&name))
}

/// Interpreter loops of CPython 2 and 3.
const LOOPS: [&str; 2] = ["PyEval_EvalFrameEx", "_PyEval_EvalFrameDefault"];

#[test]
fn stacks_are_read_root_first() {
    let text =
        "[debugging]\nthread 7\n_PyEval_EvalFrameDefault\t/a/b\t0x10\n?\t/a/b\t0x20\nthread 8\nx\t\t0x1\n";
    let stacks = parse(text);
    assert_eq!(stacks.len(), 2);
    assert_eq!(stacks[&7][0], NativeFrame { name: None, file: "b".into(), address: 0x20 });
    assert!(stacks[&7][1].is_loop(Version::parse("3.6").unwrap()));
    assert!(!stacks[&7][1].is_loop(Version::parse("2.7").unwrap()));
}
