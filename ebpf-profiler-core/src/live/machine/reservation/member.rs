//! One thread of a reservation: what it gets, and when.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ReservedBy;
use super::scheduler::{self, Change, LONG_PERIOD, PERIOD, Policy, Thread, Times};

/// Part of the share that an inactive thread keeps, as a weight beside the 1 of an active one.
const INACTIVE: f64 = 0.05;

/// Time without work after which a thread is inactive.
const INACTIVE_AFTER: Duration = Duration::from_millis(150);

/// Time for which a thread may exceed its share with a real-time policy.
const BURST: Duration = Duration::from_millis(40);

/// Maximum time by which a thread exceeds its part in ordinary work: the kernel notices it at the
/// next timer interrupt.
const OVERRUN: Duration = Duration::from_millis(10);

/// State that a member sets by itself.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// `true` while the thread has no work.
    is_idle: AtomicBool,
    has_left: AtomicBool,
}

impl Signals {
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_idle.store(!is_busy, Ordering::Relaxed);
    }

    fn is_busy(&self) -> bool {
        !self.is_idle.load(Ordering::Relaxed)
    }

    /// Notes that it has left, or will be no member.
    pub(super) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

/// A thread of a reservation.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) thread: Thread,
    /// Its policy outside of the reservation.
    pub(super) former: Policy,
    /// The part of one CPU that it always has; `None` if it has one only while it gets less by its
    /// former policy.
    pub(super) fixed: Option<f64>,
    /// `true` if it works only while another member waits for it.
    pub(super) is_on_behalf: bool,
    pub(super) signals: Arc<Signals>,
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
    /// It waited for a CPU at the last check.
    waits: bool,
    /// Time that is left of its share with a real-time policy, in nanoseconds.
    credit: i64,
    /// Time until it may have the reservation again, see [`Member::leave`].
    away: Duration,
    /// Time for which it has the reservation and didn't run.
    still: Duration,
}

/// The machine at a check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Time since the last check.
    pub(super) elapsed: Duration,
    /// `true` if more threads are ready to run than there are CPUs.
    pub(super) is_contended: bool,
    /// Kernel policy of threads that have the reservation.
    pub(super) by: ReservedBy,
}

impl Member {
    pub(super) fn new(thread: Thread, former: Policy, fixed: Option<f64>, signals: Arc<Signals>) -> Member {
        let file = Times::open(thread);
        Member {
            times: file.as_ref().and_then(Times::read).unwrap_or_default(),
            file,
            thread,
            former,
            fixed,
            is_on_behalf: false,
            signals,
            is_reserved: fixed.is_some(),
            set: None,
            idle: Duration::ZERO,
            waits: false,
            credit: BURST.as_nanos() as i64,
            away: Duration::ZERO,
            still: Duration::ZERO,
        }
    }

    /// Returns `true` if it has work, as far as it could say so, or a part of the reservation.
    ///
    /// A thread that was woken and has not run yet couldn't. So where threads wait for CPUs, those
    /// without work are checked, too.
    pub(super) fn is_checked(&self) -> bool {
        self.is_reserved || self.fixed.is_some() || self.signals.is_busy()
    }

    /// Returns `true` if it has to be checked soon.
    pub(super) fn is_urgent(&self, by: ReservedBy) -> bool {
        // The kernel bounds a fixed part by itself, except with a real-time policy.
        self.is_checked() && (self.fixed.is_none() || by == ReservedBy::RoundRobin)
    }

