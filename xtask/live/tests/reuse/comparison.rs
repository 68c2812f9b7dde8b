//! Compared samples of a program's functions.

use std::fmt;

use ebpf_profiler_core::profile::{Profile, Sample};

use crate::function::Function;
use crate::run::FREQUENCY;

/// Least and greatest share of a function's samples, of those that its CPU time gives.
const SHARE: [f64; 2] = [0.5, 1.5];

/// Samples by which chance changes a count, beside its share.
const CHANCE: f64 = 3.0;

/// CPU time at the start of a program, in seconds, whose functions may miss samples: its runtime is
/// not attached yet.
const START: f64 = 0.5;

/// Functions that may lack samples: this many, or one of a hundred. Other work on the machine
/// delays the reading of names.
const LACKING: usize = 2;

/// Number of wrong functions that are printed.
const PRINTED: usize = 5;

/// Compared functions of a program.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) functions: usize,
    /// Functions with their share of the samples.
    pub(crate) right: usize,
    /// Functions with more samples than their share.
    greedy: usize,
    /// Samples whose innermost script frame has no name.
    unnamed: u64,
    samples: u64,
    wrong: Vec<String>,
}

impl Comparison {
    pub(crate) fn on(functions: &[Function], profile: &Profile) -> Comparison {
        let mut comparison = Comparison { functions: functions.len(), ..Comparison::default() };
        let mut counts = vec![0; functions.len()];
        for sample in profile.samples() {
            comparison.samples += sample.count();
            match innermost(&sample, functions) {
                Some(index) => counts[index] += sample.count(),
                None => comparison.unnamed += if is_unnamed(&sample) { sample.count() } else { 0 },
            }
        }
        let mut before = 0.0;
        for (function, count) in functions.iter().zip(counts) {
            let is_start = before < START;
            before += function.seconds;
            let expected = function.seconds * f64::from(FREQUENCY);
            let [least, most] = SHARE.map(|share| share * expected);
            let is_greedy = count as f64 > most + CHANCE;
            comparison.greedy += usize::from(is_greedy);
            if !is_greedy && count as f64 >= least - CHANCE {
                comparison.right += 1;
            } else if is_start && !is_greedy {
                comparison.functions -= 1;
            } else if comparison.wrong.len() < PRINTED {
                comparison.wrong.push(format!("{count} samples instead of {expected:.0}: {function:?}"));
            }
        }
        comparison
    }

    pub(crate) fn is_good(&self) -> bool {
        self.functions > 0
            && self.functions - self.right <= LACKING.max(self.functions / 100)
            && self.greedy == 0
    }
}

/// Returns the index of the innermost function of the program in a sample.
fn innermost(sample: &Sample<'_>, functions: &[Function]) -> Option<usize> {
    let mut frames = sample.trace().frames();
    frames.find_map(|frame| {
        let script = frame.script()?;
        functions.iter().position(|function| function.is(script))
    })
}

fn is_unnamed(sample: &Sample<'_>) -> bool {
    sample.trace().frames().any(|frame| frame.script().is_some_and(|script| script.is_unnamed))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { functions, right, greedy, unnamed, samples, wrong } = self;
        write!(f, "{right} of {functions} functions right, {greedy} with others' samples; ")?;
        write!(f, "{unnamed} of {samples} samples with unnamed frames")?;
        wrong.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}
