//! The threads of a profiler, and the state that they share with its handle.
//!
//! ```text
//!   Profiler ── commands ──┐                                                  ┌─ queue ──► sink thread ──► Sink
//!                          ▼                                                  │
//!   Source ──────────► drain ─── batches ──► pipeline ─── jobs ──► names ─────┤
//!                      thread    ≤ 32 MiB    thread                thread     └─ queue ──► sink thread ──► Sink
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
//! | pipeline | 32 MiB of batches wait, and one grows up to 4 MiB; then stacks still to be unwound lose their callers, first in processes with most of them; at last the kernel's buffers fill and samples are counted as lost |
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

mod described;

mod drain;

mod early;

mod ending;

mod enrich;

mod names;

mod pipeline;

mod remote;

mod sinks;

mod state;

mod tables;

mod waiting;

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use self::budget::KeptBudget;
use self::described::Describe;
use self::drain::Drain;
use self::ending::{Ending, Stage};
pub(super) use self::enrich::{Enricher, Hook};
use self::names::Names;
use self::pipeline::PipelineThread;
pub(super) use self::remote::Remote;
use self::sinks::{Queue, SinkThread};
pub(super) use self::state::State;
use self::waiting::{BATCHES, Waiting};
use super::control::Settings;
use super::interval::Interval;
use crate::live::error::{OptionError, StopError};
use crate::live::kernel::waker::Waker;
use crate::live::machine::broker::Broker;
use crate::live::machine::clock;
use crate::live::machine::confine;
use crate::live::machine::priority;
use crate::live::machine::reservation::{self, Part, Reservation, Reserved};
use crate::live::machine::this_thread;
use crate::live::trigger::filter::{Filter, Gate};
use crate::pipeline::{LeftModule, PendingProfile, Pipeline};
use crate::process::Pids;
use crate::profile::{FrameView, Losses, Profile, SamplingPeriod};
use crate::registry::Pace;
use crate::replay::Recorder;
use crate::sample::{Batch, Counts, KernelFilter, Source};
use crate::sink::Sink;
use crate::symbol::{NoSymbols, Symbolizer};
use crate::trace::Frame;

/// Maximum number of batches whose memory is used again.
const USED: usize = 4;

/// Receives a finished profile; `None` if only the sinks get it.
type Reply = Option<Sender<Profile>>;

/// A command to the drain thread.
pub(super) enum Command {
    /// Ends the current profile and replies with it.
    TakeProfile(Sender<Profile>),
    /// Ends the current profile, replies with it and changes the settings of the next one; or
    /// replies with the reason why it can't.
    Change(Box<Change>, Sender<Profile>, Sender<OptionError>),
    /// Stops sampling, replies with the last profile and ends the threads.
    Finish(Sender<Profile>),
    /// Stops sampling and ends the threads.
    Stop,
}

/// A change of the settings of a running profiler.
///
/// Settings that are `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) frequency: Option<u32>,
    pub(super) pids: Option<Pids>,
    /// The filter as the kernel side has it, and as it was set.
    pub(super) filter: Option<(KernelFilter, Filter)>,
    pub(super) is_paused: Option<bool>,
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
    change: Option<Box<Change>>,
    ends: Ends,
}

