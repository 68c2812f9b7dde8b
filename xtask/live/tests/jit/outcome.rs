//! Comparison of sampled stacks with the chain of a program.

use ebpf_profiler_core::profile::{Profile, Sample};
use ebpf_profiler_core::trace::Frame;

/// Samples of the innermost function, by whether their chain is the one that the program makes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) exact: u64,
    wrong: u64,
    pub(crate) with_lines: u64,
    /// A stack that is not exact, for the reader of a failed test.
    example: Vec<String>,
}

impl Outcome {
    /// Compares samples whose leaf is `spin`: its callers have to be 20 times `middle`, then `outer`,
    /// and with `to_root` the stack has to be whole.
    pub(crate) fn of(profile: &Profile, [outer, middle, spin]: &[&str; 3], to_root: bool) -> Outcome {
        let mut outcome = Outcome::default();
        for sample in profile.samples() {
            let chain = chain(&sample, &[outer, middle, spin]);
            if chain.last() != Some(spin) {
                continue;
            }
            let expected = [outer].into_iter().chain([middle; 20]).chain([spin]).copied();
            if (sample.trace().is_whole() || !to_root) && chain.iter().copied().eq(expected) {
                outcome.exact += sample.count();
            } else {
                outcome.wrong += sample.count();
                outcome.example = sample.trace().frames().map(|frame| frame.to_string()).collect();
            }
            let has_line = |symbol: &ebpf_profiler_core::symbol::Symbol| symbol.line > 0;
            let lines = sample
                .trace()
                .frames()
                .any(|frame| frame.script().is_some() && frame.symbols().iter().any(has_line));
            outcome.with_lines += u64::from(lines);
        }
        outcome
    }

    /// Compares samples by their leaf alone: all but those of the kernel should be in `function`.
    pub(crate) fn of_leaves(profile: &Profile, function: &str) -> Outcome {
        let mut outcome = Outcome::default();
        for sample in profile.samples() {
            let mut frames = sample.trace().frames();
            let Some(leaf) = frames.find(|frame| !matches!(frame.frame(), Frame::Kernel { .. })) else {
                continue;
            };
            if leaf.script().is_some() && is_of(&leaf.to_string(), function) {
                outcome.exact += sample.count();
            } else {
                outcome.wrong += sample.count();
                outcome.example = sample.trace().frames().map(|frame| frame.to_string()).collect();
            }
        }
        outcome
    }

    pub(crate) fn exact_per_mille(&self) -> u64 {
        assert!(self.exact + self.wrong > 100, "too few samples: {self:?}");
        self.exact * 1000 / (self.exact + self.wrong)
    }
}

/// Returns the functions of a stack that are among `known`, root first.
fn chain<'n>(sample: &Sample<'_>, known: &[&'n str]) -> Vec<&'n str> {
    let names =
        sample.trace().frames().filter(|frame| frame.script().is_some()).map(|frame| frame.to_string());
    let mut chain: Vec<&str> =
        names.filter_map(|name| known.iter().find(|known| is_of(&name, known)).copied()).collect();
    chain.reverse();
    chain
}

/// Returns `true` if a runtime's name is that of a function: `JS:*spin /srv/a.js:3:5`, `void
/// JitChain.spin()`.
fn is_of(name: &str, function: &str) -> bool {
    let bounded = |at: usize| {
        let after = name[at + function.len()..].chars().next();
        let before = name[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    name.match_indices(function).any(|(at, _)| bounded(at))
}
