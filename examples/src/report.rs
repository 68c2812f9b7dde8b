//! Counters of a program that profiles and exports, in one line.

use std::time::{Duration, Instant};

use ebpf_profiler_core::live::{Health, Usage};
use ebpf_profiler_otlp::Stats;

use crate::{describe_broker, describe_budget};

/// Formats lines such as these:
///
/// ```text
/// 2277 samples (99.1 % whole), 0 lost; 12 delivered, 0 queued, 0 on disk, 0 dropped, 0 retries, 135168 bytes; CPU 0.6 %, 21.4 MiB
/// 4551 samples (99.2 % whole), 0 lost; 23 delivered, 1 queued, 0 on disk, 0 dropped, 2 retries, 259481 bytes; last: cannot connect: Connection refused (os error 111); CPU 0.5 %, 21.4 MiB
/// ```
///
/// Numbers count from the start, except the share of a CPU, which counts from the previous line.
#[derive(Debug)]
pub struct Reporter {
    since: Instant,
    usage: Usage,
    /// The error that was reported last.
    error: String,
}

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter { since: Instant::now(), usage: Usage::now(), error: String::new() }
    }
}

impl Reporter {
    /// Returns the line.
    pub fn line(&mut self, health: &Health, sent: &Stats) -> String {
        let samples = health.pipeline.samples;
        let whole = 100.0 * health.pipeline.whole as f64 / samples.max(1) as f64;
        let share = self.share(health.usage, self.since.elapsed());
        let resident = health.usage.resident as f64 / f64::from(1 << 20);
        let sent = self.fresh(sent);
        let rest = [describe_budget(health), describe_broker(health), describe_deadline(health)];
        let rest: String = rest.into_iter().flatten().map(|text| format!("; {text}")).collect();
        format!(
            "{samples} samples ({whole:.1} % whole), {} lost; {sent}; CPU {share:.1} %, {resident:.1} MiB{rest}",
            health.lost
        )
    }

    /// Returns the last error of the exporter, unless it was reported before.
    pub fn error(&mut self, sent: &Stats) -> Option<String> {
        let error = self.fresh(sent).last_error;
        (!error.is_empty()).then_some(error)
    }

    /// Returns the counters, without an error that was reported before.
    fn fresh(&mut self, sent: &Stats) -> Stats {
        let mut fresh = sent.clone();
        if fresh.last_error == self.error {
            fresh.last_error.clear();
        } else {
            self.error.clone_from(&fresh.last_error);
        }
        fresh
    }

    fn share(&mut self, usage: Usage, elapsed: Duration) -> f64 {
        let used = usage.cpu.saturating_sub(self.usage.cpu);
        (self.usage, self.since) = (usage, Instant::now());
        100.0 * used.as_secs_f64() / elapsed.as_secs_f64().max(1e-3)
    }
}

/// Describes what was cut off at the end of a profiler; `None` if nothing was.
pub fn describe_deadline(health: &Health) -> Option<String> {
    let late = &health.deadline;
    let texts = [
        (late.samples > 0).then(|| format!("{} samples were in no profile", late.samples)),
        (late.addresses > 0).then(|| format!("{} addresses were not named", late.addresses)),
        (!late.threads.is_empty()).then(|| format!("{} still worked", late.threads.join(", "))),
    ];
    let texts: Vec<_> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| format!("at the deadline {}", texts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_the_deadline_cut_off() {
        let mut health = Health::default();
        assert_eq!(describe_deadline(&health), None);
        (health.deadline.samples, health.deadline.threads) = (12, vec!["ebpf-names".into()]);
        let text = "at the deadline 12 samples were in no profile, ebpf-names still worked";
        assert_eq!(describe_deadline(&health).as_deref(), Some(text));
    }

    #[test]
    fn reports_an_error_once() {
        let (mut reporter, mut health, mut sent) = (Reporter::default(), Health::default(), Stats::default());
        (health.pipeline.samples, health.pipeline.whole, health.lost) = (200, 199, 3);
        health.usage.resident = 3 << 19;
        (sent.delivered, sent.refused, sent.last_error) = (4, 1, "no".into());
        let line = reporter.line(&health, &sent);
        assert!(line.starts_with("200 samples (99.5 % whole), 3 lost; 4 delivered"), "{line}");
        assert!(line.contains("1 dropped (1 refused)") && line.contains("last: no; CPU"), "{line}");
        assert!(line.ends_with(" %, 1.5 MiB"), "{line}");
        assert!(!reporter.line(&health, &sent).contains("last"));
        assert_eq!(reporter.error(&sent), None);
        sent.last_error = "other".into();
        assert_eq!(reporter.error(&sent).as_deref(), Some("other"));
    }
}
