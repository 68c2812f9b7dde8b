//! Validation of options.

use std::fs;
use std::time::Duration;

use crate::live::error::OptionError;
use crate::live::trigger::Trigger;
use crate::process::Pids;

/// Smallest interval between two profiles.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Largest frequency, in samples per second and CPU.
const MAX_FREQUENCY: u32 = 10_000;

/// Smallest and largest ring, in bytes.
const RING: std::ops::RangeInclusive<u32> = 64 << 10..=1 << 30;

/// Returns the time between two samples of a CPU.
pub(super) fn period(hertz: u32) -> Duration {
    Duration::from_nanos(1_000_000_000 / u64::from(hertz.max(1)))
}

pub(super) fn check_frequency(hertz: u32) -> Result<(), OptionError> {
    match hertz {
        1..=MAX_FREQUENCY => Ok(()),
        _ => Err(OptionError::Frequency { hertz }),
    }
}

pub(super) fn check_interval(interval: Duration) -> Result<(), OptionError> {
    if interval >= MIN_INTERVAL { Ok(()) } else { Err(OptionError::Interval { interval }) }
}

pub(super) fn check_jitter(share: f64) -> Result<(), OptionError> {
    // Not a number is in no range.
    if (0.0..=1.0).contains(&share) { Ok(()) } else { Err(OptionError::Jitter { share }) }
}

/// Checks that each kind of samples has one trigger.
pub(super) fn check_triggers(triggers: &[Trigger]) -> Result<(), OptionError> {
    const MAX: usize = 64;
    let kinds = |trigger: &Trigger| trigger.kinds(Duration::ZERO);
    let wrong = (0..triggers.len()).find(|&index| {
        let is_same = |other: &Trigger| kinds(other) == kinds(&triggers[index]);
        index >= MAX || triggers[..index].iter().any(is_same)
    });
    match wrong {
        Some(index) => Err(OptionError::Triggers { trigger: triggers[index].to_string() }),
        None => Ok(()),
    }
}

/// Shortest and longest time of a walk.
const WALK_TIME: std::ops::RangeInclusive<Duration> = Duration::from_micros(20)..=Duration::from_secs(4);

pub(super) fn check_walk_time(longest: Duration) -> Result<(), OptionError> {
    if WALK_TIME.contains(&longest) { Ok(()) } else { Err(OptionError::WalkTime { longest }) }
}

pub(super) fn check_ring(bytes: u32) -> Result<(), OptionError> {
    if RING.contains(&bytes) && bytes.is_power_of_two() {
        return Ok(());
    }
    Err(OptionError::RingSize { bytes })
}

/// Checks that all `pids` are ids of running processes.
pub(super) fn check_pids(pids: &Pids) -> Result<(), OptionError> {
    pids.only().into_iter().flatten().try_for_each(|&pid| check_pid(pid))
}

fn check_pid(pid: u32) -> Result<(), OptionError> {
    match process_of(pid) {
        None => Err(OptionError::NoProcess { pid }),
        Some(process) if process != pid => Err(OptionError::Thread { tid: pid, pid: process }),
        Some(_) => Ok(()),
    }
}

/// Returns those of `pids` that are ids of running processes, and adds the errors of the others to `skipped`. The profiler
/// runs with or without this program.
pub(super) fn running_pids(
    pids: &Pids,
    includes_self: bool,
    skipped: &mut Vec<OptionError>,
) -> Result<Pids, OptionError> {
    let Some(ids) = pids.only() else { return Ok(Pids::All) };
    if !includes_self && ids.contains(&std::process::id()) {
        return Err(OptionError::ExcludedSelf);
    }
    let is_running = |&pid: &u32| check_pid(pid).map_err(|error| skipped.push(error)).is_ok();
    Ok(ids.iter().copied().filter(is_running).collect())
}

/// Returns the process of a thread: `Tgid:` in its status.
fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_thread_is_rejected_with_id_of_its_process() {
        let own = std::process::id();
        assert!(check_pids(&[own].into()).is_ok());
        // Every test runs in a thread that is not the first of this process.
        let stat = fs::read_link("/proc/thread-self").unwrap();
        let tid: u32 = stat.file_name().and_then(|name| name.to_str()).unwrap().parse().unwrap();
        assert_ne!(tid, own);
        let error = check_pids(&[own, tid].into()).unwrap_err();
        assert!(matches!(error, OptionError::Thread { pid, .. } if pid == own));
        assert!(error.to_string().contains(&format!("process {own}")), "{error}");
        assert!(matches!(check_pids(&[u32::MAX].into()), Err(OptionError::NoProcess { pid: u32::MAX })));
        let mut skipped = Vec::new();
        let running = running_pids(&[own, tid, u32::MAX].into(), true, &mut skipped);
        assert_eq!(running, Ok([own].into()));
        skipped.sort_by_key(|error| matches!(error, OptionError::Thread { .. }));
        assert_eq!(
            skipped,
            [OptionError::NoProcess { pid: u32::MAX }, OptionError::Thread { tid, pid: own }]
        );
        assert_eq!(running_pids(&[own].into(), false, &mut skipped), Err(OptionError::ExcludedSelf));
        assert_eq!(running_pids(&Pids::All, false, &mut skipped), Ok(Pids::All));
        assert_eq!(running_pids(&[u32::MAX].into(), false, &mut skipped), Ok(Pids::none()));
    }

    #[test]
    fn values_outside_their_range_are_rejected_with_the_range() {
        let text = |result: Result<(), OptionError>| result.unwrap_err().to_string();
        assert!(text(check_frequency(0)).contains("1 to 10000"));
        assert!(text(check_frequency(10_001)).contains("1 to 10000"));
        assert!(text(check_interval(Duration::ZERO)).contains("at least 10 ms"));
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(text(check_jitter(share)).contains("from 0 to 1"));
        }
        for bytes in [0, 1, 65_537, 100_000, u32::MAX] {
            assert!(text(check_ring(bytes)).contains("65536 to 1073741824"));
        }
        assert!(check_frequency(10_000).is_ok() && check_interval(MIN_INTERVAL).is_ok());
        assert!(check_jitter(1.0).is_ok() && check_ring(65_536).is_ok() && check_ring(1 << 30).is_ok());
    }
}
