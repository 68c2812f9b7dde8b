//! Comparison of sampled stacks with those that a script can have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ebpf_profiler_core::profile::{Call, FrameView, Profile};
use ebpf_profiler_core::trace::Frame;

/// Compared samples of a script.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Samples with functions of two generations, which never call one another.
    pub(crate) mixed: u64,
    pub(crate) generations: BTreeSet<String>,
    /// Samples of each exact stack.
    stacks: BTreeMap<String, u64>,
    /// Samples of all other stacks.
    wrong: BTreeMap<String, u64>,
}

impl Outcome {
    /// Compares all stacks with those in `expected`, from the script's `main` to the leaf.
    pub(crate) fn of(profile: &Profile, expected: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        for sample in profile.samples() {
            let stack = Stack::of(sample.trace().calls());
            outcome.samples += sample.count();
            if stack.generations.len() > 1 {
                outcome.mixed += sample.count();
            }
            let is_exact = !stack.is_cut && stack.generations.len() <= 1;
            let script = stack.text.strip_prefix("_start;__libc_start_main;__libc_start_call_main;main");
            let script = script.map(|script| script.trim_start_matches(';')).filter(|_| is_exact);
            let script = expected.iter().find(|&&expected| script == Some(expected));
            outcome.generations.extend(stack.generations);
            outcome.exact += if script.is_some() { sample.count() } else { 0 };
            match script {
                Some(&script) => *outcome.stacks.entry(script.to_owned()).or_default() += sample.count(),
                None => *outcome.wrong.entry(stack.text).or_default() += sample.count(),
            }
        }
        println!("{outcome}");
        outcome
    }

    /// Returns `true` if there are enough samples, and 99 % of them are exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.samples > 50 && self.exact * 1000 >= self.samples * 990 && self.mixed == 0
    }

    /// Returns the share of samples that are in `function` at a line, in percent of the exact ones.
    pub(crate) fn percent(&self, leaf: &str) -> u64 {
        let at_leaf = self.stacks.iter().filter(|(stack, _)| stack.ends_with(leaf));
        at_leaf.map(|(_, count)| count).sum::<u64>() * 100 / self.exact.max(1)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} exact, {} mixed", self.exact, self.samples, self.mixed)?;
        let all = self
            .stacks
            .iter()
            .map(|stack| ("", stack))
            .chain(self.wrong.iter().map(|stack| ("wrong ", stack)));
        all.into_iter().try_for_each(|(mark, (stack, count))| write!(f, "\n    {count:>5} {mark}{stack}"))
    }
}

/// A stack, root first.
#[derive(Default)]
struct Stack {
    /// Names, with lines where they are of the script.
    text: String,
    is_cut: bool,
    /// Digits at the end of the script's functions, each once; empty for those without.
    generations: BTreeSet<String>,
}

impl Stack {
    fn of<'p>(calls: impl Iterator<Item = Call<'p>>) -> Stack {
        let mut stack = Stack::default();
        for call in calls {
            match call {
                Call::LeftOut(_) | Call::Truncated(_) => stack.is_cut = true,
                Call::Function { depth: 1.., .. } => {}
                Call::Function { frame, .. } if matches!(frame.frame(), Frame::Kernel { .. }) => {}
                Call::Function { frame, .. } => stack.add(frame),
                _ => {}
            }
        }
        stack
    }

    fn add(&mut self, frame: FrameView<'_>) {
        if !self.text.is_empty() {
            self.text.push(';');
        }
        let symbol = frame.symbols().last();
        let Some(script) = frame.script() else {
            return self.text.push_str(symbol.map_or("?", |symbol| &symbol.function));
        };
        if script.is_unnamed {
            return self.text.push_str(&script.name);
        }
        let function = script.name.trim_end_matches(|c: char| c.is_ascii_digit());
        self.generations.insert(script.name[function.len()..].to_owned());
        self.text.push_str(&format!("{function}:{}", symbol.map_or(0, |symbol| symbol.line)));
    }
}
