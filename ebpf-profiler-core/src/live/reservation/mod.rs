//! Reservation of CPU time for a profiler's threads.
//!
//! ```text
//!   thread ── enters ──► member ──► has work, waits for a CPU ──► SCHED_DEADLINE, its part of the share
//!                          ▲                                        │
//!                          └───────── a CPU has nothing to do ◄─────┘
//! ```
//!
//! A separate thread, the governor, checks the members while one of them has work.

mod member;

mod scheduler;

use std::fs::File;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::member::{Member, Situation};
use self::scheduler::Policy;
use super::error::OptionError;
use super::{cpus, perf};

/// A share of the CPU time of the machine that the kernel keeps free for a profiler: for
/// [`Builder::reserve`].
///
/// On a saturated machine a profiler loses samples. Control groups, and by default also sessions
/// (`kernel.sched_autogroup_enabled`), get equal shares of the CPUs, whatever the niceness of a
/// thread: beside 60 busy sessions a profiler has 1/61 of the machine. A reservation is independent
/// of that. Threads of the profiler that wait for a CPU more than half of the time get the policy
/// `SCHED_DEADLINE`, by which the kernel guarantees them their part of the share in each 20 ms, and
/// stops them when it is used up. On a machine that has time to spare nothing is reserved.
///
/// | the kernel rejects | then |
/// | --- | --- |
/// | `SCHED_DEADLINE`: the process may not use all CPUs (cpuset), or other reservations leave too little | `SCHED_RR` at the lowest priority; every 20 ms a thread that exceeds its part loses it |
/// | both: no CAP_SYS_NICE, a filter of system calls, `RestrictRealtime=yes` of systemd | niceness -10, if that is permitted |
///
/// [`Health::reservation`](super::Health::reservation) says which one it is. A share of the session
/// (`/proc/self/autogroup`) is not changed, as it would apply to all programs of the session.
///
/// # Effect on your program
///
/// Other threads wait while a reservation is used, for at most the share of each period. The
/// profiler's own threads take part, and the thread that calls [`Builder::start`],
/// [`Profiler::finish`] or [`Profiler::stop`], until the call returns. Other threads of
/// your program can [enter](Reservation::enter). Threads and processes that a member starts have
/// the default policy.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Reservation};
///
/// let profiler = Profiler::builder()
///     .reserve(Reservation::cpu(0.05))
///     .unwind(ebpf_profiler_unwind::tables())
///     .start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Builder::reserve`]: super::Builder::reserve
/// [`Builder::start`]: super::Builder::start
/// [`Profiler::finish`]: super::Profiler::finish
/// [`Profiler::stop`]: super::Profiler::stop
#[doc(alias("SCHED_DEADLINE", "SCHED_RR", "real-time"))]
#[derive(Clone, Debug)]
pub struct Reservation(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Share of the CPU time of all CPUs.
    share: f64,
    /// CPUs of the machine.
    online: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    next_id: u64,
    /// A governor runs.
    is_governed: bool,
    stats: ReservationStats,
}

/// State of a [`Reservation`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReservationStats {
    /// Share of the CPU time of all CPUs.
    pub share: f64,
    /// Policy of threads that need it.
    pub policy: ReservedBy,
    /// Number of times that a thread got a part because it waited for a CPU.
    pub grants: u64,
}

/// Kernel policy of a [`Reservation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservedBy {
    /// `SCHED_DEADLINE`.
    #[default]
    Deadline,
    /// `SCHED_RR`, bounded by the profiler.
    RoundRobin,
    /// The kernel rejects both: CAP_SYS_NICE is missing, or with control groups of version 1 the
    /// one of this process permits no real-time threads (`cpu.rt_runtime_us` is 0).
    Nothing,
}

