//! How the steps of a task went.

use std::env;
use std::time::Instant;

use crate::run::Outcome;

/// The steps so far, and the closing lines of the test runners among them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    steps: Vec<(String, Verdict)>,
    summaries: Vec<String>,
}

/// Whether a test says with this line why it has nothing to test here; in CI it fails. Its name may stand before.
pub(crate) fn is_skipped(line: &str) -> bool {
    line.starts_with("skipped: ") || line.contains(" ... skipped: ")
}

#[derive(Debug)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Tally {
    /// Does a step, and goes on with the next one even if it fails.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce(&mut Vec<String>) -> Outcome) {
        let start = Instant::now();
        let verdict = match step(&mut self.summaries) {
            Ok(()) => Verdict::Passed,
            Err(reason) => Verdict::Failed(reason),
        };
        eprintln!("= {name}: {:.0} s", start.elapsed().as_secs_f64());
        self.steps.push((name.to_owned(), verdict));
    }

    /// Notes a step that can't be done here.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        self.steps.push((name.to_owned(), Verdict::Skipped(why.to_owned())));
    }

    /// Prints how it went, the runners' own lines last.
    pub(crate) fn close(self) -> Outcome {
        let in_ci = env::var_os("CI").is_some();
        eprintln!();
        for (name, verdict) in &self.steps {
            match verdict {
                Verdict::Passed => eprintln!("passed   {name}"),
                Verdict::Failed(reason) => eprintln!("FAILED   {name}: {reason}"),
                Verdict::Skipped(why) => eprintln!("skipped  {name}: {why}"),
            }
        }
        let outcome = judge(&self.steps, in_ci);
        print_lines(&self.summaries);
        let skipped = self.summaries.iter().filter(|line| is_skipped(line)).count();
        if skipped > 0 {
            eprintln!("{skipped} tests had nothing to test here");
        }
        outcome
    }
}

/// Without CI a step may be skipped, with it all have to be done.
fn judge(steps: &[(String, Verdict)], in_ci: bool) -> Outcome {
    let failed = steps.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Failed(_))).count();
    let skipped = steps.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Skipped(_))).count();
    match (failed, skipped) {
        (0, 0) => Ok(()),
        (0, _) if !in_ci => Ok(()),
        (0, _) => Err(format!("{skipped} steps were skipped, and CI skips none")),
        _ => Err(format!("{failed} of {} steps failed", steps.len())),
    }
}

#[expect(clippy::print_stdout, reason = "this is the task's result")]
fn print_lines(lines: &[String]) {
    for line in lines {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(verdicts: Vec<Verdict>) -> Vec<(String, Verdict)> {
        verdicts.into_iter().map(|verdict| ("step".to_owned(), verdict)).collect()
    }

    #[test]
    fn one_failure_fails_all() {
        let steps = steps(vec![Verdict::Passed, Verdict::Failed("no".to_owned())]);
        assert!(judge(&steps, false).is_err());
        assert!(judge(&steps, true).is_err());
    }

    #[test]
    fn a_skipped_step_fails_in_ci_only() {
        let steps = steps(vec![Verdict::Passed, Verdict::Skipped("not root".to_owned())]);
        assert!(judge(&steps, false).is_ok());
        assert!(judge(&steps, true).is_err());
    }

    #[test]
    fn a_failed_step_does_not_stop_the_next() {
        let mut tally = Tally::default();
        tally.step("first", |_| Err("no".to_owned()));
        tally.step("second", |_| Ok(()));
        assert_eq!(tally.steps.len(), 2);
    }
}
