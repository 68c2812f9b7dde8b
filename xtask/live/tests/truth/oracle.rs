//! Stacks of a running program, as gdb reports them.

use std::path::Path;
use std::process::Command;

use crate::compare::Expected;
use live_suite::comparison::name::plain;

/// Stacks reported by gdb, root first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Stacks of the chain.
    pub(crate) stacks: Vec<Vec<Expected>>,
    /// Stacks on the way to the clock, each with the number of its frames that are the chain.
    pub(crate) clocks: Vec<(usize, Vec<Expected>)>,
}

/// Observations besides the stacks of all threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Question {
    /// Number of instructions to step; the stack of one thread is taken after each.
    pub(crate) steps: u32,
    /// Function at whose next call the stack is taken.
    pub(crate) stop: &'static str,
    /// Functions with frame pointers and without unwind data.
    pub(crate) frame_pointers: &'static str,
}

/// Asks gdb about the process `pid`; `symbols` is its program with symbols, which may differ from
/// the file that runs.
pub(crate) fn ask(pid: u32, symbols: &Path, question: Question) -> Seen {
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-quiet", "-iex", "set debuginfod enabled off", "-p", &pid.to_string(), "-x"])
        .arg(script())
        .arg(symbols)
        .env("ORACLE_PLACES", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth"))
        .env("ORACLE_STEPS", question.steps.to_string())
        .env("ORACLE_STOP", question.stop)
        .env("ORACLE_FRAME_POINTERS", question.frame_pointers)
        .output()
        .expect("gdb can't be run; it is in the package gdb");
    let text = String::from_utf8_lossy(&output.stdout);
    let seen = parse(&text);
    let error = String::from_utf8_lossy(&output.stderr);
    let enough = !seen.stacks.is_empty() && !seen.clocks.is_empty();
    assert!(enough, "gdb saw no stack of {}: {text}\n{error}", symbols.display());
    seen
}

fn script() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth/oracle.py"))
}

/// Parses the script's output, and skips gdb's own lines before it.
fn parse(text: &str) -> Seen {
    let mut seen = Seen::default();
    let mut of_clock = false;
    for line in text.lines() {
        let least = line.strip_prefix("clock ").and_then(|number| number.parse().ok());
        if line == "stack" {
            of_clock = false;
            seen.stacks.push(Vec::new());
        } else if let Some(least) = least {
            of_clock = true;
            seen.clocks.push((least, Vec::new()));
        } else if let Some(frame) = parse_frame(line) {
            let clock = seen.clocks.last_mut().map(|(_, stack)| stack).filter(|_| of_clock);
            if let Some(stack) = clock.or(seen.stacks.last_mut()) {
                stack.insert(0, frame);
            }
        }
    }
    seen
}

fn parse_frame(line: &str) -> Option<Expected> {
    let mut parts = line.split('\t');
    let (name, file, address) = (parts.next()?, parts.next()?, parts.next()?);
    let inlined = name.starts_with("inline ");
    let name = name.strip_prefix("inline ").unwrap_or(name);
    let file = file.strip_suffix(" (deleted)").unwrap_or(file);
    Some(Expected {
        name: match name {
            "?" => None,
            "<signal>" => Some(name.to_owned()),
            _ => Some(plain(name)),
        },
        file: file.rsplit('/').next().unwrap_or_default().to_owned(),
        address: u64::from_str_radix(address.strip_prefix("0x")?, 16).ok(),
        inlined,
    })
}

#[test]
fn stacks_are_read_root_first() {
    let text = "[Thread debugging]\nstack\nleaf(int)\t/a/b\t0x10\n?\t\t0x7f00\nmain\t/a/b\t0x20\nclock 5\ny\t/l\t0x1\nstack\nx\t/l (deleted)\t0x1\n";
    let Seen { stacks, clocks } = parse(text);
    assert_eq!((stacks.len(), clocks.len()), (2, 1));
    assert_eq!((clocks[0].0, clocks[0].1.len()), (5, 1));
    let names: Vec<_> = stacks[0].iter().map(|frame| frame.name.as_deref()).collect();
    assert_eq!(names, [Some("main"), None, Some("leaf")]);
    assert_eq!(stacks[0][0].address, Some(0x20));
    assert_eq!(stacks[0][1].file, "");
    assert_eq!(stacks[1][0].file, "l");
}
