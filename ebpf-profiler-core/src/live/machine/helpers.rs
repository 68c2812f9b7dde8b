//! Calls that may never return: opening a file, reading memory whose pages another program
//! provides.
//!
//! ```text
//!   call ──► helper thread ──► answer
//!                 └─ none within the deadline ──► error; thread abandoned, process not read until it returns
//! ```
//!
//! | bound | value |
//! | --- | --- |
//! | one call | 250 ms while its thread waits, 5 s while it only waits for a CPU; then calls of its process fail until it returns, or for 10 s |
//! | calls of one process | 500 ms in 10 s, or one that exceeds its time; then its calls fail for 10 s, twice as long each further time |
//! | all slow calls | a fifth of the time; then calls that take longer than 10 ms fail |
//! | threads that have not returned | 64; then all calls fail |
//!
//! The first call that exceeds its time is forgiven when it returns: a file on a busy disk is opened a second later.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::broker::Broker;
use super::confine;
use super::reservation::{self, Part, Reservation, Thread, is_ready, waited};
use super::this_thread;

/// Maximum time of a call.
const DEADLINE: Duration = Duration::from_millis(250);

/// Maximum time of a call while slow calls have used up their share.
const SHORT_DEADLINE: Duration = Duration::from_millis(10);

/// Number of deadlines that a call has while its thread only waits for a CPU.
const CPU_DEADLINES: u32 = 20;

/// Time from which on a call is slow.
const SLOW: Duration = Duration::from_millis(2);

/// Maximum time of the slow calls of one process in [`WINDOW`].
const PER_PROCESS: Duration = Duration::from_millis(500);

/// Time in which slow calls of one process add up.
const WINDOW: Duration = Duration::from_secs(10);

/// First time for which the calls of a process fail. Doubles with each further one.
const PENALTY: Duration = Duration::from_secs(10);

/// Maximum number of times that [`PENALTY`] doubles.
const MAX_DOUBLINGS: u32 = 6;

/// Maximum time for slow calls that is saved up.
const MAX_CREDIT: Duration = Duration::from_secs(1);

/// Divides the elapsed time: the share of slow calls.
const SHARE: u32 = 5;

/// Maximum number of threads that have not returned.
const MAX_STUCK: usize = 64;

/// Maximum number of threads that wait for calls.
const MAX_IDLE: usize = 2;

/// Maximum number of processes with slow calls that are distinguished.
const MAX_PROCESSES: usize = 1 << 12;

/// Threads for calls that may never return.
#[derive(Clone, Debug, Default)]
pub(super) struct Helpers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    idle: Mutex<Vec<Helper>>,
    limits: Mutex<Limits>,
    stuck: AtomicUsize,
    abandoned: AtomicU64,
    is_confined: AtomicBool,
    /// The process that answers the threads, if there is one.
    broker: OnceLock<u32>,
    reservation: OnceLock<Reservation>,
}

/// A thread that makes calls.
#[derive(Debug)]
struct Helper {
    jobs: SyncSender<Job>,
    state: Arc<HelperState>,
}

#[derive(Debug, Default)]
struct HelperState {
    tid: AtomicU32,
    is_abandoned: AtomicBool,
    /// The call for which the thread was abandoned has returned.
    has_returned: AtomicBool,
    /// Time for which the thread waited for a CPU, as of its last slow call, in nanoseconds.
    waited: AtomicU64,
}

type Job = Box<dyn FnOnce() + Send>;

