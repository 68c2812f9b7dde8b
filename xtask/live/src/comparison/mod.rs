//! Comparison of sampled stacks and shares with a reference.

pub mod chi_squared;
pub mod name;
pub mod shares;

use std::collections::BTreeMap;
use std::fmt;

use crate::sampled::{Seen, Stack};

/// Compared samples of a program.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Samples that were compared.
    pub samples: u64,
    /// Samples whose stack equals the reference.
    pub exact: u64,
    /// Wrong observations, with their number and the first stack.
    wrong: BTreeMap<String, (u64, Stack)>,
    /// Samples by line of the innermost expected function.
    pub lines: BTreeMap<u32, u64>,
}

/// Greatest deviation from equal shares that chance makes, in standard deviations.
const DEVIATIONS: f64 = 4.0;

impl Comparison {
    /// Compares all stacks of a process: `compare` returns the line of the innermost expected
    /// function in an exact stack, or the difference.
    pub fn on<'s>(
        stacks: impl IntoIterator<Item = &'s Stack>,
        compare: impl Fn(&Stack) -> Result<u32, String>,
    ) -> Comparison {
        let mut comparison = Comparison::default();
        for stack in stacks {
            comparison.samples += stack.count;
            match compare(stack) {
                Ok(line) => {
                    comparison.exact += stack.count;
                    *comparison.lines.entry(line).or_default() += stack.count;
                }
                Err(wrong) => {
                    comparison.wrong.entry(wrong).or_insert_with(|| (0, stack.clone())).0 += stack.count;
                }
            }
        }
        comparison
    }

    /// Returns `true` if the two most frequent lines have shares that chance explains.
    pub fn has_equal_lines(&self) -> bool {
        let mut counts: Vec<_> = self.lines.values().copied().collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let [most, second, ..] = counts[..] else { return false };
        (most - second) as f64 <= DEVIATIONS * ((most + second) as f64).sqrt()
    }

    /// Returns `true` if at least `per_mille` of 1,000 samples are exact and there are samples.
    pub fn is_good(&self, per_mille: u64) -> bool {
        self.samples > 0 && self.exact * 1000 >= self.samples * per_mille
    }
}

/// Lists wrong observations, the most frequent first, each with one whole stack.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples, {} exact", self.samples, self.exact)?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (reason, (count, stack)) in wrong.iter().take(5) {
            let frames: Vec<_> = stack.frames.iter().map(Seen::to_string).collect();
            write!(f, "\n    {count:>5} x {reason}\n          {}", frames.join(";"))?;
        }
        Ok(())
    }
}
