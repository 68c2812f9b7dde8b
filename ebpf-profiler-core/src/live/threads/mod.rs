//! The threads of a profiler, and the state that they share with its handle.
//!
//! ```text
//!   Profiler ── commands ──┐                                                  ┌─ queue ──► sink thread ──► Sink
//!                          ▼                                                  │
//!   Source ──────────► drain ─── batches ──► pipeline ─── jobs ──► names ─────┤
//!                      thread    at most 4   thread                thread     └─ queue ──► sink thread ──► Sink
//!                                             │    ▲                 │           at most 4 profiles
//!                                             ▼    │                 └─ reply ──► take_profile, finish
//!                                             tables thread, for large files
//!                                             rules thread, for code without unwind data
//! ```
//!
//! Every finished profile reaches every sink, also one that a command returns.
//!
//! | falls behind | then |
//! | --- | --- |
//! | pipeline | batches grow up to 4 MiB each, then samples that are not unwound yet are reduced to their innermost function; at last the kernel's buffers fill and samples are counted as lost |
//! | tables | samples of the files wait up to 5 s, in up to 8 MiB, then lack their callers |
//! | names | the pipeline goes on collecting into the current profile, which becomes longer ([`SinkStats::merged`]) |
//! | a sink | the oldest profile of its queue is dropped ([`SinkStats::dropped`]); other sinks are unaffected |
//!
//! [`Ending`] bounds what happens between a command that ends the profiler and the end of all
//! threads. The threads, and the caller's until it returns, run with raised priority from then on,
//! so that little is cut off on a busy machine.
//!
//! [`SinkStats::merged`]: super::health::SinkStats::merged
//! [`SinkStats::dropped`]: super::health::SinkStats::dropped

mod budget;

mod drain;

mod early;

mod ending;

mod names;

mod pipeline;

mod sinks;

mod state;

mod tables;

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use self::budget::KeptBudget;
use self::drain::Drain;
use self::ending::{Ending, Stage};
use self::names::Names;
use self::pipeline::PipelineThread;
use self::sinks::{Queue, SinkThread};
pub(super) use self::state::State;
use super::error::{ChangeError, OptionError, StopError};
use super::interval::Interval;
use super::reservation::{self, Part, Reservation, ReservationStats, Reserved};
use super::waker::Waker;
use super::{perf, priority};
use crate::pipeline::{LeftModule, PendingProfile, Pipeline};
use crate::profile::{FrameView, Profile, SamplingPeriod};
use crate::registry::Pace;
use crate::replay::Recorder;
use crate::sample::{Batch, Counts, KernelFilter, Source};
use crate::sink::Sink;
use crate::symbol::{NoSymbols, Symbolizer};
use crate::trace::Frame;

/// Maximum number of batches between the drain thread and the pipeline thread.
const BATCHES: usize = 4;

/// Receives a finished profile; `None` if only the sinks get it.
type Reply = Option<Sender<Profile>>;

/// A command to the drain thread.
pub(super) enum Command {
    /// Ends the current profile and replies with it.
    TakeProfile(Sender<Profile>),
    /// Ends the current profile, replies with it and changes the settings of the next one; or
    /// replies with the reason why it can't.
    Change(Change, Sender<Profile>, Sender<OptionError>),
    /// Stops sampling, replies with the last profile and ends the threads.
    Finish(Sender<Profile>),
    /// Stops sampling and ends the threads.
    Stop,
}

/// A change of the settings of a running profiler.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Time between two samples of a CPU.
    Period(Duration),
    /// Processes to sample; all if empty.
    Pids(Vec<u32>),
    Filter(KernelFilter),
    Pause,
    Resume,
}

/// A message from the drain thread to the pipeline thread.
enum Message {
    Batch(Batch),
    Flush(Flush),
}

/// The end of a profile.
struct Flush {
    reply: Reply,
    counts: Counts,
    /// Periods in the profile.
    periods: Vec<SamplingPeriod>,
    /// Applies to the next profile.
    change: Option<Change>,
    /// The interval passed; the profile may go on instead if the names thread is behind.
    is_optional: bool,
}

/// A message from the pipeline thread to the names thread.
enum NamesMessage {
    Profile(Box<Job>),
    /// Files that may be deleted soon.
    Left(Vec<LeftModule>),
}