impl Helpers {
    /// Makes a call on behalf of a process.
    ///
    /// # Errors
    ///
    /// Fails with `TimedOut` if it does not return in time, or if earlier ones did not.
    pub(super) fn call<T: Send + 'static>(
        &self,
        pid: u32,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let shared = &self.0;
        let begun = Instant::now();
        let deadline = lock(&shared.limits).deadline(pid, begun).ok_or(io::ErrorKind::TimedOut)?;
        let helper = lock(&shared.idle).pop();
        let helper = helper.map_or_else(|| Helper::start(shared), Ok)?;
        let (reply, answer) = sync_channel(1);
        let job = Box::new(move || {
            let answer = call();
            // Where CPU time is scarce, the caller takes the answer much later: that is not the call's time.
            let _ = reply.send((answer, Instant::now()));
        });
        helper.jobs.send(job).map_err(|_| io::ErrorKind::BrokenPipe)?;
        let broker = shared.broker.get().copied();
        match helper.wait(&answer, deadline, broker) {
            Ok((answer, ended)) => {
                let elapsed = ended.saturating_duration_since(begun);
                if elapsed > SLOW {
                    // On a busy machine it is not the process that is slow.
                    let elapsed = elapsed.saturating_sub(helper.wait_for_cpu(broker));
                    if elapsed > SLOW {
                        lock(&shared.limits).charge(pid, begun, elapsed);
                    }
                }
                let mut idle = lock(&shared.idle);
                if idle.len() < MAX_IDLE {
                    idle.push(helper);
                }
                answer
            }
            Err(RecvTimeoutError::Timeout) => {
                let abandoned = shared.abandon(helper);
                lock(&shared.limits).exceed(pid, begun, begun.elapsed(), abandoned);
                Err(io::ErrorKind::TimedOut.into())
            }
            // It panicked.
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::Other.into()),
        }
    }

    /// Lets threads that start later take part in a reservation.
    pub(super) fn reserve(&self, reservation: Option<Reservation>) {
        if let Some(reservation) = reservation {
            // There is one for each profiler.
            let _ = self.0.reservation.set(reservation);
        }
    }

    /// Notes that the threads wait for the answers of a broker.
    pub(super) fn answered_by(&self, broker: &Broker) {
        // There is one for each profiler.
        let _ = self.0.broker.set(broker.id());
        if let Some(reservation) = self.0.reservation.get() {
            reservation.include(broker);
        }
    }

    /// Confines threads that start later to the system calls of a profiler.
    pub(super) fn confine(&self, is_confined: bool) {
        self.0.is_confined.store(is_confined, Ordering::Relaxed);
    }

    /// Returns the number of calls that did not return in time.
    pub(super) fn abandoned(&self) -> u64 {
        self.0.abandoned.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Abandons a thread. Returns its state.
    fn abandon(&self, helper: Helper) -> Arc<HelperState> {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        self.stuck.fetch_add(1, Ordering::Relaxed);
        // Before the end of its channel ends the thread.
        helper.state.is_abandoned.store(true, Ordering::Release);
        if let Some(reservation) = self.reservation.get() {
            reservation.expel(helper.state.tid.load(Ordering::Relaxed));
        }
        helper.state
    }
}

