//! The results of a task's steps.

use std::env;
use std::time::{Duration, Instant};

use crate::limit::limited;
use crate::run::{self, Outcome};

/// The steps so far, and the closing lines of test runners.
#[derive(Debug)]
pub(crate) struct Tally {
    steps: Vec<Step>,
    summaries: Vec<String>,
    begin: Instant,
    /// Time from the beginning after which no step works any more.
    limit: Duration,
}

/// Longest time of a step that names no other.
const STEP: Duration = Duration::from_secs(10 * 60);

/// Longest time of a task that names no other.
const TASK: Duration = Duration::from_secs(24 * 3600);

impl Default for Tally {
    fn default() -> Tally {
        Tally::within(TASK)
    }
}

/// Returns `true` if a test printed this line because it was skipped. The test's name may precede it.
pub(crate) fn is_skipped(line: &str) -> bool {
    line.starts_with("skipped: ") || line.contains(" ... skipped: ")
}

/// A finished step.
#[derive(Debug)]
struct Step {
    name: String,
    verdict: Verdict,
    duration: Duration,
}

#[derive(Debug)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Tally {
    /// A tally of a task that takes no longer than this.
    pub(crate) fn within(limit: Duration) -> Tally {
        Tally { steps: Vec::new(), summaries: Vec::new(), begin: Instant::now(), limit }
    }

    /// Runs a step and records its result and duration. After ten minutes its processes are ended, and it has failed.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce(&mut Vec<String>) -> Outcome) {
        self.limited_step(name, STEP, step);
    }

    /// Runs a step with a limit of its own.
    pub(crate) fn limited_step(
        &mut self,
        name: &str,
        limit: Duration,
        step: impl FnOnce(&mut Vec<String>) -> Outcome,
    ) {
        let start = Instant::now();
        let left = self.limit.saturating_sub(self.begin.elapsed());
        let limit = limit.min(left);
        eprintln!("= {name} begins after {:.0} s", self.begin.elapsed().as_secs_f64());
        let verdict = if left.is_zero() {
            Verdict::Failed(format!("the {} s of the task were over", self.limit.as_secs()))
        } else {
            run::forget_test();
            let done = limited(limit, || step(&mut self.summaries));
            match done.result {
                Ok(()) => Verdict::Passed,
                Err(reason) if done.is_exceeded => Verdict::Failed(exceeded(limit, &reason)),
                Err(reason) => Verdict::Failed(reason),
            }
        };
        let duration = start.elapsed();
        eprintln!("= {name}: {:.0} s", duration.as_secs_f64());
        self.steps.push(Step { name: name.to_owned(), verdict, duration });
    }

    /// Records a step that can't run here.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let verdict = Verdict::Skipped(why.to_owned());
        self.steps.push(Step { name: name.to_owned(), verdict, duration: Duration::ZERO });
    }

    /// Prints the results, the closing lines of test runners last.
    pub(crate) fn close(self) -> Outcome {
        let in_ci = env::var_os("CI").is_some();
        eprintln!();
        for Step { name, verdict, duration } in &self.steps {
            let seconds = duration.as_secs_f64();
            match verdict {
                Verdict::Passed => eprintln!("passed  {seconds:>5.0} s  {name}"),
                Verdict::Failed(reason) => eprintln!("FAILED  {seconds:>5.0} s  {name}: {reason}"),
                Verdict::Skipped(why) => eprintln!("skipped          {name}: {why}"),
            }
        }
        eprintln!("        {:>5.0} s  in all", self.begin.elapsed().as_secs_f64());
        let outcome = judge(&self.steps, in_ci);
        print_lines(&self.summaries);
        let skipped = self.summaries.iter().filter(|line| is_skipped(line)).count();
        if skipped > 0 {
            eprintln!("{skipped} tests were skipped");
        }
        outcome
    }
}

/// The reason of a step that was ended because of its limit.
pub(crate) fn exceeded(limit: Duration, reason: &str) -> String {
    let at = run::last_test().map_or(String::new(), |test| format!(" at `{test}`"));
    format!("took more than {} s and was ended{at}: {reason}", limit.as_secs())
}

/// Fails if a step failed, or, in CI, was skipped.
fn judge(steps: &[Step], in_ci: bool) -> Outcome {
    let failed = steps.iter().filter(|step| matches!(step.verdict, Verdict::Failed(_))).count();
    let skipped = steps.iter().filter(|step| matches!(step.verdict, Verdict::Skipped(_))).count();
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

    fn steps(verdicts: Vec<Verdict>) -> Vec<Step> {
        let step = |verdict| Step { name: "step".to_owned(), verdict, duration: Duration::ZERO };
        verdicts.into_iter().map(step).collect()
    }

    #[test]
    fn fails_if_one_step_fails() {
        let steps = steps(vec![Verdict::Passed, Verdict::Failed("no".to_owned())]);
        assert!(judge(&steps, false).is_err());
        assert!(judge(&steps, true).is_err());
    }

    #[test]
    fn fails_in_ci_if_step_is_skipped() {
        let steps = steps(vec![Verdict::Passed, Verdict::Skipped("not root".to_owned())]);
        assert!(judge(&steps, false).is_ok());
        assert!(judge(&steps, true).is_err());
    }

    #[test]
    fn ends_step_that_takes_too_long_and_names_its_test() {
        let mut tally = Tally::default();
        tally.limited_step("slow", Duration::from_millis(300), |_| {
            let script = "echo 'test chains::c ... ok'; printf 'test chains::hangs ... '; sleep 95";
            run::watch(&mut run::command(&["sh", "-c", script]), |_| {})
        });
        let Verdict::Failed(reason) = &tally.steps[0].verdict else { unreachable!("it has to fail") };
        assert!(reason.contains("was ended at `test chains::hangs`"), "{reason}");
    }

    #[test]
    fn begins_no_step_after_end_of_task() {
        let mut tally = Tally::within(Duration::ZERO);
        tally.step("late", |_| Ok(()));
        assert!(matches!(tally.steps[0].verdict, Verdict::Failed(_)));
    }

    #[test]
    fn runs_steps_after_failed_one() {
        let mut tally = Tally::default();
        tally.step("first", |_| Err("no".to_owned()));
        tally.step("second", |_| Ok(()));
        assert_eq!(tally.steps.len(), 2);
    }
}
