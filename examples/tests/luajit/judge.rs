//! Comparison of sampled stacks with the expected chain.

use std::collections::BTreeMap;
use std::fmt;

use crate::chain::Call;
use crate::seen::{Seen, Stack};

/// Verdict on the samples of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) samples: u64,
    pub(crate) exact: u64,
    /// Wrong observations, with their number and the first stack.
    wrong: BTreeMap<String, (u64, Stack)>,
    /// Samples by line of the innermost expected function.
    pub(crate) lines: BTreeMap<u32, u64>,
}

/// Greatest deviation from equal shares that chance makes, in standard deviations.
const DEVIATIONS: f64 = 4.0;

/// Functions in C that the innermost function calls while it spins.
const CALLED: &[&str] = &["clock"];

/// Functions in C that call back through native frames of the interface to C; the others do so in the loop.
const THROUGH_C: &[&str] = &["gsub", "sort", "error", "dofile", "[C]"];

impl Verdict {
    /// Compares all stacks of a process with its chain.
    pub(crate) fn on(stacks: &[Stack], chain: &[Call], program: &str) -> Verdict {
        let spin = spin_lines(program);
        let mut verdict = Verdict::default();
        for stack in stacks {
            verdict.samples += stack.count;
            match compare(stack, chain, &spin) {
                Ok(line) => {
                    verdict.exact += stack.count;
                    *verdict.lines.entry(line).or_default() += stack.count;
                }
                Err(wrong) => {
                    verdict.wrong.entry(wrong).or_insert_with(|| (0, stack.clone())).0 += stack.count;
                }
            }
        }
        verdict
    }

    /// Returns `true` if the two most frequent lines have shares that chance explains.
    pub(crate) fn has_equal_lines(&self) -> bool {
        let mut counts: Vec<_> = self.lines.values().copied().collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let [most, second, ..] = counts[..] else { return false };
        (most - second) as f64 <= DEVIATIONS * ((most + second) as f64).sqrt()
    }

    /// Returns `true` if at least `per_mille` of 1,000 samples are exact and there are samples.
    pub(crate) fn is_good(&self, per_mille: u64) -> bool {
        self.samples > 0 && self.exact * 1000 >= self.samples * per_mille
    }
}

/// Returns the lines of a program that have the comment "spin".
fn spin_lines(program: &str) -> Vec<u32> {
    let lines = (1..).zip(program.lines());
    lines.filter(|(_, line)| line.ends_with("-- spin")).map(|(number, _)| number).collect()
}

/// Returns the line of the innermost expected function in an exact stack. Fails with the difference.
fn compare(stack: &Stack, chain: &[Call], spin: &[u32]) -> Result<u32, String> {
    if let Some(cut) = &stack.cut {
        return Err(format!("cut: {cut}"));
    }
    if stack.frames.first() != Some(&Seen::Native("_start".to_owned())) {
        return Err("doesn't begin at _start".to_owned());
    }
    let mut expected = chain.iter();
    let mut innermost = None;
    let mut natives = 0;
    let mut before: Option<&Call> = None;
    for seen in &stack.frames {
        let Seen::Script { name, file, line, is_unnamed } = seen else {
            natives += 1;
            continue;
        };
        if *is_unnamed {
            return Err(format!("unnamed, {name}"));
        }
        match expected.next() {
            Some(call) => {
                let is_last = expected.len() == 0;
                let is_right = if is_last { spin.contains(line) } else { call.line == *line };
                if *name != call.name || *file != call.file || !is_right {
                    return Err(format!("{seen} instead of {}:{}", call.name, call.line));
                }
                let is_through_c = before.is_some_and(|before| THROUGH_C.contains(&before.name.as_str()));
                if before.is_some() && (natives > 0) != is_through_c {
                    return Err(format!("{natives} native frames before {}", call.name));
                }
                innermost = is_last.then_some(*line);
                before = Some(call);
            }
            None if file.is_empty() && CALLED.contains(&name.as_str()) => {}
            None => return Err(format!("{seen} is one too many")),
        }
        natives = 0;
    }
    innermost.ok_or_else(|| match expected.next() {
        Some(call) => format!("ends before {}:{}", call.name, call.line),
        None => "no script frame".to_owned(),
    })
}

/// Lists wrong observations, the most frequent first, each with one whole stack.
impl fmt::Display for Verdict {
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