/// A profile on its way from the pipeline thread to the names thread.
struct Job {
    profile: PendingProfile,
    reply: Reply,
    /// The profile is that of a pause.
    is_pause: bool,
}

/// State that the threads share with the profiler's handle.
#[derive(Debug)]
struct Shared {
    commands: Mutex<Commands>,
    commanded: Condvar,
    state: Mutex<State>,
    ended: Condvar,
    ending: Ending,
    /// Ids of the profiler's threads.
    tids: Mutex<Vec<u32>>,
    /// Batches that the pipeline thread has not taken.
    batches: AtomicUsize,
    /// Jobs that the names thread has not finished.
    jobs: AtomicUsize,
    /// The last profile while the names thread symbolizes it.
    unnamed: Mutex<Option<PendingProfile>>,
    reservation: Option<Reservation>,
}

/// Commands that the drain thread has not taken.
#[derive(Debug, Default)]
struct Commands {
    waiting: VecDeque<Command>,
    /// The drain thread has ended.
    is_closed: bool,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::TakeProfile(_) => "TakeProfile",
            Command::Change(..) => "Change",
            Command::Finish(_) => "Finish",
            Command::Stop => "Stop",
        })
    }
}

impl Shared {
    fn new(deadline: Duration, reservation: Option<Reservation>) -> Shared {
        Shared {
            commands: Mutex::default(),
            commanded: Condvar::new(),
            state: Mutex::default(),
            ended: Condvar::new(),
            ending: Ending::new(deadline),
            tids: Mutex::default(),
            batches: AtomicUsize::new(0),
            jobs: AtomicUsize::new(0),
            unnamed: Mutex::default(),
            reservation,
        }
    }

    /// Queues a command. Returns `false` if the drain thread has ended.
    fn push(&self, command: Command) -> bool {
        let mut commands = lock(&self.commands);
        if !commands.is_closed {
            commands.waiting.push_back(command);
            self.commanded.notify_one();
        }
        !commands.is_closed
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
    }

    /// Records that nothing will be sampled any more.
    fn end(&self) {
        self.update(|state| state.has_ended = true);
        self.ended.notify_all();
    }

    /// Returns the CPU time of the profiler's threads.
    fn thread_time(&self) -> Duration {
        let time = |&tid: &u32| perf::clock_now(perf::cpu_clock_of_thread(tid));
        Duration::from_nanos(lock(&self.tids).iter().map(time).sum())
    }

    /// Lets this thread take part in the reservation, if there is one.
    fn enter(&self) -> Option<Reserved> {
        self.reservation.as_ref().map(Reservation::enter)
    }

    /// Rejects commands from now on, and drops those that wait.
    fn close(&self) {
        let mut commands = lock(&self.commands);
        commands.is_closed = true;
        commands.waiting.clear();
        drop(commands);
        self.end();
    }
}

/// Locks a mutex; a thread that panicked while it held the lock left a valid value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that the threads own.
pub(super) struct Parts {
    pub(super) source: Box<dyn Source>,
    pub(super) waker: Waker,
    pub(super) pipeline: Pipeline,
    /// Time between two samples of a CPU.
    pub(super) period: Duration,
    /// Processes to sample; all if empty.
    pub(super) pids: Vec<u32>,
    pub(super) symbolizer: Box<dyn Symbolizer>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
    /// Interval between profiles for the sinks; only the last one without it.
    pub(super) interval: Option<Interval>,
    /// Receives everything that the pipeline receives.
    pub(super) recorder: Option<Recorder>,
    pub(super) budget: Option<KeptBudget>,
    /// The pace of deriving rules of code without unwind data; `None` to derive none.
    pub(super) rules: Option<Pace>,
    /// Longest time between a command to end and its return.
    pub(super) deadline: Duration,
    pub(super) reservation: Option<Reservation>,
    /// Returns `true` while a process runs.
    pub(super) is_alive: Box<dyn Fn(u32) -> bool + Send>,
}

/// The handle of running threads.
pub(super) struct Threads {
    shared: Arc<Shared>,
    waker: Waker,
    handles: Vec<(String, JoinHandle<()>)>,
    queues: Vec<Arc<Queue>>,
    recorder: Option<Recorder>,
    /// Disconnected once all threads have ended.
    running: Mutex<Receiver<()>>,
}

