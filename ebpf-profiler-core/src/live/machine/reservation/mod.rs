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

mod spawn;

use std::fs::File;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::member::{Member, Signals, Situation};
use self::scheduler::{Change, Policy};
pub(in crate::live::machine) use self::scheduler::{Thread, is_ready};
pub(in crate::live) use self::spawn::spawn;
use super::broker::{Broker, WeakBroker};
use super::cpus;
use super::this_thread;
use crate::live::error::OptionError;

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
/// [`Health::reservation`](crate::live::Health::reservation) says which one it is. A share of the session
/// (`/proc/self/autogroup`) is not changed, as it would apply to all programs of the session.
///
/// # Effect on your program
///
/// Other threads wait while a reservation is used, for at most the share of each period. The
/// profiler's own threads take part, those of sinks and of a [`Broker`] included, and the thread
/// that calls [`Builder::start`], [`Profiler::finish`] or [`Profiler::stop`], until the call
/// returns. Other threads of your program can [enter](Reservation::enter). Threads and processes
/// that a member starts have the default policy.
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
/// [`Broker`]: crate::live::Broker
/// [`Builder::reserve`]: crate::live::Builder::reserve
/// [`Builder::start`]: crate::live::Builder::start
/// [`Profiler::finish`]: crate::live::Profiler::finish
/// [`Profiler::stop`]: crate::live::Profiler::stop
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
    /// Its threads work while members wait for them.
    broker: WeakBroker,
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
    signals: Arc<Signals>,
    /// It is dropped when the thread ends: the thread keeps its policy, to end soon.
    ends_with_thread: bool,
    _of_this_thread: PhantomData<*const ()>,
}

/// The way in which a thread takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) enum Part {
    /// It has a part while it waits for a CPU.
    Shared,
    /// A fixed part, whether it waits or not: work that is little, but always urgent.
    First,
    /// A fixed part in addition to the divided share: the thread works only while a member waits for
    /// it.
    OnBehalf,
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
        self.enter_as(Part::Shared)
    }

    /// Lets the threads of a broker take part, as long as there are members and the broker is not
    /// dropped. Of several profilers with the reservation, it is the broker of the last one.
    pub(super) fn include(&self, broker: &Broker) {
        self.0.lock().broker = broker.downgrade();
    }

    /// Ends the part of another thread of this process, which is stuck.
    pub(super) fn expel(&self, tid: u32) {
        let mut state = self.0.lock();
        self.0.remove(&mut state, false, |member| member.thread == Thread::own(tid));
    }

    /// Returns the state.
    pub fn stats(&self) -> ReservationStats {
        self.0.lock().stats
    }

    pub(in crate::live) fn check(&self) -> Result<(), OptionError> {
        let share = self.0.share;
        // Not a number is in no range.
        if share > 0.0 && share <= 0.5 { Ok(()) } else { Err(OptionError::Reservation { share }) }
    }

    fn enter_as(&self, part: Part) -> Reserved {
        let (tid, signals) = (this_thread::id(), Arc::default());
        self.0.add(Thread::own(tid), part, &signals);
        Reserved { inner: self.0.clone(), signals, ends_with_thread: false, _of_this_thread: PhantomData }
    }
}

