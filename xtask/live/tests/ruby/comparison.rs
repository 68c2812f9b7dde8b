//! Comparison of sampled stacks with a written chain and a backtrace.

use std::collections::BTreeMap;
use std::fmt;

use crate::program::{Location, Running};
use crate::seen::{Seen, Stack};

/// A chain of `programs/chains.txt`.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) name: String,
    /// Names of its frames, root first.
    frames: Vec<String>,
}

/// Compared samples of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Number of samples before the chain spins, or before the first Ruby frame of the process: its
    /// runtime was not attached yet.
    early: u64,
    /// Wrong observations, with their number and the first stack.
    wrong: BTreeMap<String, (u64, String)>,
}

impl Expected {
    /// Reads all chains of a version: lines of a name, frames, separated by `;`, and the first
    /// version that has it, if not all do. `name*N` stands for N frames.
    pub(crate) fn all(version: &str) -> Vec<Expected> {
        let chain = |line: &str| {
            let mut parts = line.split('\t');
            let (name, frames) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if parts.next().is_some_and(|since| version < since) {
                return None;
            }
            let frames = frames.replace("n{1000}", &"n".repeat(1000));
            let frames = frames.split(';').flat_map(|frame| match frame.split_once(" * ") {
                Some((frame, count)) => vec![frame.to_owned(); count.parse().unwrap()],
                None => vec![frame.to_owned()],
            });
            Some(Expected { name: name.to_owned(), frames: frames.collect() })
        };
        let chains = [include_str!("programs/chains.txt"), include_str!("programs/kinds.txt")];
        chains.iter().flat_map(|lines| lines.lines()).filter_map(chain).collect()
    }

    /// Compares the stacks of a running chain.
    pub(crate) fn compare_all(&self, running: &Running, stacks: &[Stack]) -> Comparison {
        let mut comparison = Comparison::default();
        let own: Vec<&Stack> = stacks.iter().filter(|stack| stack.pid == running.pid()).collect();
        let native = native(&own);
        let known =
            own.iter().filter(|stack| stack.ruby().next().is_some()).flat_map(|stack| &stack.times).min();
        for stack in own {
            let is_early = stack.times.iter().all(|time| known.is_none_or(|known| time < known));
            if stack.ruby().next().is_none() && is_early && !stack.times.is_empty() {
                comparison.early += stack.count;
                continue;
            }
            // It was stopped while it printed.
            if stack.ruby().any(|seen| matches!(seen, Seen::Ruby { name, .. } if name == "Leaf.report")) {
                comparison.early += stack.count;
                continue;
            }
            // Another thread waits.
            if stack.ruby().next().is_none() && self.name == "thread" {
                continue;
            }
            comparison.add(stack, self.compare(stack, &running.backtrace, &native));
        }
        comparison
    }

    fn compare(&self, stack: &Stack, backtrace: &[Location], native: &str) -> Result<(), String> {
        if let Some(reason) = &stack.broken {
            return Err(format!("broken: {reason}"));
        }
        let mut names = Vec::new();
        let mut seen = Vec::new();
        for each in stack.ruby() {
            let Seen::Ruby { name, file, line, .. } = each else { continue };
            names.push(name.clone());
            seen.push(Location { label: name.clone(), path: file.clone(), line: *line });
        }
        if names != self.frames {
            let at = names.iter().zip(&self.frames).take_while(|(one, other)| one == other).count();
            let of = |list: &[String]| list.get(at).cloned().unwrap_or_default();
            return Err(format!("frame {at} is {:?}, not {:?}", of(&names), of(&self.frames)));
        }
        compare_backtrace(&seen, backtrace)?;
        match shape(stack) == native {
            true => Ok(()),
            false => Err("other native frames between Ruby frames than in most samples".to_owned()),
        }
    }
}