/// The part that a thread has in a [`Reservation`], until it is dropped.
#[derive(Debug)]
#[must_use = "the thread leaves the reservation when this is dropped"]
pub struct Reserved {
    inner: Arc<Inner>,
    id: u64,
    is_busy: Arc<AtomicBool>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Reservation {
    /// Returns a reservation of a share of the CPU time of all CPUs, above 0 and up to 0.5. At most
    /// one CPU is reserved.
    pub fn cpu(share: f64) -> Reservation {
        let state =
            State { stats: ReservationStats { share, ..ReservationStats::default() }, ..State::default() };
        let online = cpus::online().map_or(1, |cpus| cpus.len());
        Reservation(Arc::new(Inner { share, online, state: Mutex::new(state), left: Condvar::new() }))
    }

    /// Lets this thread take part until the result is dropped.
    ///
    /// A thread that already has a real-time policy keeps it.
    pub fn enter(&self) -> Reserved {
        self.enter_with(None)
    }

    /// Lets this thread take part with a fixed part, whether it waits or not: work that is little,
    /// but always urgent.
    pub(super) fn enter_first(&self) -> Reserved {
        self.enter_with(Some(self.0.cpus() * FIRST_PART))
    }

    /// Lets this thread take part with a fixed part beside those of the others: it works only while
    /// another one waits for it.
    pub(super) fn enter_on_behalf(&self) -> Reserved {
        self.enter_as(Some((self.0.cpus() * BEHALF_PART).min(MAX_BEHALF)), true)
    }

    /// Ends the part of another thread of this process, which is stuck.
    pub(super) fn expel(&self, tid: u32) {
        self.0.remove(|member| member.tid == tid);
    }

    /// Returns the state.
    pub fn stats(&self) -> ReservationStats {
        self.0.lock().stats
    }

    pub(super) fn check(&self) -> Result<(), OptionError> {
        let share = self.0.share;
        // Not a number is in no range.
        if share > 0.0 && share <= 0.5 { Ok(()) } else { Err(OptionError::Reservation { share }) }
    }

    fn enter_with(&self, fixed: Option<f64>) -> Reserved {
        self.enter_as(fixed, false)
    }

    fn enter_as(&self, fixed: Option<f64>, is_on_behalf: bool) -> Reserved {
        let tid = perf::this_thread();
        let former = Policy::of(tid).ok().filter(|policy| policy.is_ordinary());
        let mut state = self.0.lock();
        let id = state.next_id;
        state.next_id += 1;
        let mut is_busy = Arc::default();
        let is_new = state.members.iter().all(|member| member.tid != tid);
        if let Some(former) = former.filter(|_| is_new) {
            let mut member = Member::new(id, tid, former, fixed);
            member.is_on_behalf = is_on_behalf;
            if fixed.is_none() && self.0.machine().is_contended() {
                member.is_reserved = true;
                state.stats.grants += 1;
            }
            is_busy = member.is_busy.clone();
            state.members.push(member);
            self.0.divide(&mut state);
            self.0.govern(&mut state);
        }
        Reserved { inner: self.0.clone(), id, is_busy, _of_this_thread: PhantomData }
    }
}

impl Reserved {
    /// Sets that this thread has work to do, or none.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.inner.remove(|member| member.id == self.id);
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left a valid value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a member, whose thread gets its former policy.
    fn remove(&self, is_it: impl Fn(&Member) -> bool) {
        let mut state = self.lock();
        let Some(index) = state.members.iter().position(is_it) else { return };
        let member = state.members.swap_remove(index);
        if member.set.is_some() {
            // Permitted always.
            let _ = member.former.set(member.tid);
        }
        self.divide(&mut state);
        if state.members.is_empty() {
            self.left.notify_all();
        }
    }

    /// Returns the number of CPUs that may be reserved.
    fn cpus(&self) -> f64 {
        (self.share * self.online as f64).clamp(0.0, MAX_CPUS)
    }

    fn machine(&self) -> Machine {
        Machine { cpus: self.online, runnable: scheduler::open_runnable() }
    }

    /// Starts the governor, unless it runs.
    fn govern(self: &Arc<Inner>, state: &mut State) {
        if state.is_governed || state.stats.policy == ReservedBy::Nothing {
            return;
        }
        let inner = self.clone();
        let thread = std::thread::Builder::new().name("ebpf-share".to_owned());
        // Without it, members keep what they have.
        state.is_governed = thread.spawn(move || inner.run()).is_ok();
    }

    /// Checks the members until there are none.
    fn run(&self) {
        let tid = perf::this_thread();
        // A real-time policy first: nothing else would free it after a stall (see `Member::check`), and it
        // never works long.
        let is_real_time = scheduler::is_real_time_unlimited() && Policy::round_robin().set(tid).is_ok();
        if !is_real_time {
            let _ = Policy::deadline(GOVERNOR_PART).set(tid);
        }
        let machine = self.machine();
        let mut checked = Instant::now();
        let mut state = self.lock();
        while !state.members.is_empty() {
            let wait = interval(&state);
            state = self.left.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            let elapsed = checked.elapsed();
            if elapsed >= REAL_TIME_CHECK / 2 {
                checked = Instant::now();
                self.check(&mut state, elapsed, &machine);
            }
        }
        state.is_governed = false;
    }

    fn check(&self, state: &mut State, elapsed: Duration, machine: &Machine) {
        if !state.members.iter().any(Member::is_checked) {
            return;
        }
        let by = state.stats.policy;
        let situation = Situation { elapsed, is_contended: machine.is_contended(), by };
        for member in state.members.iter_mut().filter(|member| member.is_checked()) {
            let was_reserved = member.is_reserved;
            member.check(member.read(), situation);
            state.stats.grants += u64::from(member.is_reserved && !was_reserved);
        }
        self.divide(state);
    }

