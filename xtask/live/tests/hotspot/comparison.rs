//! Comparison of sampled stacks with those that the virtual machine reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ebpf_profiler_core::profile::{Call, Kind, Profile, Sample};
use ebpf_profiler_core::trace::Stop;

/// The leaf of all chains.
const LEAF: &str = "Chains.spin";

/// The method by which the leaf collects its stacks.
const COLLECTS: &str = "Chains.collect";

/// The stub by which native code calls Java.
pub(crate) const CALL_STUB: &str = "call_stub";

/// The line of a native method in the virtual machine's stacks.
const NATIVE: i32 = -2;

/// Stacks of a program, root first: methods with their lines, 0 for the leaf's.
#[derive(Debug, Default)]
pub(crate) struct Rules(BTreeSet<Vec<(String, i32)>>);

/// Compared samples of a program.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Samples, of the exact ones, that are in the leaf.
    pub(crate) leaf: u64,
    /// Wrong observations, with their number and a stack.
    wrong: BTreeMap<String, (u64, String)>,
}

/// A frame as it was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    Native(String),
    Stub(String),
    Method(String, i32),
    /// Frames that are left out of a deep stack.
    Gap,
}

impl Rules {
    /// Adds a line that the program printed.
    pub(crate) fn add(&mut self, truth: &str) {
        let frames = truth.split(' ').map(|frame| {
            let (method, line) = frame.rsplit_once(':').unwrap();
            (readable(method), line.parse().unwrap())
        });
        let mut frames: Vec<(String, i32)> = frames.collect();
        frames.last_mut().unwrap().1 = 0;
        self.0.insert(frames);
    }

    /// Compares the stacks of a process.
    pub(crate) fn compare_all(&self, profile: &Profile, pid: u32) -> Comparison {
        let mut comparison = Comparison::default();
        let is_own = |sample: &Sample<'_>| sample.process().pid == pid && !is_before(sample);
        for sample in profile.samples().filter(is_own) {
            comparison.samples += sample.count();
            match self.compare(&sample) {
                Ok(is_leaf) => {
                    comparison.exact += sample.count();
                    comparison.leaf += if is_leaf { sample.count() } else { 0 };
                }
                Err(wrong) => {
                    let stack: Vec<_> = sample.trace().calls().map(|call| call.to_string()).collect();
                    comparison.wrong.entry(wrong).or_insert_with(|| (0, stack.join(";"))).0 += sample.count();
                }
            }
        }
        comparison
    }

    /// Returns `true` if an exact stack ends in the leaf.
    fn compare(&self, sample: &Sample<'_>) -> Result<bool, String> {
        let trace = sample.trace();
        if !trace.is_whole() {
            return Err(format!("cut: {}", trace.stop()));
        }
        let seen: Vec<Seen> = trace.calls().map(|call| seen(&call)).collect::<Result<_, _>>()?;
        let methods: Vec<(String, i32)> = seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Method(name, line) => Some((name.clone(), *line)),
                _ => None,
            })
            .collect();
        let Some((innermost, _)) = methods.last() else { return Ok(false) };
        if innermost != LEAF {
            let is_stub = matches!(seen.last(), Some(Seen::Stub(_)));
            return if is_stub { self.compare_callers(&methods).map(|()| false) } else { Ok(false) };
        }
        let truth = self.0.iter().find(|truth| is_stack(&methods, truth));
        if truth.is_none() && !self.0.is_empty() {
            return Err("other methods or lines".to_owned());
        }
        let natives = truth.map_or_else(BTreeSet::new, |truth| native_methods(truth));
        positions(&seen, &natives)?;
        Ok(true)
    }

    /// Compares the methods around a stub: if the innermost one is in a truth, its callers have to
    /// be there as well.
    fn compare_callers(&self, methods: &[(String, i32)]) -> Result<(), String> {
        let Some((innermost, _)) = methods.last() else { return Ok(()) };
        let parts = || {
            self.0
                .iter()
                .flat_map(|truth| (1..=truth.len()).map(|end| &truth[..end]))
                .filter(|part| part.last().is_some_and(|(name, _)| name == innermost))
        };
        // The stacks are collected by methods that are in them, too.
        let is_collecting = methods.iter().any(|(name, _)| name == COLLECTS);
        if is_collecting || parts().next().is_none() || parts().any(|part| is_stack(methods, part)) {
            return Ok(());
        }
        Err("other callers of a stub".to_owned())
    }
}

