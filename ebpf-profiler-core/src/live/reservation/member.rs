//! One thread of a reservation: what it gets, and when.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ReservedBy;
use super::scheduler::{Policy, Times};

/// Part of the share that an inactive thread keeps, as a weight beside the 1 of an active one.
const INACTIVE: f64 = 0.05;

/// Time without work after which a thread is inactive.
const INACTIVE_AFTER: Duration = Duration::from_millis(150);

/// Time for which a thread may exceed its share with a real-time policy.
const BURST: Duration = Duration::from_millis(40);

/// A thread of a reservation.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) tid: u32,
    /// Its policy outside of the reservation.
    pub(super) former: Policy,
    /// The part of one CPU that it always has; `None` if it has one only while it gets less by its former policy.
    pub(super) fixed: Option<f64>,
    /// `true` if it works only while another member waits for it.
    pub(super) is_on_behalf: bool,
    /// `true` while it has work.
    pub(super) is_busy: Arc<AtomicBool>,
    /// `true` while it has a part of the reservation.
    pub(super) is_reserved: bool,
    /// Part of one CPU, and kind of policy, that were set last.
    pub(super) set: Option<(f64, bool)>,
    /// File with its times.
    file: Option<File>,
    /// Times at the last check.
    times: Times,
    /// Time since it last worked.
    idle: Duration,
    /// Time that is left of its share with a real-time policy, in nanoseconds.
    credit: i64,
}

/// The machine at a check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Time since the last check.
    pub(super) elapsed: Duration,
    /// `true` if more threads are ready to run than there are CPUs.
    pub(super) is_contended: bool,
}

impl Member {
    pub(super) fn new(id: u64, tid: u32, former: Policy, fixed: Option<f64>) -> Member {
        let file = Times::open(tid);
        Member {
            times: file.as_ref().and_then(Times::read).unwrap_or_default(),
            file,
            id,
            tid,
            former,
            fixed,
            is_on_behalf: false,
            is_busy: Arc::new(AtomicBool::new(true)),
            is_reserved: fixed.is_some(),
            set: None,
            idle: Duration::ZERO,
            credit: BURST.as_nanos() as i64,
        }
    }

    /// Returns `true` if its times have to be read.
    pub(super) fn is_checked(&self, by: ReservedBy) -> bool {
        match self.fixed {
            // The kernel bounds a fixed part by itself, except with a real-time policy.
            Some(_) => by == ReservedBy::RoundRobin,
            None => self.is_reserved || self.is_busy.load(Ordering::Relaxed),
        }
    }

    /// Returns its weight in the division of the share.
    pub(super) fn weight(&self) -> f64 {
        if self.fixed.is_some() || !self.is_reserved {
            0.0
        } else if self.is_busy.load(Ordering::Relaxed) && self.idle < INACTIVE_AFTER {
            1.0
        } else {
            INACTIVE
        }
    }

    /// Reads its times. Those at the last check if it has none.
    pub(super) fn read(&self) -> Times {
        self.file.as_ref().and_then(Times::read).unwrap_or(self.times)
    }

    /// Decides by its times since the last check whether it needs the reservation.
    ///
    /// | has | and | then |
    /// | --- | --- | --- |
    /// | its former policy | waited for a CPU for more than half of the time | reserved |
    /// | the reservation | used it up, while a CPU has nothing else to do | not reserved |
    pub(super) fn check(&mut self, times: Times, situation: Situation) {
        let Situation { elapsed, is_contended } = situation;
        let run = times.run.saturating_sub(self.times.run);
        let wait = times.wait.saturating_sub(self.times.wait);
        self.times = times;
        self.idle = if run + wait < elapsed / 50 { self.idle + elapsed } else { Duration::ZERO };
        let share = self.set.map_or(0.0, |(share, _)| share);
        let granted = elapsed.mul_f64(share);
        let credit =
            self.credit.saturating_add(granted.as_nanos() as i64).saturating_sub(run.as_nanos() as i64);
        let most = BURST.as_nanos() as i64;
        self.credit = credit.clamp(-most * 25, most);
        self.is_reserved = if self.fixed.is_some() {
            true
        } else if self.is_reserved {
            is_contended || run < granted.mul_f64(0.9)
        } else {
            wait > elapsed / 2
        };
    }

    /// Returns `true` if it may run with a real-time policy until the next check.
    pub(super) fn has_credit(&self) -> bool {
        self.credit > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    struct Thread {
        member: Member,
        times: Times,
    }

    impl Thread {
        fn new() -> Thread {
            let mut member = Member::new(1, 0, Policy::default(), None);
            member.set = Some((0.25, true));
            Thread { member, times: Times::default() }
        }

        /// Checks it after it ran and waited for so many milliseconds of a tick.
        fn check(&mut self, run: u64, wait: u64, is_contended: bool) -> bool {
            self.times.run += Duration::from_millis(run);
            self.times.wait += Duration::from_millis(wait);
            self.member.check(self.times, Situation { elapsed: TICK, is_contended });
            self.member.is_reserved
        }
    }

    #[test]
    fn thread_that_waits_for_a_cpu_is_reserved_until_a_cpu_is_free() {
        let mut thread = Thread::new();
        assert!(!thread.check(20, 0, true), "it has what it needs");
        assert!(!thread.check(12, 8, true));
        assert!(!thread.check(0, 0, true), "it sleeps");
        assert!(thread.check(1, 19, true));
        assert!(thread.check(5, 15, true), "used up, but nothing is free");
        assert!(thread.check(1, 0, false), "needs less than it has");
        assert!(!thread.check(5, 15, false), "a CPU is free");
    }

    #[test]
    fn thread_without_work_keeps_little() {
        let mut thread = Thread::new();
        assert_eq!(thread.member.weight(), 0.0);
        thread.check(0, 20, true);
        assert_eq!(thread.member.weight(), 1.0);
        for _ in 0..8 {
            thread.check(0, 0, true);
        }
        assert_eq!(thread.member.weight(), INACTIVE);
        thread.check(2, 2, true);
        assert_eq!(thread.member.weight(), 1.0);
    }

    #[test]
    fn credit_bounds_a_real_time_policy() {
        let mut thread = Thread::new();
        let (mut ran, ticks) = (0, 5000);
        for _ in 0..ticks {
            let run = if thread.member.has_credit() { 20 } else { 0 };
            ran += run;
            thread.check(run, 20 - run, true);
        }
        let share = ran as f64 / f64::from(ticks * 20);
        assert!((0.24..0.26).contains(&share), "{share}");
    }
}