impl Threads {
    /// Starts the threads.
    pub(super) fn start(parts: Parts) -> io::Result<Threads> {
        let shared = Arc::new(Shared::new(parts.deadline, parts.reservation.clone()));
        let (batches_in, batches_out) = sync_channel(BATCHES);
        let (used_in, used_out) = sync_channel(BATCHES);
        let (jobs_in, jobs_out) = channel();
        let (alive, running) = channel();
        let Parts {
            source,
            waker,
            mut pipeline,
            symbolizer,
            sinks,
            interval,
            recorder,
            is_alive,
            period,
            pids,
            budget,
            rules,
            ..
        } = parts;
        let tables = tables::start_queue(pipeline.registry());
        let rules = rules.map(|pace| tables::start_rules(pipeline.registry(), pace));
        let queues: Vec<_> = sinks.iter().map(|_| Arc::new(Queue::default())).collect();
        let drain = Drain::new(source, batches_in, used_out, interval, period, shared.clone(), budget);
        let names = Names::new(symbolizer, queues.clone(), recorder.is_some(), shared.clone());
        let pipeline = PipelineThread::new(
            pipeline,
            used_in,
            jobs_in,
            recorder.clone(),
            is_alive,
            (period, pids),
            shared.clone(),
        );
        let mut threads =
            Threads { shared, waker, handles: Vec::new(), queues, recorder, running: Mutex::new(running) };
        for (number, sink) in sinks.into_iter().enumerate() {
            let sink = SinkThread::new(number, sink, threads.queues[number].clone(), threads.shared.clone());
            threads.spawn(format!("ebpf-sink-{number}"), Part::Shared, &alive, |part| sink.run(part))?;
        }
        threads
            .spawn("ebpf-tables".to_owned(), Part::Shared, &alive, move |part| tables::run(&tables, part))?;
        if let Some(rules) = rules {
            threads.spawn("ebpf-rules".to_owned(), Part::Shared, &alive, move |part| {
                tables::run_rules(&rules, part)
            })?;
        }
        threads
            .spawn("ebpf-names".to_owned(), Part::Shared, &alive, move |part| names.run(part, &jobs_out))?;
        let run = move |part: Option<&Reserved>| pipeline.run(part, &batches_out);
        threads.spawn("ebpf-pipeline".to_owned(), Part::Shared, &alive, run)?;
        threads.spawn("ebpf-drain".to_owned(), Part::First, &alive, |_| drain.run())?;
        Ok(threads)
    }

    fn spawn(
        &mut self,
        name: String,
        part: Part,
        alive: &Sender<()>,
        run: impl FnOnce(Option<&Reserved>) + Send + 'static,
    ) -> io::Result<()> {
        let (alive, shared) = (alive.clone(), self.shared.clone());
        let thread = std::thread::Builder::new().name(name.clone());
        let reservation = self.shared.reservation.as_ref();
        let thread = reservation::spawn(reservation, part, thread, move |reserved| {
            let _alive = alive;
            lock(&shared.tids).push(perf::this_thread());
            drop(shared);
            run(reserved);
        })?;
        self.handles.push((name, thread));
        Ok(())
    }

    /// Returns a copy of the counters.
    pub(super) fn state(&self) -> State {
        lock(&self.shared.state).clone()
    }

    /// Returns the state of the reservation, if there is one.
    pub(super) fn reservation(&self) -> Option<ReservationStats> {
        self.shared.reservation.as_ref().map(Reservation::stats)
    }