/// Returns `true` for a sample without a stack of the program: it is about to be executed.
fn is_before(sample: &Sample<'_>) -> bool {
    matches!(sample.trace().stop(), Stop::Exec | Stop::NoUserStack)
}

/// Returns `true` if methods are those of the truth, the carrier's of a virtual thread before them.
fn is_stack(methods: &[(String, i32)], truth: &[(String, i32)]) -> bool {
    let start = methods.len().checked_sub(truth.len());
    start.is_some_and(|start| is_root(&methods[..start]) && is_same(&methods[start..], truth))
}

/// Returns `true` if methods can only be those of a carrier.
fn is_root(methods: &[(String, i32)]) -> bool {
    methods.is_empty()
        || methods[0].0 == "java.lang.Thread.run"
        || methods[0].0 == "java.util.concurrent.ForkJoinWorkerThread.run"
}

fn is_same(methods: &[(String, i32)], truth: &[(String, i32)]) -> bool {
    let last = truth.len() - 1;
    methods
        .iter()
        .zip(truth)
        .enumerate()
        .all(|(at, (method, truth))| method.0 == truth.0 && (at == last || method.1 == truth.1.max(0)))
}

fn native_methods(truth: &[(String, i32)]) -> BTreeSet<String> {
    truth.iter().filter(|(_, line)| *line == NATIVE).map(|(name, _)| name.clone()).collect()
}

/// Checks that native code stands at the root, and else between a native method and a call stub.
fn positions(seen: &[Seen], natives: &BTreeSet<String>) -> Result<(), String> {
    let leaf = seen.iter().rposition(|seen| matches!(seen, Seen::Method(..))).unwrap_or(0);
    let mut before: Option<&Seen> = None;
    for at in 0..leaf {
        let (this, next) = (&seen[at], &seen[at + 1]);
        let is_wrong = match (this, next) {
            (Seen::Native(_), Seen::Method(..)) => true,
            (Seen::Stub(name), Seen::Method(..)) => name != CALL_STUB,
            (Seen::Method(name, _), Seen::Native(_) | Seen::Stub(_)) => !natives.contains(name),
            _ => false,
        };
        if is_wrong {
            return Err(format!("{this:?} calls {next:?} after {before:?}"));
        }
        before = Some(this);
    }
    Ok(())
}

/// Returns a frame as it was sampled.
pub(crate) fn seen(call: &Call<'_>) -> Result<Seen, String> {
    let frame = match call {
        Call::Function { frame, .. } => frame,
        Call::LeftOut(_) => return Ok(Seen::Gap),
        _ => return Err(call.to_string()),
    };
    if call.kind() != Kind::Script {
        return match call.kind() {
            Kind::RunTime => Err("a frame without a name".to_owned()),
            _ => Ok(Seen::Native(call.to_string())),
        };
    }
    let script = frame.script().ok_or("no script")?;
    if script.is_unnamed {
        return Err(script.name.to_string());
    }
    let line = call.symbol().map_or(0, |symbol| symbol.line);
    let name = script.name.to_string();
    Ok(if name.contains('.') { Seen::Method(name, line as i32) } else { Seen::Stub(name) })
}

/// Returns a method of the virtual machine's stacks without numbers and addresses in which runs
/// differ.
fn readable(method: &str) -> String {
    let (class, name) = method.rsplit_once('.').unwrap();
    let class = class.split_once('/').map_or(class, |(class, _)| class);
    let class = match class.split_once("$$Lambda$") {
        Some((outer, _)) => format!("{outer}$$Lambda"),
        None => class.to_owned(),
    };
    format!("{class}.{name}")
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { samples, exact, leaf, wrong } = self;
        write!(f, "{exact} of {samples} exact, {leaf} in the leaf")?;
        for (wrong, (count, stack)) in wrong {
            write!(f, "\n  {count} {wrong}\n      {stack}")?;
        }
        Ok(())
    }
}
