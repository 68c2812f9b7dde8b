//! Comparison of sampled stacks with the expected ones.

use std::collections::BTreeMap;
use std::fmt;

use crate::expected::{Call, Expected};
use crate::interpreter::Version;
use crate::seen::{Seen, Stack};
use crate::skeleton::is_loop;
use live_suite::comparison::name::{plain, same};

/// Expected stacks of a process.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) version: Version,
    /// Stacks by thread; an entry for thread 0 applies to all threads without one.
    pub(crate) threads: BTreeMap<u32, Vec<Expected>>,
    /// Accepts the root side of the expected stack as well, for programs that call and return all
    /// the time. At least one Python frame is required.
    pub(crate) moves: bool,
}

/// Compared samples of a workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Samples, of all, that end in the leaf: a program with `moves` has to show some.
    pub(crate) complete: u64,
    /// Samples, of all, without any Python frame.
    pub(crate) without_python: u64,
    /// Further samples, in which a page was being copied after a fork: it is not mapped meanwhile.
    pub(crate) copying: u64,
    /// Samples, of those without, before the first Python frame of their process: its runtime was
    /// not attached yet.
    pub(crate) early: u64,
    /// Wrong observations, with their number and the first stack.
    pub(crate) wrong: BTreeMap<String, (u64, Stack)>,
}

impl Rules {
    /// Compares all stacks.
    pub(crate) fn compare_all(&self, stacks: &[Stack]) -> Comparison {
        let mut comparison = Comparison::default();
        let known = known_since(stacks);
        for stack in stacks {
            let stack = &without_library_of_fork(stack);
            let compared = self.compare(stack);
            if self.moves && compared.is_err() && stack.kernel.iter().any(|name| name == COPY) {
                comparison.copying += stack.count;
                continue;
            }
            comparison.samples += stack.count;
            if !stack.has_python() {
                let known = known.get(&stack.pid).copied().unwrap_or(u64::MAX);
                comparison.without_python += stack.count;
                comparison.early += stack.times.iter().filter(|&&time| time < known).count() as u64;
            }
            match compared {
                Ok(is_complete) => {
                    comparison.exact += stack.count;
                    comparison.complete += if is_complete { stack.count } else { 0 };
                }
                Err(wrong) => {
                    let entry = comparison.wrong.entry(wrong).or_insert_with(|| (0, stack.clone()));
                    entry.0 += stack.count;
                }
            }
        }
        comparison
    }

    /// Returns `true` if an exact stack ends in the leaf, `false` if before it. Fails with the
    /// difference.
    fn compare(&self, stack: &Stack) -> Result<bool, String> {
        if stack.frames.is_empty()
            && self.moves
            && stack.kernel.iter().any(|name| EXIT.contains(&name.as_str()))
        {
            return Ok(false);
        }
        if let Some(stop) = &stack.truncated {
            return Err(format!("cut: {stop}"));
        }
        let expected = self.threads.get(&stack.tid).or_else(|| self.threads.get(&0));
        let expected = expected.ok_or_else(|| "a thread without a printed chain".to_owned())?;
        let gap = stack.gap.map_or(usize::MAX, |(_, gap)| gap);
        // The position of the leaf determines the number of omitted frames; the reported one is for
        // display.
        let is_python = |seen: &Seen| matches!(seen, Seen::Python { .. });
        let kept = stack.frames.iter().rposition(is_python).map_or(0, |last| last + 1);
        let omitted = if stack.gap.is_some() { expected.len().saturating_sub(kept) } else { 0 };
        let at_expected = |at: usize| if at < gap { at } else { at + omitted };
        let is_last =
            |at: usize| !stack.frames[at + 1..].iter().any(|seen| matches!(seen, Seen::Python { .. }));
        let mut matched = 0;
        for (at, seen) in stack.frames.iter().enumerate() {
            let Some(expected) = expected.get(at_expected(at)) else { break };
            match (seen, expected) {
                (Seen::Python { .. }, Expected::Python(call)) => {
                    same_call(seen, call, is_last(at), self.moves)
                        .map_err(|wrong| format!("{call}: {wrong}"))?;
                }
                (Seen::Native { .. }, Expected::Native(native)) if is_native(seen, native) => {}
                _ if self.moves => break,
                (seen, Expected::Python(call)) => return Err(format!("{seen} instead of {call}")),
                (seen, Expected::Native(native)) => {
                    let name = native
                        .name
                        .clone()
                        .unwrap_or_else(|| format!("{}+{:#x}", native.file, native.address));
                    return Err(format!("{seen} instead of {name}"));
                }
            }
            matched = at + 1;
        }
        let is_complete = at_expected(matched) >= expected.len();
        if !is_complete && !self.moves {
            return Err(format!("ends before {}", expected[at_expected(matched)]));
        }
        if !stack.frames[..matched].iter().any(|seen| matches!(seen, Seen::Python { .. })) {
            return Err("no Python frame".to_owned());
        }
        self.check_tail(&stack.frames[..matched], &stack.frames[matched..], expected, is_complete)?;
        Ok(is_complete)
    }