    /// Divides the share among the members that need it.
    fn divide(&self, state: &mut State) {
        let State { members, stats, .. } = state;
        for (part, member) in parts(members, self.cpus()).into_iter().zip(members) {
            set(member, part, &mut stats.policy);
        }
    }
}

/// Returns the time for which a thread of this process has waited for a CPU since its start.
pub(super) fn waited(tid: u32) -> Duration {
    scheduler::Times::open(tid).and_then(|file| scheduler::Times::read(&file)).unwrap_or_default().wait
}

/// Returns the part of each member in a number of CPUs.
fn parts(members: &[Member], cpus: f64) -> Vec<f64> {
    let counted = members.iter().filter(|member| !member.is_on_behalf);
    let fixed: f64 = counted.filter_map(|member| member.fixed).sum();
    let all: f64 = members.iter().map(Member::weight).sum();
    let rest = (cpus - GOVERNOR_PART - fixed).max(0.0);
    let part = |member: &Member| member.fixed.unwrap_or(rest * member.weight() / all.max(1.0));
    members.iter().map(part).collect()
}

/// Gives a member its part, or its former policy.
fn set(member: &mut Member, part: f64, by: &mut ReservedBy) {
    let is_wanted = member.is_reserved && *by != ReservedBy::Nothing;
    let with_credit = *by != ReservedBy::RoundRobin || member.has_credit();
    let wanted = is_wanted.then_some((part, with_credit));
    if wanted == member.set {
        return;
    }
    let is_set = match (wanted, *by) {
        (Some(_), ReservedBy::Deadline) => Policy::deadline(part).set(member.tid).is_ok(),
        (Some((_, true)), _) => {
            scheduler::is_real_time_unlimited() && Policy::round_robin().set(member.tid).is_ok()
        }
        _ => member.former.set(member.tid).is_ok(),
    };
    if is_set {
        if wanted.is_none() && *by == ReservedBy::Deadline {
            member.leave();
        }
        member.set = wanted;
    } else if is_wanted {
        *by = match *by {
            ReservedBy::Deadline => ReservedBy::RoundRobin,
            _ => ReservedBy::Nothing,
        };
        set(member, part, by);
    }
}

/// Returns the time until the next check.
fn interval(state: &State) -> Duration {
    let State { members, stats, .. } = state;
    if !members.iter().any(|member| member.is_urgent(stats.policy)) {
        IDLE_CHECK
    } else if stats.policy == ReservedBy::RoundRobin && members.iter().any(|member| member.is_reserved) {
        REAL_TIME_CHECK
    } else {
        CHECK
    }
}

/// Demand for the CPUs.
struct Machine {
    cpus: usize,
    runnable: Option<File>,
}

impl Machine {
    /// Returns `true` if more threads are ready to run than there are CPUs.
    fn is_contended(&self) -> bool {
        let runnable = self.runnable.as_ref().and_then(scheduler::read_runnable);
        runnable.is_none_or(|runnable| runnable > self.cpus)
    }
}

/// Maximum number of CPUs in a reservation: the profiler works in one thread at a time, most of the
/// time.
const MAX_CPUS: f64 = 1.0;

/// Part of a reservation for work that is always urgent.
const FIRST_PART: f64 = 0.2;

/// Part of a reservation for a thread that works while another one waits for it.
const BEHALF_PART: f64 = 0.4;

/// Maximum of such a part, in CPUs: there are some of them.
const MAX_BEHALF: f64 = 0.2;

/// Part of one CPU for the governor.
const GOVERNOR_PART: f64 = 0.01;

/// Interval between two checks while a member has work.
const CHECK: Duration = Duration::from_millis(50);

/// The same while a member has a real-time policy, which the kernel doesn't bound.
const REAL_TIME_CHECK: Duration = Duration::from_millis(20);

/// Interval between two checks while none has.
const IDLE_CHECK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_outside_their_range_are_rejected() {
        for share in [0.0, -0.1, 0.6, f64::NAN, f64::INFINITY] {
            let error = Reservation::cpu(share).check().unwrap_err();
            assert!(error.to_string().contains("above 0 % and up to 50 %"), "{error}");
            // Without effect, but no panic.
            drop(Reservation::cpu(share).enter());
        }
        assert_eq!(Reservation::cpu(0.25).check(), Ok(()));
    }

    #[test]
    fn thread_has_its_former_policy_after_it_left() {
        let tid = perf::this_thread();
        let before = Policy::of(tid).unwrap();
        let reservation = Reservation::cpu(0.1);
        let reserved = reservation.enter_first();
        drop(reservation.enter());
        // The kernel permits it to some, and says so.
        let is_reserved = !Policy::of(tid).unwrap().is_ordinary();
        assert_eq!(is_reserved, reservation.stats().policy != ReservedBy::Nothing);
        drop(reserved);
        assert_eq!(Policy::of(tid).unwrap(), before);
    }

    #[test]
    fn members_share_what_is_reserved() {
        let member = |id, fixed, is_reserved| {
            let mut member = Member::new(id, u32::MAX, Policy::default(), fixed);
            member.is_reserved = is_reserved;
            member
        };
        let mut members = vec![member(1, Some(0.1), true), member(2, None, false), member(3, None, true)];
        let all = 0.5 - GOVERNOR_PART;
        assert_eq!(parts(&members, 0.5), [0.1, 0.0, all - 0.1]);
        members.push(member(4, None, true));
        assert!((parts(&members, 0.5).iter().sum::<f64>() - all).abs() < 1e-9);
        assert_eq!(parts(&members, 0.05).iter().skip(1).sum::<f64>(), 0.0);
    }
}