    /// Returns `true` for a thread of another process that has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.process.is_some() && self.file.as_ref().and_then(Times::read).is_none()
    }

    /// Returns its weight in the division of the share.
    pub(super) fn weight(&self) -> f64 {
        if self.fixed.is_some() || !self.is_reserved {
            0.0
        } else if (self.signals.is_busy() || self.waits) && self.idle < INACTIVE_AFTER {
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
    /// | | exceeded it by far, see [`overrun`] | not reserved |
    /// | | ready to run for half a second, and didn't | not reserved |
    pub(super) fn check(&mut self, times: Times, situation: Situation) {
        let Situation { elapsed, is_contended, by } = situation;
        let run = times.run.saturating_sub(self.times.run);
        let wait = times.wait.saturating_sub(self.times.wait);
        let wait = if times == self.times { self.wait_until_now(elapsed) } else { wait };
        self.times = times;
        self.waits = wait > elapsed / 4;
        self.idle = if run + wait < elapsed / 50 { self.idle + elapsed } else { Duration::ZERO };
        let share = self.set.map_or(0.0, |(share, _)| share);
        let granted = elapsed.mul_f64(share);
        let credit =
            self.credit.saturating_add(granted.as_nanos() as i64).saturating_sub(run.as_nanos() as i64);
        let most = BURST.as_nanos() as i64;
        self.credit = credit.clamp(-most * 25, most);
        self.away = self.away.saturating_sub(elapsed);
        self.still = if self.set.is_some() && run.is_zero() { self.still + elapsed } else { Duration::ZERO };
        if by == ReservedBy::Deadline {
            self.away += overrun(run, granted, share);
        }
        let is_stopped = self.still >= STOPPED && scheduler::is_ready(self.thread);
        self.is_reserved = if !self.away.is_zero() || is_stopped {
            false
        } else if self.fixed.is_some() {
            true
        } else if self.is_reserved {
            is_contended || run < granted.mul_f64(0.9)
        } else {
            wait > elapsed / 2
        };
    }

    /// Returns how long it has waited since the last check if its times are the same as then.
    ///
    /// The kernel counts a wait when it ends: in a control group with little CPU time, after
    /// seconds. A small part that was exceeded up to a timer interrupt takes some periods to pay back.
    fn wait_until_now(&self, elapsed: Duration) -> Duration {
        if scheduler::is_ready(self.thread) { elapsed } else { Duration::ZERO }
    }

    /// Notes that it lost the reservation, and decides when it may have it again.
    ///
    /// The kernel stops a thread with `SCHED_DEADLINE` that used up its part, until a timer. If the
    /// thread has another policy by then, the timer does nothing; if it has `SCHED_DEADLINE`
    /// again before the time that it exceeded its part by is paid back, it is stopped
    /// *for ever*: nothing starts it again (Linux 6.1, 6.12 and 6.18; `dl_task_timer` and
    /// `enqueue_task_dl`). A thread that leaves by itself runs, so it isn't stopped.
    pub(super) fn leave(&mut self, change: Change) {
        if let Some((share, _)) = self.set.take() {
            self.still = Duration::ZERO;
            self.away += PERIOD * 2 + scaled(OVERRUN, share);
            if change == Change::OfWoken {
                self.away += LONG_PERIOD;
            }
        }
    }

    /// Gives its thread the former policy, within a period.
    pub(super) fn restore(&self) {
        let begin = Instant::now();
        // Permitted always.
        while self.set.is_some() && self.former.set(self.thread).is_ok_and(|it| it == Change::Deferred) {
            if begin.elapsed() >= PERIOD {
                let _ = self.former.change(self.thread.tid);
                return;
            }
            std::thread::sleep(RESTORE_RETRY);
        }
    }

    /// Returns `true` if it may run with a real-time policy until the next check.
    pub(super) fn has_credit(&self) -> bool {
        self.credit > 0
    }
}

/// Returns the time in which a thread pays back that it ran for `run` instead of `granted`; 0 if a
/// timer interrupt explains it.
///
/// A thread exceeds its part by far when the CPU can't be taken from it: a virtual machine that was
/// paused, or a long section of the kernel. With `SCHED_DEADLINE` it would be stopped until that is
/// paid back: minutes, for a second and a small part.
fn overrun(run: Duration, granted: Duration, share: f64) -> Duration {
    let excess = run.saturating_sub(granted);
    if excess <= OVERRUN || share <= 0.0 { Duration::ZERO } else { scaled(excess, share) }
}

/// Returns the time in which a thread with a share has this much time of a CPU.
fn scaled(time: Duration, share: f64) -> Duration {
    let scaled = Duration::try_from_secs_f64(time.as_secs_f64() / share);
    scaled.map_or(MAX_AWAY, |scaled| scaled.min(MAX_AWAY))
}

/// Maximum time that a thread stays away from the reservation after one overrun.
const MAX_AWAY: Duration = Duration::from_secs(3600);

/// Wait before a thread that runs is tried again.
const RESTORE_RETRY: Duration = Duration::from_micros(200);

/// Time without a CPU after which a ready thread counts as stopped by the kernel.
const STOPPED: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    struct Checked {
        member: Member,
        times: Times,
        by: ReservedBy,
    }

    impl Checked {
        fn new() -> Checked {
            let mut member = Member::new(Thread::own(0), Policy::default(), None, Arc::default());
            member.set = Some((0.25, true));
            Checked { member, times: Times::default(), by: ReservedBy::Deadline }
        }

        /// Checks the member after it ran and waited for these numbers of milliseconds of a tick.
        fn check(&mut self, run: u64, wait: u64, is_contended: bool) -> bool {
            self.times.run += Duration::from_millis(run);
            self.times.wait += Duration::from_millis(wait);
            let situation = Situation { elapsed: TICK, is_contended, by: self.by };
            self.member.check(self.times, situation);
            self.member.is_reserved
        }
    }

    #[test]
    fn thread_that_waits_for_a_cpu_is_reserved_until_a_cpu_is_free() {
        let mut thread = Checked::new();
        assert!(!thread.check(20, 0, true), "it has what it needs");
        assert!(!thread.check(12, 8, true));
        assert!(!thread.check(0, 0, true), "it sleeps");
        assert!(thread.check(1, 19, true));
        assert!(thread.check(5, 15, true), "used up, but nothing is free");
        assert!(thread.check(1, 0, false), "needs less than it has");
        assert!(!thread.check(5, 15, false), "a CPU is free");
    }

    #[test]
    fn wait_that_has_not_ended_counts() {
        let mut thread = Checked::new();
        thread.member.set = None;
        assert!(!thread.check(0, 0, true), "it sleeps");
        // This thread is ready: it runs.
        thread.member.thread.tid = crate::live::machine::this_thread::id();
        assert!(thread.check(0, 0, true));
    }

    #[test]
    fn thread_that_ran_through_a_stall_has_its_former_policy_until_that_is_paid_back() {
        let mut thread = Checked::new();
        assert!(thread.check(1, 19, true));
        assert!(!thread.check(1005, 0, true), "1 s more than its quarter");
        thread.member.leave(Change::Made);
        let away = thread.member.away;
        assert_eq!(away, Duration::from_secs(4) + PERIOD * 2 + OVERRUN * 4);
        let mut checks = 0;
        while !thread.check(0, 20, true) {
            checks += 1;
            thread.member.leave(Change::Made);
        }
        assert_eq!(checks + 1, away.as_millis() / 20);
        thread.member.fixed = Some(0.25);
        thread.member.set = Some((0.25, true));
        assert!(thread.check(5, 15, true), "a timer interrupt late");
        assert!(!thread.check(1005, 0, true));
    }

    #[test]
    fn thread_that_is_stopped_leaves_the_reservation() {
        let mut thread = Checked::new();
        thread.member.fixed = Some(0.25);
        // This thread is ready: it runs.
        thread.member.thread.tid = crate::live::machine::this_thread::id();
        assert!((0..24).all(|_| thread.check(0, 20, true)));
        assert!(!thread.check(0, 20, true));
        thread.member.thread.tid = u32::MAX;
        assert!((0..100).all(|_| thread.check(0, 20, true)), "it sleeps");
    }

    #[test]
    fn thread_without_work_keeps_little() {
        let mut thread = Checked::new();
        assert_eq!(thread.member.weight(), 0.0);
        thread.check(0, 20, true);
        assert_eq!(thread.member.weight(), 1.0);
        for _ in 0..8 {
            thread.check(0, 0, true);
        }
        assert_eq!(thread.member.weight(), INACTIVE);
        thread.check(2, 2, true);
        assert_eq!(thread.member.weight(), 1.0);
        // This thread is ready: it runs.
        thread.member.thread.tid = crate::live::machine::this_thread::id();
        for _ in 0..8 {
            thread.check(0, 0, true);
        }
        assert_eq!(thread.member.weight(), 1.0, "it is stopped, but has work");
        thread.member.signals.set_busy(false);
        assert_eq!(thread.member.weight(), 1.0, "it couldn't say that it was woken");
        thread.check(1, 0, true);
        assert_eq!(thread.member.weight(), INACTIVE);
    }

    #[test]
    fn credit_bounds_a_real_time_policy() {
        let mut thread = Checked::new();
        thread.by = ReservedBy::RoundRobin;
        let (mut ran, ticks) = (0, 5000);
        for _ in 0..ticks {
            let run = if thread.member.has_credit() { 20 } else { 0 };
            ran += run;
            thread.check(run, 20 - run, true);
        }
        assert!(thread.member.away.is_zero(), "bursts are its credit");
        let share = ran as f64 / f64::from(ticks * 20);
        assert!((0.24..0.26).contains(&share), "{share}");
    }
}
