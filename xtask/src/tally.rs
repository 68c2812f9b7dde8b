//! The results of a task's steps.

use std::env;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::limit::limited;
use crate::run::{self, Outcome};

/// The steps so far, and the closing lines of test runners.
#[derive(Debug)]
pub(crate) struct Tally {
    steps: Vec<Step>,
    summaries: Vec<String>,
    begin: Instant,
    /// Processor time of all processes before.
    cpu: Duration,
    /// Time from the beginning after which no step works any more.
    limit: Duration,
}

/// Longest time of a step that names no other.
pub(crate) const STEP: Duration = Duration::from_secs(10 * 60);

/// Longest time of a task that names no other.
const TASK: Duration = Duration::from_secs(24 * 3600);

/// Characters of a failed step's reason in the last line.
const REASON: usize = 150;

impl Default for Tally {
    fn default() -> Tally {
        Tally::within(TASK)
    }
}

/// Returns `true` if a test printed this line because it was skipped. The test's name may precede
/// it.
pub(crate) fn is_skipped(line: &str) -> bool {
    line.starts_with("skipped: ") || line.contains(" ... skipped: ")
}

/// A finished step.
#[derive(Debug)]
struct Step {
    name: String,
    verdict: Verdict,
    duration: Duration,
    /// Processor time of its processes: much less than the duration is waiting, also for other work
    /// on the machine.
    cpu: Duration,
}

#[derive(Debug)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Step {
    fn without_work(name: &str, verdict: Verdict) -> Step {
        Step { name: name.to_owned(), verdict, duration: Duration::ZERO, cpu: Duration::ZERO }
    }
}

impl Tally {
    /// A tally of a task that takes no longer than this.
    pub(crate) fn within(limit: Duration) -> Tally {
        let (begin, cpu) = (Instant::now(), cpu_of_children());
        Tally { steps: Vec::new(), summaries: Vec::new(), begin, cpu, limit }
    }

    /// Runs a step and records its result and duration. After ten minutes its processes are ended,
    /// and it has failed.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce(&mut Vec<String>) -> Outcome) {
        self.limited_step(name, STEP, step);
    }

    /// Runs a step with its own limit.
    pub(crate) fn limited_step(
        &mut self,
        name: &str,
        limit: Duration,
        step: impl FnOnce(&mut Vec<String>) -> Outcome,
    ) {
        let (start, cpu) = (Instant::now(), cpu_of_children());
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
        let (duration, cpu) = (start.elapsed(), cpu_of_children().saturating_sub(cpu));
        eprintln!("= {name}: {:.0} s, {:.0} s of CPU", duration.as_secs_f64(), cpu.as_secs_f64());
        self.steps.push(Step { name: name.to_owned(), verdict, duration, cpu });
    }

    /// Runs two groups of steps beside one another, such as those that wait for the network beside
    /// those that compile. The processor time of a step includes that of the other group.
    pub(crate) fn beside(&mut self, first: impl FnOnce(&mut Tally), second: impl FnOnce(&mut Tally) + Send) {
        let mut other = Tally { steps: Vec::new(), summaries: Vec::new(), ..*self };
        let panicked = thread::scope(|scope| {
            let second = scope.spawn(|| second(&mut other));
            first(self);
            second.join().is_err()
        });
        if panicked {
            other
                .steps
                .push(Step::without_work("steps beside others", Verdict::Failed("panicked".to_owned())));
        }
        self.steps.append(&mut other.steps);
        self.summaries.append(&mut other.summaries);
    }

    /// Records a step that can't run here.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        self.steps.push(Step::without_work(name, Verdict::Skipped(why.to_owned())));
    }

    /// Prints the results, the closing lines of test runners last.
    pub(crate) fn close(self) -> Outcome {
        let in_ci = env::var_os("CI").is_some();
        eprintln!();
        for Step { name, verdict, duration, cpu } in &self.steps {
            let times = times(*duration, *cpu);
            match verdict {
                Verdict::Passed => eprintln!("passed  {times}  {name}"),
                Verdict::Failed(reason) => eprintln!("FAILED  {times}  {name}: {reason}"),
                Verdict::Skipped(why) => {
                    eprintln!("skipped {:times$}  {name}: {why}", "", times = times.len())
                }
            }
        }
        let cpu = cpu_of_children().saturating_sub(self.cpu);
        eprintln!("        {}  in all", times(self.begin.elapsed(), cpu));
        let outcome = judge(&self.steps, in_ci);
        print_lines(&self.summaries);
        let skipped = self.summaries.iter().filter(|line| is_skipped(line)).count();
        if skipped > 0 {
            eprintln!("{skipped} tests were skipped");
        }
        outcome
    }
}

fn times(duration: Duration, cpu: Duration) -> String {
    format!("{:>5.0} s {:>5.0} s of CPU", duration.as_secs_f64(), cpu.as_secs_f64())
}

/// Returns the processor time of all processes that this one has waited for, and that they have.
fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which ends with the last parenthesis, the 14th and 15th fields are user and
    // system time of children.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // A hundred ticks a second, on all architectures of Linux that Rust has.
    Duration::from_millis(ticks * 10)
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
        _ => Err(format!("{failed} of {} steps failed: {}", steps.len(), reasons(steps))),
    }
}

/// Returns the failed steps and the begins of their reasons: often the last line is all that is
/// seen of a run.
fn reasons(steps: &[Step]) -> String {
    let failed = steps.iter().filter_map(|step| match &step.verdict {
        Verdict::Failed(reason) => {
            let reason: String = reason.lines().next().unwrap_or_default().chars().take(REASON).collect();
            Some(format!("{}: {reason}", step.name))
        }
        _ => None,
    });
    failed.collect::<Vec<_>>().join("; ")
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
        verdicts.into_iter().map(|verdict| Step::without_work("step", verdict)).collect()
    }

    #[test]
    fn fails_if_one_step_fails() {
        let steps = steps(vec![Verdict::Passed, Verdict::Failed("no\nmore".to_owned())]);
        assert_eq!(judge(&steps, false).unwrap_err(), "1 of 2 steps failed: step: no");
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
    fn counts_processor_time_of_processes() {
        let mut tally = Tally::default();
        let script = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
        tally.step("busy", |_| run::run(&mut run::command(&["sh", "-c", script])));
        assert!(tally.steps[0].cpu > Duration::ZERO);
    }

    #[test]
    fn begins_no_step_after_end_of_task() {
        let mut tally = Tally::within(Duration::ZERO);
        tally.step("late", |_| Ok(()));
        assert!(matches!(tally.steps[0].verdict, Verdict::Failed(_)));
    }

    #[test]
    fn counts_steps_of_both_groups() {
        let mut tally = Tally::default();
        let second = |tally: &mut Tally| {
            tally.step("fetch", |summaries| {
                summaries.push("fetched".to_owned());
                Err("no network".to_owned())
            });
        };
        tally.beside(|tally| tally.step("build", |_| Ok(())), second);
        assert_eq!(judge(&tally.steps, false).unwrap_err(), "1 of 2 steps failed: fetch: no network");
        assert_eq!(tally.summaries, ["fetched"]);
        tally.beside(|_| {}, |_| panic!("of a step"));
        assert_eq!(tally.steps.len(), 3);
        assert!(judge(&tally.steps, false).is_err());
    }

    #[test]
    fn runs_steps_after_failed_one() {
        let mut tally = Tally::default();
        tally.step("first", |_| Err("no".to_owned()));
        tally.step("second", |_| Ok(()));
        assert_eq!(tally.steps.len(), 2);
    }
}