impl Helper {
    fn start(shared: &Arc<Shared>) -> io::Result<Helper> {
        if shared.stuck.load(Ordering::Relaxed) >= MAX_STUCK {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (jobs, queue) = sync_channel::<Job>(1);
        let state = Arc::new(HelperState::default());
        let (in_thread, reservation) = (state.clone(), shared.reservation.get());
        let is_confined = shared.is_confined.load(Ordering::Relaxed);
        let shared = Arc::downgrade(shared);
        let thread = std::thread::Builder::new().name("ebpf-helper".to_owned()).stack_size(STACK);
        reservation::spawn(reservation, Part::OnBehalf, thread, move |_| {
            in_thread.tid.store(this_thread::id(), Ordering::Relaxed);
            if is_confined {
                // Without effect if the thread that started this one is confined.
                let _ = confine::PROFILER.install();
            }
            queue.iter().for_each(|job| job());
            in_thread.has_returned.store(true, Ordering::Release);
            if let Some(shared) = shared.upgrade()
                && in_thread.is_abandoned.load(Ordering::Acquire)
            {
                shared.stuck.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Helper { jobs, state })
    }

    /// Waits for the answer. On a busy machine a thread without a CPU, or a broker without one, is given more
    /// time.
    fn wait<T>(
        &self,
        answer: &Receiver<T>,
        deadline: Duration,
        broker: Option<u32>,
    ) -> Result<T, RecvTimeoutError> {
        let mut received = answer.recv_timeout(deadline);
        for _ in 0..CPU_DEADLINES {
            if received.is_ok() || !(self.wants_cpu() || broker.is_some_and(has_ready_thread)) {
                break;
            }
            received = answer.recv_timeout(DEADLINE);
        }
        // It may have come while this thread had no CPU.
        received.or_else(|error| answer.try_recv().map_err(|_| error))
    }

    /// Returns the time for which the thread, and threads of a broker, waited for a CPU since the last time
    /// that this was asked.
    fn wait_for_cpu(&self, broker: Option<u32>) -> Duration {
        let own = waited(Thread::own(self.state.tid.load(Ordering::Relaxed)));
        let of_broker = |pid: u32| Thread::all_of(pid).map(waited).sum();
        let waited = own + broker.map_or(Duration::ZERO, of_broker);
        let before = self.state.waited.swap(waited.as_nanos() as u64, Ordering::Relaxed);
        waited.saturating_sub(Duration::from_nanos(before))
    }

    fn wants_cpu(&self) -> bool {
        let tid = self.state.tid.load(Ordering::Relaxed);
        // A new thread that has not run yet has not told its id.
        tid == 0 || is_ready(Thread::own(tid))
    }
}

/// Returns `true` if a thread of a process runs or waits for a CPU.
fn has_ready_thread(pid: u32) -> bool {
    Thread::all_of(pid).any(is_ready)
}

/// Stack of a helper thread, in bytes.
const STACK: usize = 256 << 10;

/// The time that slow calls have left.
#[derive(Debug, Default)]
struct Limits {
    processes: HashMap<u32, Slow>,
    /// Time that slow calls may take.
    credit: Duration,
    /// Time up to which `credit` is computed.
    at: Option<Instant>,
}

/// A process with slow calls.
#[derive(Debug)]
struct Slow {
    since: Instant,
    taken: Duration,
    /// Time until which its calls fail.
    until: Option<Instant>,
    /// The abandoned thread whose call is forgiven when it returns; `None` if it is not.
    forgiven: Option<Arc<HelperState>>,
    /// `true` if a call exceeded its time since `since`.
    has_exceeded: bool,
    penalties: u32,
}

impl Slow {
    /// Returns `true` if its calls fail.
    fn fails(&mut self, now: Instant) -> bool {
        if self.forgiven.as_ref().is_some_and(|thread| thread.has_returned.load(Ordering::Acquire)) {
            (self.forgiven, self.until) = (None, None);
            self.penalties -= 1;
        }
        self.until.is_some_and(|until| now < until)
    }
}

impl Limits {
    /// Returns the time that a call may take; `None` if the calls of the process fail.
    fn deadline(&mut self, pid: u32, now: Instant) -> Option<Duration> {
        if self.processes.get_mut(&pid).is_some_and(|slow| slow.fails(now)) {
            return None;
        }
        let elapsed = self.at.map_or(MAX_CREDIT * SHARE, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        self.credit = (self.credit + elapsed / SHARE).min(MAX_CREDIT);
        Some(if self.credit.is_zero() {
            SHORT_DEADLINE
        } else {
            DEADLINE.min(self.credit.max(SHORT_DEADLINE))
        })
    }

    /// Counts a call that began at `now` and exceeded its time in a thread that was abandoned.
    fn exceed(&mut self, pid: u32, now: Instant, elapsed: Duration, abandoned: Arc<HelperState>) {
        let is_over = self.charge(pid, now, elapsed);
        let is_first = !std::mem::replace(&mut self.slow(pid, now).has_exceeded, true);
        if !is_over {
            self.punish(pid, now + elapsed);
            self.slow(pid, now).forgiven = is_first.then_some(abandoned);
        }
    }

    /// Counts a slow call that began at `now`. Returns `true` if the calls of the process took too long.
    fn charge(&mut self, pid: u32, now: Instant, elapsed: Duration) -> bool {
        self.credit = self.credit.saturating_sub(elapsed);
        let slow = self.slow(pid, now);
        if now.saturating_duration_since(slow.since) > WINDOW {
            (slow.since, slow.taken, slow.has_exceeded) = (now, Duration::ZERO, false);
        }
        slow.taken += elapsed;
        let is_over = slow.taken > PER_PROCESS;
        if is_over {
            self.punish(pid, now + elapsed);
        }
        is_over
    }

    /// Makes the calls of a process fail for some time.
    fn punish(&mut self, pid: u32, now: Instant) {
        let slow = self.slow(pid, now);
        slow.until = Some(now + PENALTY * (1 << slow.penalties.min(MAX_DOUBLINGS)));
        slow.penalties += 1;
        slow.taken = Duration::ZERO;
        slow.forgiven = None;
    }

    fn slow(&mut self, pid: u32, now: Instant) -> &mut Slow {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.retain(|_, slow| slow.until.is_some_and(|until| now < until));
            if self.processes.len() >= MAX_PROCESSES {
                self.processes.clear();
            }
        }
        let new = || Slow {
            since: now,
            taken: Duration::ZERO,
            until: None,
            forgiven: None,
            has_exceeded: false,
            penalties: 0,
        };
        self.processes.entry(pid).or_insert_with(new)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn call_that_never_returns_costs_its_process_alone() {
        let helpers = Helpers::default();
        let (release, wait) = channel::<()>();
        let begun = Instant::now();
        let stuck = helpers.call(1, move || Ok(wait.recv().is_ok()));
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((DEADLINE..DEADLINE * 8).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert_eq!(helpers.call(1, || Ok(())).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(helpers.call(2, || Ok(7)).unwrap(), 7);
        assert_eq!((helpers.abandoned(), helpers.0.stuck.load(Ordering::Relaxed)), (1, 1));
        release.send(()).unwrap();
        wait_for_stuck(&helpers);
    }

    fn wait_for_stuck(helpers: &Helpers) {
        let begun = Instant::now();
        while helpers.0.stuck.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
    }

    /// Makes a call that returns only after its time. Returns `true` if calls of the process work after it.
    fn exceeds_once(helpers: &Helpers) -> bool {
        let (release, wait) = channel::<()>();
        let error = helpers.call(1, move || Ok(wait.recv().is_ok())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(helpers.call(1, || Ok(())).is_err(), "it has not returned");
        release.send(()).unwrap();
        wait_for_stuck(helpers);
        helpers.call(1, || Ok(())).is_ok()
    }

    #[test]
    fn first_call_that_exceeds_its_time_is_forgiven_once_it_returns() {
        let helpers = Helpers::default();
        assert!(exceeds_once(&helpers), "an honest program on a busy disk");
        assert!(!exceeds_once(&helpers), "again in the same ten seconds");
    }

    /// Returns the time that calls take in 1,000 s that exceed their time and return right after it, with pauses.
    fn taken_by_calls_that_return_late(pause: Duration) -> Duration {
        let (mut limits, start) = (Limits::default(), Instant::now());
        let (mut now, mut spent) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(1000) {
            let Some(deadline) = limits.deadline(1, now) else {
                now += Duration::from_millis(50);
                continue;
            };
            let returned = Arc::new(HelperState::default());
            returned.has_returned.store(true, Ordering::Release);
            limits.exceed(1, now, deadline, returned);
            (now, spent) = (now + deadline + pause, spent + deadline);
        }
        spent
    }

    #[test]
    fn forgiveness_leaves_a_process_its_bound() {
        let at_once = taken_by_calls_that_return_late(Duration::ZERO);
        assert!(at_once <= PER_PROCESS * 8, "{at_once:?}");
        // The most that is forgiven, half of what calls may take that return in time.
        let most = taken_by_calls_that_return_late(WINDOW);
        assert!(most <= PER_PROCESS * 50, "{most:?}");
    }

    #[test]
    fn answers_come_from_few_threads() {
        let helpers = Helpers::default();
        for number in 0..100 {
            assert_eq!(helpers.call(1, move || Ok(number)).unwrap(), number);
        }
        assert_eq!(lock(&helpers.0.idle).len(), 1);
        assert!(helpers.call::<()>(1, || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(helpers.abandoned(), 0);
    }

    #[test]
    fn slow_calls_have_a_share_of_the_time() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        let mut spent = Duration::ZERO;
        for pid in 0..10_000 {
            let Some(deadline) = limits.deadline(pid, start + spent) else { continue };
            limits.charge(pid, start + spent, deadline);
            limits.punish(pid, start + spent + deadline);
            spent += deadline;
        }
        assert!(limits.processes.len() <= MAX_PROCESSES);
        assert_eq!(limits.deadline(20_000, start + spent), Some(SHORT_DEADLINE));
        let later = start + spent + Duration::from_secs(60);
        assert_eq!(limits.deadline(20_000, later), Some(DEADLINE));
    }

    #[test]
    fn slow_process_is_left_alone_for_longer_each_time() {
        let (mut limits, mut now) = (Limits::default(), Instant::now());
        for penalty in [10, 20, 40, 80, 160, 320, 640, 640] {
            limits.charge(1, now, PER_PROCESS + SLOW);
            let end = now + PER_PROCESS + Duration::from_secs(penalty);
            assert_eq!(limits.deadline(1, end - Duration::from_secs(1)), None, "{penalty}");
            now = end + Duration::from_secs(1);
            assert!(limits.deadline(1, now).is_some());
        }
    }

    #[test]
    fn busy_broker_is_given_more_time_and_a_stopped_one_is_not() {
        let busy = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (mut runs, mut waits) = (busy("while :; do :; done"), busy("exec sleep 100"));
        std::thread::sleep(Duration::from_millis(200));
        let ready = [runs.id(), waits.id(), u32::MAX].map(has_ready_thread);
        let helper = Helper::start(&Arc::default()).unwrap();
        assert!(helper.wait_for_cpu(Some(runs.id())) < Duration::from_secs(10));
        for child in [&mut runs, &mut waits] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(ready, [true, false, false]);
    }
}