    /// Checks the frames above the last Python frame: native code, and no loop but that of a call
    /// just begun.
    fn check_tail(
        &self,
        front: &[Seen],
        tail: &[Seen],
        expected: &[Expected],
        is_complete: bool,
    ) -> Result<(), String> {
        let mut loops = 0;
        for seen in tail {
            match seen {
                Seen::Python { .. } => return Err(format!("{seen} is one too many")),
                Seen::Native { name: Some(name), .. } if is_loop(name, self.version) => loops += 1,
                _ => {}
            }
        }
        if loops > usize::from(self.moves && !is_complete) {
            return Err("a loop without its Python frames".to_owned());
        }
        let (Some(Expected::Python(call)), true) = (expected.last(), is_complete) else { return Ok(()) };
        let line = front.iter().rev().find_map(|seen| match seen {
            Seen::Python { line, .. } => Some(*line),
            _ => None,
        });
        let called = call.last.iter().filter_map(|(line, function)| Some((line, function.as_ref()?)));
        for (own, function) in called {
            let is_called = tail
                .iter()
                .any(|seen| matches!(seen, Seen::Native { name: Some(name), .. } if name == function));
            if is_called && line != Some(*own) {
                return Err(format!("{function} is called on line {own}, not {}", line.unwrap_or_default()));
            }
        }
        Ok(())
    }
}

/// Removes the frames of the library's own `after fork` hooks (threads, random numbers) in a child:
/// they are Python, but not part of the workload's chain.
fn without_library_of_fork(stack: &Stack) -> Stack {
    let is_library = |seen: &Seen| match seen {
        Seen::Python { name, .. } => ["_after_fork", "Random.seed", "seed"].contains(&name.as_str()),
        _ => false,
    };
    let mut stack = stack.clone();
    if let Some(at) = stack.frames.iter().position(is_library) {
        stack.frames.truncate(at);
    }
    stack
}

/// Returns the time of the first Python frame of each process.
fn known_since(stacks: &[Stack]) -> BTreeMap<u32, u64> {
    let mut known = BTreeMap::new();
    for stack in stacks.iter().filter(|stack| stack.has_python()) {
        let first = stack.times.iter().copied().min().unwrap_or(u64::MAX);
        known.entry(stack.pid).and_modify(|known: &mut u64| *known = first.min(*known)).or_insert(first);
    }
    known
}

/// Kernel function that unmaps a page which a write after a fork copies.
const COPY: &str = "ptep_clear_flush";

/// Kernel functions between the last user instruction of a process and its end.
const EXIT: &[&str] = &["do_exit", "do_group_exit", "__x64_sys_exit_group"];

fn same_call(seen: &Seen, call: &Call, is_last: bool, moves: bool) -> Result<(), String> {
    let Seen::Python { name, file, line, start_line, is_unnamed } = seen else { return Ok(()) };
    if *is_unnamed {
        return Err(format!("unnamed, {name}"));
    }
    if *name != call.name || *file != call.file {
        return Err(format!("is called {name} in {file}"));
    }
    // A call that has just begun is on the line of its definition.
    let has_begun = moves && line == start_line;
    let is_right = if is_last { call.last.contains_key(line) || has_begun } else { call.line == *line };
    if is_right { Ok(()) } else { Err(format!("on line {line}")) }
}

/// Callers without a name are compared by address.
fn is_native(seen: &Seen, native: &crate::skeleton::NativeFrame) -> bool {
    let Seen::Native { name, file, address } = seen else { return false };
    match (name, &native.name) {
        (Some(name), Some(other)) => {
            let (name, other) = (plain(name), plain(other));
            same(&name, &other)
                || (name == "clone" && other == "clone3")
                || (name == "clone3" && other == "clone")
        }
        _ => *file == native.file && *address == native.address,
    }
}

impl Comparison {
    pub(crate) fn share(&self) -> f64 {
        self.exact as f64 / self.samples.max(1) as f64
    }

    /// Returns the share of exact samples, without those before their process was attached.
    pub(crate) fn share_of_known(&self) -> f64 {
        self.exact as f64 / (self.samples - self.early).max(1) as f64
    }

    /// Adds the samples of another run.
    pub(crate) fn add(&mut self, other: Comparison) {
        self.samples += other.samples;
        self.exact += other.exact;
        self.complete += other.complete;
        self.without_python += other.without_python;
        self.early += other.early;
        self.copying += other.copying;
        for (what, (count, stack)) in other.wrong {
            self.wrong.entry(what).or_insert_with(|| (0, stack)).0 += count;
        }
    }

    /// Returns `true` if at least `per_mille` of 1,000 samples are exact and there are samples.
    pub(crate) fn is_good(&self, per_mille: u64) -> bool {
        // Pages are copied in the first milliseconds after a fork alone.
        let is_rare = self.copying * 50 <= self.samples;
        self.samples > 0 && self.exact * 1000 >= self.samples * per_mille && is_rare
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}:{})", self.name, self.file.rsplit('/').next().unwrap_or_default(), self.line)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Python(call) => call.fmt(f),
            Expected::Native(native) => f.write_str(native.name.as_deref().unwrap_or("?")),
        }
    }
}

/// Lists wrong observations, the most frequent first, each with one whole stack.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} samples, {:.2} % exact, {} complete, {} without Python, {} of them early; {} more while a page was copied",
            self.samples,
            self.share() * 100.0,
            self.complete,
            self.without_python,
            self.early,
            self.copying
        )?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (reason, (count, stack)) in wrong.iter().take(5) {
            let frames: Vec<_> = stack.frames.iter().map(Seen::to_string).collect();
            write!(f, "\n    {count:>5} x {reason}\n          {}", frames.join(";"))?;
        }
        Ok(())
    }
}