    /// Returns `true` while samples can still come.
    pub(super) fn is_running(&self) -> bool {
        !lock(&self.shared.state).has_ended && !self.handles.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Waits until samples can no longer come, at most for `duration`.
    pub(super) fn wait(&self, duration: Duration) {
        let state = lock(&self.shared.state);
        let waited = self.shared.ended.wait_timeout_while(state, duration, |state| !state.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a command and returns the profile that it ends. Waits as long as it takes.
    pub(super) fn take(
        &self,
        command: impl FnOnce(Sender<Profile>) -> Command,
    ) -> Result<Profile, StopError> {
        let profile = self.send(command)?;
        profile.recv().map_err(|_| self.error())
    }

    /// Changes the settings and returns the profile that ended with the former ones.
    pub(super) fn change(&self, change: Change) -> Result<Profile, ChangeError> {
        let (refuse, refused) = channel();
        let profile = self.take(|reply| Command::Change(change, reply, refuse));
        match refused.try_recv() {
            Ok(error) => Err(error.into()),
            Err(_) => Ok(profile?),
        }
    }

    /// Ends the threads and returns the last profile, both within the deadline.
    pub(super) fn finish(&mut self) -> Result<Profile, StopError> {
        let (_raised, _reserved) = (priority::raised(), self.shared.enter());
        self.shared.ending.begin();
        let profile = self.send(Command::Finish).and_then(|profile| {
            match profile.recv_timeout(self.shared.ending.left(Stage::Last)) {
                Ok(profile) => Ok(profile),
                Err(RecvTimeoutError::Timeout) => self.without_names().map_or_else(
                    || {
                        profile
                            .recv_timeout(self.shared.ending.left(Stage::Sinks))
                            .map_err(|_| StopError::Deadline)
                    },
                    Ok,
                ),
                Err(RecvTimeoutError::Disconnected) => Err(self.error()),
            }
        });
        let joined = self.join();
        match (profile, joined) {
            (Ok(profile), joined) => joined.map(|()| profile),
            // A panic is the cause of the missing profile.
            (Err(error), joined) => joined.and(Err(error)),
        }
    }

    /// Returns the last profile without names, if the names thread has it.
    fn without_names(&self) -> Option<Profile> {
        let pending = lock(&self.shared.unnamed).take()?;
        let profile = pending.symbolize(&mut NoSymbols);
        let is_address =
            |frame: &FrameView<'_>| matches!(frame.frame(), Frame::Native { .. } | Frame::Kernel { .. });
        let addresses = profile.frames_by_place().filter(is_address).count();
        self.shared.update(|state| state.deadline.addresses += addresses as u64);
        Some(profile)
    }

    /// Ends the threads within the deadline.
    pub(super) fn stop(&mut self) -> Result<(), StopError> {
        let (_raised, _reserved) = (priority::raised(), self.shared.enter());
        self.shared.ending.begin();
        if self.shared.push(Command::Stop) {
            self.waker.wake();
        }
        self.join()?;
        match self.state().broken {
            Some(error) => Err(StopError::Broken(error)),
            None => Ok(()),
        }
    }

    fn send(&self, command: impl FnOnce(Sender<Profile>) -> Command) -> Result<Receiver<Profile>, StopError> {
        let (reply, profile) = channel();
        if !self.shared.push(command(reply)) {
            return Err(self.error());
        }
        self.waker.wake();
        Ok(profile)
    }

    /// Returns the reason for a missing reply.
    fn error(&self) -> StopError {
        match self.state().broken {
            Some(error) => StopError::Broken(error),
            None => StopError::Ended,
        }
    }

    /// Waits for all threads until the deadline. Threads that run on are detached, and named in the
    /// counters.
    fn join(&mut self) -> Result<(), StopError> {
        if self.handles.is_empty() {
            return Ok(());
        }
        // Nothing is sent: the channel disconnects when the last thread ends.
        let running = lock(&self.running);
        let _ = running.recv_timeout(self.shared.ending.left(Stage::Sinks));
        let all_ended = running.try_recv() == Err(TryRecvError::Disconnected);
        drop(running);
        let mut panicked = None;
        for (thread, handle) in self.handles.drain(..) {
            // A thread whose sender is gone may not have returned yet.
            if !all_ended && !handle.is_finished() {
                self.shared.update(|state| state.deadline.threads.push(thread));
            } else if let Err(payload) = handle.join() {
                panicked.get_or_insert(StopError::Panicked { thread, message: message(&*payload) });
            }
        }
        for queue in &self.queues {
            let left = queue.close();
            self.shared.update(|state| state.sinks.count_dropped(&left));
        }
        if let Some(recorder) = &self.recorder {
            recorder.finish_within(self.shared.ending.left(Stage::Sinks));
        }
        panicked.map_or(Ok(()), Err)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.handles.is_empty() {
            // No caller is left to receive the error.
            let _ = self.stop();
        }
    }
}

/// Returns the text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests;