/// Compares frames with a backtrace: labels, lines, paths. The last frame is on any line of its
/// loop.
fn compare_backtrace(seen: &[Location], backtrace: &[Location]) -> Result<(), String> {
    let seen = without_callers_of_clauses(seen);
    let mut backtrace = without_callers_of_clauses(backtrace);
    // Methods in C that a fiber begins with: no loop leads to them.
    let of_fiber = backtrace.iter().take_while(|location| location.line == 0).count();
    backtrace.drain(..of_fiber.min(backtrace.len().saturating_sub(seen.len())));
    if seen.len() != backtrace.len() {
        return Err(format!("{} frames, and {} in the backtrace", seen.len(), backtrace.len()));
    }
    let last = seen.len().saturating_sub(1);
    for (at, (one, other)) in seen.iter().zip(&backtrace).enumerate() {
        let is_same = plain(&one.label) == plain(&other.label) || other.label.contains("<class:");
        if !is_same {
            return Err(format!("frame {at} is {}, and {} in the backtrace", one.label, other.label));
        }
        // Methods in C have no line; the library's own have those of their source, or of their callers.
        if one.path.is_empty() || one.path.starts_with("<internal:") {
            continue;
        }
        let is_near = one.line.wrapping_sub(other.line) <= 4;
        if one.path != other.path || (one.line != other.line && !(at == last && is_near)) {
            return Err(format!(
                "{} on {}:{}, and on {}:{} in the backtrace",
                one.label, one.path, one.line, other.path, other.line
            ));
        }
    }
    Ok(())
}

/// Leaves out the frames whose `rescue` or `ensure` clause runs, as backtraces of later versions
/// do.
fn without_callers_of_clauses(frames: &[Location]) -> Vec<Location> {
    let is_clause =
        |frame: &Location| ["rescue in ", "ensure in "].iter().any(|word| frame.label.starts_with(word));
    let mut kept: Vec<Location> = Vec::new();
    for frame in frames {
        if is_clause(frame) && kept.last().is_some_and(|last| plain(&last.label) == plain(&frame.label)) {
            kept.pop();
        }
        kept.push(frame.clone());
    }
    kept
}

/// Returns a name without class and clause: `block in Foo::Bar#baz` becomes `block in baz`.
fn plain(label: &str) -> String {
    let label = label.trim_start_matches("rescue in ").trim_start_matches("ensure in ");
    let (before, name) = label.rsplit_once(" in ").map_or(("", label), |(before, name)| (before, name));
    let name = if name.starts_with('<') { name } else { name.rsplit(['#', '.']).next().unwrap_or_default() };
    if before.is_empty() { name.to_owned() } else { format!("{before} in {name}") }
}

/// Returns the native frames between Ruby frames that most samples have.
fn native(stacks: &[&Stack]) -> String {
    let mut shapes: BTreeMap<String, u64> = BTreeMap::new();
    for stack in stacks.iter().filter(|stack| stack.ruby().next().is_some()) {
        *shapes.entry(shape(stack)).or_default() += stack.count;
    }
    shapes.into_iter().max_by_key(|(_, count)| *count).map(|(shape, _)| shape).unwrap_or_default()
}

/// Returns the stack up to the last Ruby frame, with native frames by their address and Ruby frames
/// by a mark.
fn shape(stack: &Stack) -> String {
    let last =
        stack.frames.iter().rposition(|seen| matches!(seen, Seen::Ruby { .. })).map_or(0, |last| last + 1);
    let mark = |seen: &Seen| match seen {
        Seen::Native { address, .. } => format!("{address:x};"),
        Seen::Ruby { .. } => "*;".to_owned(),
    };
    stack.frames[..last].iter().map(mark).collect()
}

impl Comparison {
    /// Counts a stack and its comparison.
    pub(crate) fn add(&mut self, stack: &Stack, compared: Result<(), String>) {
        self.samples += stack.count;
        match compared {
            Ok(()) => self.exact += stack.count,
            Err(wrong) => {
                let shown = || stack.frames.iter().map(Seen::to_string).collect::<Vec<_>>().join(";");
                self.wrong.entry(wrong).or_insert_with(|| (0, shown())).0 += stack.count;
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} exact, {} before", self.exact, self.samples, self.early)?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (reason, (count, stack)) in wrong.iter().take(4) {
            write!(f, "\n    {count:>5} x {reason}\n          {stack}")?;
        }
        Ok(())
    }
}

#[test]
fn names_are_compared_without_class() {
    assert_eq!(plain("block (2 levels) in Foo::Bar#baz"), "block (2 levels) in baz");
    assert_eq!(plain("Foo.qux"), "qux");
    assert_eq!(plain("rescue in Foo#bar"), "bar");
    assert_eq!(plain("block in <class:Inner>"), "block in <class:Inner>");
    assert_eq!(plain("<main>"), "<main>");
}
