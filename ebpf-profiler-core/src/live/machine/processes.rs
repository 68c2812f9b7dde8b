//! The running processes, in the order in which they are of interest.

use std::fs;
use std::time::{Duration, Instant};

use super::clock;

/// Time for which processes are compared; others follow in the order of `/proc`.
const MAX_TIME: Duration = Duration::from_millis(50);

/// Returns the running processes, those that use the most CPU time first.
pub(super) fn busiest_first() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let (now, end) = (clock::read(libc::CLOCK_BOOTTIME), Instant::now() + MAX_TIME);
    let mut busy = Vec::new();
    for &pid in pids.iter().take_while(|_| Instant::now() < end) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        busy.push((parse_demand(&stat, now).unwrap_or_default(), pid));
    }
    let rest = pids[busy.len()..].iter().copied();
    busy.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    busy.into_iter().map(|(_, pid)| pid).chain(rest).collect()
}

/// Returns the share of a CPU that a process has used since its start, plus 1 if it is ready to
/// run. `now` is the time since the machine started, in nanoseconds.
fn parse_demand(stat: &str, now: u64) -> Option<f64> {
    const TICKS_PER_SECOND: u64 = 100;
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let (user, system, start) = (field(11)?, field(12)?, field(19)?);
    let age = (now / (1_000_000_000 / TICKS_PER_SECOND)).saturating_sub(start).max(1);
    let is_ready = f64::from(u8::from(*fields.first()? == "R"));
    Some(is_ready + (user + system) as f64 / age as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_processes_and_those_with_more_cpu_time_come_first() {
        let stat = |state: &str, user: u64, start: u64| {
            format!("7 (a) R (b) {state} 1 1 1 0 -1 4194560 1 0 0 0 {user} 5 0 0 20 0 1 0 {start} 1 1")
        };
        let now = 100 * 1_000_000_000;
        assert_eq!(parse_demand(&stat("S", 95, 9_000), now), Some(0.1));
        assert_eq!(parse_demand(&stat("R", 95, 9_000), now), Some(1.1));
        assert_eq!(parse_demand(&stat("S", 95, 9_800), now), Some(0.5));
        assert_eq!((parse_demand("", now), parse_demand("7 (a) R 1", now)), (None, None));
    }

    #[test]
    fn running_processes_hold_this_one_once() {
        let pids = busiest_first();
        assert_eq!(pids.iter().filter(|&&pid| pid == std::process::id()).count(), 1);
    }
}