/// The end of a flush: a profile, or a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Profile,
    /// The profile of an interval, which may go on instead if the names thread is behind.
    Interval,
    /// A pause, in which nothing was sampled.
    Pause,
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
    /// Number of samples taken for it, with those that it leaves out.
    taken: u64,
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
    gate: Option<Gate>,
    settings: Mutex<Settings>,
    /// Receives the last profile, if a handle asked the threads to end.
    last: Mutex<Option<Receiver<Profile>>>,
    /// Ids of the profiler's threads.
    tids: Mutex<Vec<u32>>,
    waiting: Waiting,
    /// See [`Shared::has_learned`].
    has_learned: AtomicBool,
    /// Samples that were sent to the pipeline thread and are in no finished profile.
    unfinished: AtomicU64,
    /// Jobs that the names thread has not finished.
    jobs: AtomicUsize,
    /// The last profile while the names thread symbolizes it, and the samples that were taken for it.
    unnamed: Mutex<Option<(PendingProfile, u64)>>,
    reservation: Option<Reservation>,
    enricher: Option<Enricher>,
    /// Runs as long as the profiler.
    broker: Option<Broker>,
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
    fn new(
        settings: Settings,
        reservation: Option<Reservation>,
        enricher: Option<Enricher>,
        broker: Option<Broker>,
        gate: Option<Gate>,
    ) -> Shared {
        Shared {
            commands: Mutex::default(),
            commanded: Condvar::new(),
            state: Mutex::default(),
            ended: Condvar::new(),
            ending: Ending::new(settings.deadline),
            gate,
            settings: Mutex::new(settings),
            last: Mutex::default(),
            tids: Mutex::default(),
            waiting: Waiting::default(),
            has_learned: AtomicBool::new(false),
            unfinished: AtomicU64::new(0),
            jobs: AtomicUsize::new(0),
            unnamed: Mutex::default(),
            reservation,
            enricher,
            broker,
        }
    }

    #[cfg(test)]
    fn of_test() -> Shared {
        Shared::new(Settings::of_test(), None, None, None, None)
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

    /// Counts samples that are in no profile at the deadline.
    fn record_loss(&self, samples: u64) {
        self.update(|state| {
            state.deadline.samples += samples;
            state.losses.add(Losses::DEADLINE, samples);
        });
    }

    /// Counts samples that are in a finished profile.
    fn finish_samples(&self, taken: u64) {
        // After the deadline they are counted as lost already.
        let subtract = |left: u64| Some(left.saturating_sub(taken));
        let _ = self.unfinished.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }

    /// Returns `true` if nothing further is to be learned of processes, as it is the end: at the deadline of
    /// that, or because samples wait that need the time. It stays so: what was found with a part of its
    /// reads is recognized by this.
    fn has_learned(&self) -> bool {
        let is_late =
            self.ending.has_begun() && (self.ending.is_past(Stage::Tables) || self.waiting.is_much());
        self.has_learned.fetch_or(is_late, Ordering::Relaxed) || is_late
    }

    /// Starts the time of the end, and ends sampling.
    fn begin_end(&self) {
        self.ending.begin();
        self.gate.iter().for_each(Gate::close);
    }

    /// Records that nothing will be sampled any more.
    fn end(&self) {
        self.update(|state| state.has_ended = true);
        self.ended.notify_all();
    }

    /// Returns the CPU time of the profiler's threads.
    fn thread_time(&self) -> Duration {
        let time = |&tid: &u32| clock::read(clock::of_thread(tid));
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
    /// Ends sampling before the drain thread has time to.
    pub(super) gate: Option<Gate>,
    pub(super) pipeline: Pipeline,
    pub(super) settings: Settings,
    pub(super) symbolizer: Box<dyn Symbolizer>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
    /// Interval between profiles for the sinks; only the last one without it.
    pub(super) interval: Option<Interval>,
    /// Receives everything that the pipeline receives.
    pub(super) recorder: Option<Recorder>,
    pub(super) budget: Option<KeptBudget>,
    /// The pace of deriving rules of code without unwind data; `None` to derive none.
    pub(super) rules: Option<Pace>,
    pub(super) reservation: Option<Reservation>,
    pub(super) broker: Option<Broker>,
    /// Confines the threads that run code of the profiler alone.
    pub(super) confines: bool,
    pub(super) enricher: Option<(Enricher, Hook)>,
    pub(super) describe: Describe,
    /// Returns `true` while a process runs.
    pub(super) is_alive: Box<dyn Fn(u32) -> bool + Send>,
}

/// The handle of running threads.
pub(super) struct Threads {
    remote: Remote,
    handles: Vec<(String, JoinHandle<()>)>,
    queues: Vec<Arc<Queue>>,
    recorder: Option<Recorder>,
    confines: bool,
}

impl Threads {
    /// Starts the threads.
    pub(super) fn start(parts: Parts) -> io::Result<Threads> {
        let enricher = parts.enricher.as_ref().map(|(enricher, _)| enricher.clone());
        let (reservation, broker) = (parts.reservation.clone(), parts.broker.clone());
        let shared = Arc::new(Shared::new(parts.settings.clone(), reservation, enricher, broker, parts.gate));
        let (batches_in, batches_out) = sync_channel(BATCHES);
        let (used_in, used_out) = sync_channel(USED);
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
            settings,
            budget,
            enricher,
            describe,
            rules,
            confines,
            ..
        } = parts;
        let tables = tables::start_queue(pipeline.registry());
        let rules = rules.map(|pace| tables::start_rules(pipeline.registry(), pace));
        let queues: Vec<_> = sinks.iter().map(|_| Arc::default()).collect();
        let drain = Drain::new(
            (source, describe),
            batches_in,
            used_out,
            interval,
            settings.clone(),
            shared.clone(),
            budget,
        );
        let names = Names::new(symbolizer, queues.clone(), recorder.is_some(), shared.clone());
        let pipeline = PipelineThread::new(
            pipeline,
            used_in,
            jobs_in,
            recorder.clone(),
            is_alive,
            (settings.period(), settings.pids),
            shared.clone(),
        );
        let remote = Remote::new(shared, waker, running);
        let mut threads = Threads { remote, handles: Vec::new(), queues, recorder, confines };
        threads.spawn_sinks(sinks, &alive)?;
        if let Some((enricher, hook)) = enricher {
            threads.spawn_hook(enricher, hook)?;
        }
        threads.spawn_own("ebpf-tables", Part::Shared, &alive, move |part| tables::run(&tables, part))?;
        if let Some(rules) = rules {
            let run = move |part: Option<&Reserved>| tables::run_rules(&rules, part);
            threads.spawn_own("ebpf-rules", Part::Shared, &alive, run)?;
        }
        threads.spawn_own("ebpf-names", Part::Shared, &alive, move |part| names.run(part, &jobs_out))?;
        let run = move |part: Option<&Reserved>| pipeline.run(part, &batches_out);
        threads.spawn_own("ebpf-pipeline", Part::Shared, &alive, run)?;
        threads.spawn_own("ebpf-drain", Part::First, &alive, |_| drain.run())?;
        Ok(threads)
    }

    /// Starts a thread that runs code of the profiler: confined, if that is wanted.
    fn spawn_own(
        &mut self,
        name: &str,
        part: Part,
        alive: &Sender<()>,
        run: impl FnOnce(Option<&Reserved>) + Send + 'static,
    ) -> io::Result<()> {
        if !self.confines {
            return self.spawn(name, part, alive, run);
        }
        let (reply, answer) = sync_channel(1);
        self.spawn(name, part, alive, move |part| {
            let confined = confine::PROFILER.install();
            let is_confined = confined.is_ok();
            let _ = reply.send(confined);
            if is_confined {
                run(part);
            }
        })?;
        answer.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn spawn_sinks(&mut self, sinks: Vec<Box<dyn Sink>>, alive: &Sender<()>) -> io::Result<()> {
        for (number, sink) in sinks.into_iter().enumerate() {
            let (queue, shared) = (self.queues[number].clone(), self.remote.shared.clone());
            let sink = SinkThread::new(number, sink, queue, shared);
            self.spawn(&format!("ebpf-sink-{number}"), Part::Shared, alive, |part| sink.run(part))?;
        }
        Ok(())
    }

    /// Starts the thread of a hook, which nobody waits for: it may never return.
    fn spawn_hook(&self, enricher: Enricher, hook: Hook) -> io::Result<()> {
        let shared = self.remote.shared.clone();
        let thread = std::thread::Builder::new().name("ebpf-enrich".to_owned());
        thread.spawn(move || enricher.run(hook, &shared)).map(drop)
    }

    fn spawn(
        &mut self,
        name: &str,
        part: Part,
        alive: &Sender<()>,
        run: impl FnOnce(Option<&Reserved>) + Send + 'static,
    ) -> io::Result<()> {
        let (alive, shared) = (alive.clone(), self.remote.shared.clone());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let reservation = self.remote.shared.reservation.as_ref();
        let thread = reservation::spawn(reservation, part, thread, move |reserved| {
            let _alive = alive;
            lock(&shared.tids).push(this_thread::id());
            drop(shared);
            run(reserved);
        })?;
        self.handles.push((name.to_owned(), thread));
        Ok(())
    }

    /// Returns the way to send commands.
    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Ends the threads and returns the last profile, both within the deadline.
    pub(super) fn finish(&mut self) -> Result<Profile, StopError> {
        let shared = self.remote.shared.clone();
        let (_raised, _reserved) = (priority::raised(), shared.enter());
        let profile = self.begin_finish().and_then(|profile| {
            match profile.recv_timeout(shared.ending.left(Stage::Last)) {
                Ok(profile) => Ok(profile),
                Err(RecvTimeoutError::Timeout) => self.without_names().map_or_else(
                    || {
                        profile
                            .recv_timeout(shared.ending.left(Stage::Sinks))
                            .map_err(|_| StopError::Deadline)
                    },
                    Ok,
                ),
                Err(RecvTimeoutError::Disconnected) => Err(self.remote.error()),
            }
        });
        let joined = self.join();
        match (profile, joined) {
            (Ok(profile), joined) => joined.map(|()| profile),
            // A panic is the cause of the missing profile.
            (Err(error), joined) => joined.and(Err(error)),
        }
    }

    /// Asks the threads to end, unless a handle did. Returns the receiver of the last profile.
    fn begin_finish(&self) -> Result<Receiver<Profile>, StopError> {
        let shared = &self.remote.shared;
        let mut last = lock(&shared.last);
        shared.begin_end();
        match last.take() {
            Some(profile) => Ok(profile),
            None => self.remote.send(Command::Finish),
        }
    }

    /// Returns the last profile without names, if the names thread has it.
    fn without_names(&self) -> Option<Profile> {
        let shared = &self.remote.shared;
        let (pending, taken) = lock(&shared.unnamed).take()?;
        shared.finish_samples(taken);
        let profile = pending.symbolize(&mut NoSymbols);
        let is_address =
            |frame: &FrameView<'_>| matches!(frame.frame(), Frame::Native { .. } | Frame::Kernel { .. });
        let addresses = profile.frames_by_place().filter(is_address).count();
        shared.update(|state| state.deadline.addresses += addresses as u64);
        Some(profile)
    }

    /// Ends the threads within the deadline.
    pub(super) fn stop(&mut self) -> Result<(), StopError> {
        let shared = self.remote.shared.clone();
        let (_raised, _reserved) = (priority::raised(), shared.enter());
        shared.begin_end();
        self.remote.push(Command::Stop);
        self.join()?;
        self.remote.broken()
    }

    /// Waits for all threads until the deadline. Threads that run on are detached, and named in the
    /// counters.
    fn join(&mut self) -> Result<(), StopError> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let (all_ended, shared) = (self.remote.wait_for_end(), self.remote.shared.clone());
        if !all_ended {
            shared.record_loss(shared.unfinished.swap(0, Ordering::Relaxed));
        }
        let mut panicked = None;
        for (thread, handle) in self.handles.drain(..) {
            // A thread whose sender is gone may not have returned yet.
            if !all_ended && !handle.is_finished() {
                shared.update(|state| state.deadline.threads.push(thread));
            } else if let Err(payload) = handle.join() {
                panicked.get_or_insert(StopError::Panicked { thread, message: message(&*payload) });
            }
        }
        for queue in &self.queues {
            let left = queue.close();
            shared.update(|state| state.sinks.count_dropped(&left));
        }
        if let Some(recorder) = &self.recorder {
            recorder.finish_within(shared.ending.left(Stage::Sinks));
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