impl Reserved {
    /// Sets that this thread has work to do, or none.
    pub(in crate::live) fn set_busy(&self, is_busy: bool) {
        self.signals.set_busy(is_busy);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.inner.leave(&self.signals, self.ends_with_thread);
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left a valid value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a thread of this process, unless it is a member, has a real-time policy, or has left
    /// again.
    fn add(self: &Arc<Inner>, thread: Thread, part: Part, signals: &Arc<Signals>) {
        let mut state = self.lock();
        let is_new = state.members.iter().all(|member| member.thread != thread) && !signals.has_left();
        let policy = Policy::of(thread.tid).ok().filter(|policy| policy.is_ordinary() && is_new);
        let Some(policy) = policy else { return };
        let starter = Thread::own(this_thread::id());
        let starter = state.members.iter().find(|member| member.thread == starter);
        // A thread that a member starts has the default policy.
        let former = starter.map_or(policy, |starter| starter.former);
        if former != policy {
            // The niceness at most.
            let _ = former.set(thread);
        }
        let mut member = Member::new(thread, former, self.fixed(part), signals.clone());
        member.is_on_behalf = part == Part::OnBehalf;
        if part == Part::Shared && self.machine().is_contended() {
            member.is_reserved = true;
            state.stats.grants += 1;
        }
        state.members.push(member);
        self.divide(&mut state);
        self.govern(&mut state);
    }

    /// Returns the fixed part of one CPU of a thread that takes part in this way.
    fn fixed(&self, part: Part) -> Option<f64> {
        match part {
            Part::Shared => None,
            Part::First => Some(self.cpus() * FIRST_PART),
            Part::OnBehalf => Some((self.cpus() * BEHALF_PART).min(MAX_BEHALF)),
        }
    }

    /// Removes the member with these signals.
    fn leave(&self, signals: &Arc<Signals>, keeps_policy: bool) {
        // Also one that is not added yet.
        let mut state = self.lock();
        signals.leave();
        self.remove(&mut state, keeps_policy, |member| Arc::ptr_eq(&member.signals, signals));
    }

    /// Removes a member, whose thread keeps its policy or gets its former one.
    fn remove(&self, state: &mut State, keeps_policy: bool, is_it: impl Fn(&Member) -> bool) {
        let Some(index) = state.members.iter().position(is_it) else { return };
        let member = state.members.swap_remove(index);
        if !keeps_policy {
            member.restore();
        }
        if state.members.iter().all(|member| member.thread.process.is_some()) {
            state.members.drain(..).for_each(|member| member.restore());
            self.left.notify_all();
        }
        self.divide(state);
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
        let Ok(thread) = thread.spawn(move || inner.run()) else { return };
        state.is_governed = true;
        if let Some(id) = scheduler::id(&thread) {
            prefer(id);
        }
    }

    /// Checks the members until there are none.
    fn run(&self) {
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
        let (is_contended, by) = (machine.is_contended(), state.stats.policy);
        let situation = Situation { elapsed, is_contended, by };
        if is_contended {
            self.include_broker(state);
        }
        for member in state.members.iter_mut().filter(|member| is_contended || member.is_checked()) {
            let was_reserved = member.is_reserved;
            member.check(member.read(), situation);
            state.stats.grants += u64::from(member.is_reserved && !was_reserved);
        }
        self.divide(state);
    }

    /// Lets the threads of the broker take part that do not yet.
    fn include_broker(&self, state: &mut State) {
        // While it is held, no other process has its id.
        if let Some(broker) = state.broker.upgrade() {
            self.include_threads(state, broker.id());
        }
    }

    fn include_threads(&self, state: &mut State, process: u32) {
        state.members.retain(|member| !member.has_ended());
        for thread in Thread::all_of(process).take(MAX_BROKER_THREADS) {
            let is_new = state.members.iter().all(|member| member.thread != thread);
            let policy = Policy::of(thread.tid).ok().filter(|policy| policy.is_ordinary() && is_new);
            if let Some(policy) = policy {
                let fixed = self.fixed(Part::OnBehalf);
                let mut member = Member::new(thread, policy, fixed, Arc::default());
                member.is_on_behalf = true;
                state.members.push(member);
            }
        }
    }

    /// Divides the share among the members that need it.
    fn divide(&self, state: &mut State) {
        let State { members, stats, .. } = state;
        for (part, member) in parts(members, self.cpus()).into_iter().zip(members) {
            set(member, part, &mut stats.policy);
        }
    }
}

/// Lets the governor run whenever it is ready, as it never works long.
///
/// It has a real-time policy where that is permitted. With `SCHED_DEADLINE` the kernel could stop
/// it after a stall, and nothing would free it: the governor frees the members, not itself (see
/// [`Member::check`]).
fn prefer(governor: u32) {
    let is_real_time =
        scheduler::is_real_time_unlimited() && Policy::round_robin().set(Thread::own(governor)).is_ok();
    if !is_real_time {
        let _ = Policy::deadline(GOVERNOR_PART).set(Thread::own(governor));
    }
}

/// Returns the time for which a thread has waited for a CPU since its start.
pub(super) fn waited(thread: Thread) -> Duration {
    scheduler::Times::open(thread).and_then(|file| scheduler::Times::read(&file)).unwrap_or_default().wait
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
    let changed = match (wanted, *by) {
        (Some(_), ReservedBy::Deadline) => Policy::deadline(part).set(member.thread).ok(),
        (Some((_, true)), _) if !scheduler::is_real_time_unlimited() => None,
        (Some((_, true)), _) => Policy::round_robin().set(member.thread).ok(),
        _ => member.former.set(member.thread).ok(),
    };
    match changed {
        // The next check tries it again.
        Some(Change::Deferred) => {}
        Some(change) => {
            if wanted.is_none() && *by == ReservedBy::Deadline {
                member.leave(change);
            }
            member.set = wanted;
        }
        None if is_wanted => {
            *by = match *by {
                ReservedBy::Deadline => ReservedBy::RoundRobin,
                _ => ReservedBy::Nothing,
            };
            set(member, part, by);
        }
        None => {}
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

/// Maximum number of threads of a broker that take part.
const MAX_BROKER_THREADS: usize = 4;

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
        let tid = this_thread::id();
        let before = Policy::of(tid).unwrap();
        let reservation = Reservation::cpu(0.1);
        let reserved = reservation.enter_as(Part::First);
        drop(reservation.enter());
        // The kernel permits it to some, and says so.
        let is_reserved = !Policy::of(tid).unwrap().is_ordinary();
        assert_eq!(is_reserved, reservation.stats().policy != ReservedBy::Nothing);
        drop(reserved);
        assert_eq!(Policy::of(tid).unwrap(), before);
    }

    #[test]
    fn threads_of_a_broker_take_part_until_the_last_member_leaves() {
        let mut broker = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (reservation, process) = (Reservation::cpu(0.1), broker.id());
        let reserved = reservation.enter();
        let threads = || -> Vec<_> {
            let mut state = reservation.0.lock();
            reservation.0.include_threads(&mut state, process);
            state
                .members
                .iter()
                .filter(|member| member.thread.process.is_some())
                .map(|it| it.thread.tid)
                .collect()
        };
        assert_eq!((threads(), threads()), (vec![process], vec![process]));
        drop(reserved);
        assert_eq!(reservation.0.lock().members.len(), 0);
        let reserved = reservation.enter();
        assert_eq!(threads(), [process]);
        broker.kill().unwrap();
        broker.wait().unwrap();
        assert_eq!(threads(), []);
        drop(reserved);
    }

    #[test]
    fn members_share_what_is_reserved() {
        let member = |fixed, is_reserved| {
            let mut member = Member::new(Thread::own(u32::MAX), Policy::default(), fixed, Arc::default());
            member.is_reserved = is_reserved;
            member
        };
        let mut members = vec![member(Some(0.1), true), member(None, false), member(None, true)];
        let all = 0.5 - GOVERNOR_PART;
        assert_eq!(parts(&members, 0.5), [0.1, 0.0, all - 0.1]);
        members.push(member(None, true));
        assert!((parts(&members, 0.5).iter().sum::<f64>() - all).abs() < 1e-9);
        assert_eq!(parts(&members, 0.05).iter().skip(1).sum::<f64>(), 0.0);
    }
}
