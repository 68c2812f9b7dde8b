//! The threads with a source, a machine and names that tests control.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::live::error::ChangeError;
use crate::pipeline::Clock;
use crate::process::Module;
use crate::registry::Registry;
use crate::sample::{SourceError, TickRecord};
use crate::sink::SinkError;
use crate::symbol::{NoSymbols, Symbol};
use crate::tables::MemoryTables;
use crate::testing::{FakeSystem, FakeTick};

const PID: u32 = 7;

/// Gives the batches that a test sends, and fails once the test has dropped its end.
struct Events(Receiver<Batch>);

impl Source for Events {
    fn next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        match self.0.recv_timeout(wait.min(Duration::from_millis(2))) {
            Ok(sent) => *batch = sent,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(SourceError::Format("the test ended it")),
        }
        Ok(true)
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn set_period(&mut self, _: Option<Duration>) -> Result<(), SourceError> {
        Ok(())
    }
}

/// A running profiler with a source fed by the test.
struct Setup {
    parts: Parts,
    events: Sender<Batch>,
    is_alive: Arc<AtomicBool>,
}

impl Setup {
    fn new() -> Setup {
        let (events, receiver) = channel();
        let system = Box::new(FakeSystem::default().process(PID, "/bin/cat", Vec::new()));
        let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
        registry.set_filter(&[PID].into());
        let is_alive = Arc::new(AtomicBool::new(true));
        let alive = is_alive.clone();
        let (_, waker) = Waker::new().unwrap();
        let parts = Parts {
            source: Box::new(Events(receiver)),
            waker,
            gate: None,
            pipeline: Pipeline::new(registry, Clock::default(), Duration::from_millis(10)),
            settings: Settings { pids: [PID].into(), ..Settings::of_test() },
            symbolizer: Box::new(NoSymbols),
            sinks: Vec::new(),
            interval: None,
            recorder: None,
            budget: None,
            rules: None,
            reservation: None,
            broker: None,
            confines: false,
            enricher: None,
            describe: |_| crate::process::Description::default(),
            is_alive: Box::new(move |_| alive.load(Ordering::Relaxed)),
        };
        Setup { parts, events, is_alive }
    }

    fn sink(mut self, sink: impl Sink + 'static) -> Setup {
        self.parts.sinks.push(Box::new(sink));
        self
    }

    fn symbolizer(mut self, symbolizer: impl Symbolizer + 'static) -> Setup {
        self.parts.symbolizer = Box::new(symbolizer);
        self
    }

    fn every(mut self, interval: Duration) -> Setup {
        self.parts.interval = Some(Interval::new(interval, 0.0));
        self
    }

    fn deadline(mut self, deadline: Duration) -> Setup {
        self.parts.settings.deadline = deadline;
        self
    }

    fn start(self) -> (Threads, Sender<Batch>) {
        (Threads::start(self.parts).unwrap(), self.events)
    }
}

/// A batch with one sample of a kernel function.
fn sample() -> Batch {
    let mut batch = Batch::default();
    batch.push_tick(&FakeTick::walked(1, PID, "cat", &[]).kernel(&[0xffff_ffff_8100_0000]).bytes());
    assert!(batch.ticks().all(|words| TickRecord::decode(words).is_ok()));
    batch
}

/// A sink, and the counts of the profiles that it took.
fn counting() -> (impl Sink, Receiver<u64>) {
    let (sender, counts) = channel();
    let sink = move |profile: &Profile| {
        sender.send(profile.count())?;
        Ok(())
    };
    (sink, counts)
}

/// A gate that is shut until the other end is dropped.
struct Gate(Mutex<Receiver<()>>);

fn gate() -> (Sender<()>, Gate) {
    let (open, shut) = channel();
    (open, Gate(Mutex::new(shut)))
}

impl Gate {
    fn pass(&self) {
        let _ = lock(&self.0).recv();
    }
}

/// Names frames once its gate is open.
impl Symbolizer for Gate {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {
        self.pass();
    }
}

#[test]
fn finish_delivers_last_profile_to_caller_and_sinks() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).start();
    events.send(sample()).unwrap();
    events.send(sample()).unwrap();
    let taken = wait_for_samples(&threads, 2);
    let last = threads.finish().unwrap();
    assert_eq!(taken.iter().sum::<u64>() + last.count(), 2);
    let delivered: Vec<u64> = counts.iter().collect();
    assert_eq!(delivered.len(), taken.len() + 1);
    assert_eq!(delivered.iter().sum::<u64>(), 2);
    assert_eq!(threads.remote().state().sinks.delivered, delivered.len() as u64);
}

#[test]
fn stop_and_drop_deliver_last_profile_to_sinks() {
    for is_stopped in [true, false] {
        let (sink, counts) = counting();
        let (mut threads, events) = Setup::new().sink(sink).start();
        events.send(sample()).unwrap();
        let taken = wait_for_samples(&threads, 1).len();
        if is_stopped {
            threads.stop().unwrap();
        }
        drop(threads);
        assert_eq!(counts.iter().count(), taken + 1);
    }
}

#[test]
fn taking_profiles_leaves_all_samples_to_sinks() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).every(Duration::from_millis(10)).start();
    let mut taken = 0;
    for _ in 0..50 {
        events.send(sample()).unwrap();
        taken += threads.remote().take(Command::TakeProfile).unwrap().count();
    }
    let last = threads.finish().unwrap().count();
    drop(events);
    let state = threads.remote().state();
    assert_eq!(counts.iter().sum::<u64>() + state.sinks.dropped_samples, state.pipeline.samples);
    assert!(taken + last <= state.pipeline.samples && taken > 0);
}

/// Takes profiles until they hold `expected` samples. Returns their counts.
fn wait_for_samples(threads: &Threads, expected: u64) -> Vec<u64> {
    let mut counts = Vec::new();
    while counts.iter().sum::<u64>() < expected {
        counts.push(threads.remote().take(Command::TakeProfile).unwrap().count());
    }
    counts
}

#[test]
fn sink_behind_costs_its_own_oldest_profiles() {
    let (open, gate) = gate();
    let (taking, taken) = channel();
    let slow = move |profile: &Profile| {
        taking.send(profile.count())?;
        gate.pass();
        Ok(())
    };
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(slow).sink(sink).start();
    events.send(sample()).unwrap();
    let first = wait_for_samples(&threads, 1).len();
    // The slow sink holds one profile, its queue four.
    taken.recv().unwrap();
    let other: Vec<u64> = (0..first).map(|_| counts.recv().unwrap()).collect();
    for _ in 0..10 {
        threads.remote().take(Command::TakeProfile).unwrap();
        counts.recv().unwrap();
    }
    assert_eq!(other.iter().sum::<u64>(), 1);
    let dropped = threads.remote().state().sinks.dropped;
    assert_eq!(dropped, first as u64 + 10 - 5);
    drop(open);
    threads.stop().unwrap();
    let state = threads.remote().state();
    // One more profile at the end, which may push one more out.
    assert_eq!(state.sinks.delivered + state.sinks.dropped, 2 * (first as u64 + 11));
    assert_eq!(taken.iter().count() as u64 + 1 + state.sinks.dropped, first as u64 + 11);
}

#[test]
fn panic_of_sink_costs_the_sink() {
    struct Broken(Sender<()>);
    impl Sink for Broken {
        fn take(&mut self, _: &Profile) -> Result<(), SinkError> {
            panic!("no room for {}", "profiles");
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            self.0.send(())?;
            Ok(())
        }
    }
    let (flushed, flushes) = channel();
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(Broken(flushed)).sink(sink).start();
    events.send(sample()).unwrap();
    let taken = wait_for_samples(&threads, 1).len();
    threads.stop().unwrap();
    assert_eq!(counts.iter().count(), taken + 1);
    assert_eq!(flushes.iter().count(), 0);
    let state = threads.remote().state();
    assert_eq!((state.sinks.panics, state.sinks.delivered), (1, taken as u64 + 1));
    assert_eq!(state.sink_errors, ["sink 0 panicked and gets no further profiles: no room for profiles"]);
}

#[test]
fn stuck_sink_is_left_at_deadline() {
    let (open, gate) = gate();
    let (taking, taken) = channel();
    let stuck = move |_: &Profile| {
        taking.send(())?;
        gate.pass();
        Ok(())
    };
    let setup = Setup::new().sink(stuck).deadline(Duration::from_millis(200));
    let (mut threads, events) = setup.start();
    events.send(sample()).unwrap();
    wait_for_samples(&threads, 1);
    taken.recv().unwrap();
    threads.stop().unwrap();
    let state = threads.remote().state();
    assert_eq!(state.deadline.threads, ["ebpf-sink-0"]);
    assert!(state.sinks.dropped > 0, "{:?}", state.sinks);
    drop(open);
}

#[test]
fn stuck_symbolizer_is_left_at_deadline() {
    let (open, gate) = gate();
    let setup = Setup::new().symbolizer(gate).deadline(Duration::from_millis(200));
    let (mut threads, events) = setup.start();
    events.send(sample()).unwrap();
    while !threads.remote.shared.commands.lock().unwrap().waiting.is_empty() {}
    // The batch is with the pipeline before the command is.
    std::thread::sleep(Duration::from_millis(50));
    // The samples are there, without names.
    assert_eq!(threads.finish().unwrap().count(), 1);
    let late = threads.remote().state().deadline;
    assert_eq!((late.addresses, late.threads), (1, vec!["ebpf-names".to_owned()]));
    drop(open);
}

#[test]
fn learning_that_has_ended_stays_so() {
    let shared = Shared::of_test();
    let much = 1 << 30;
    shared.waiting.add(much);
    assert!(!shared.has_learned(), "sampling goes on");
    shared.waiting.withdraw(much);
    shared.begin_end();
    assert!(!shared.has_learned());
    shared.waiting.add(much);
    assert!(shared.has_learned());
    shared.waiting.withdraw(much);
    assert!(shared.has_learned());
}

#[test]
fn samples_of_a_profile_that_is_late_are_counted() {
    let (open, gate) = gate();
    let setup = Setup::new().symbolizer(gate).sink(counting().0).deadline(Duration::from_millis(200));
    let (mut threads, events) = setup.start();
    events.send(sample()).unwrap();
    events.send(sample()).unwrap();
    while threads.remote.shared.unfinished.load(Ordering::Relaxed) < 2 {}
    threads.stop().unwrap();
    let state = threads.remote().state();
    assert_eq!((state.deadline.samples, state.losses.total()), (2, 2));
    drop(open);
}

/// A source that takes time to detach, and has one more sample then.
struct Slow(Events, Gate);

impl Source for Slow {
    fn next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        self.0.next(wait, batch)
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn detach(&mut self) {
        self.1.pass();
    }
}

#[test]
fn slow_detaching_delays_no_profile() {
    for is_slower_than_the_deadline in [true, false] {
        let (open, gate) = gate();
        let (sink, counts) = counting();
        let mut setup = Setup::new().sink(sink).deadline(Duration::from_millis(400));
        let (events, receiver) = channel();
        setup.parts.source = Box::new(Slow(Events(receiver), gate));
        let (mut threads, _) = setup.start();
        events.send(sample()).unwrap();
        let taken = wait_for_samples(&threads, 1);
        let remote = threads.remote().clone();
        let slow = std::thread::spawn(move || {
            // All sinks are done.
            counts.iter().for_each(drop);
            events.send(sample()).unwrap();
            if !is_slower_than_the_deadline {
                drop(open);
                return None;
            }
            Some(open)
        });
        threads.finish().unwrap();
        let (state, open) = (remote.state(), slow.join().unwrap());
        assert_eq!(state.sinks.delivered, taken.len() as u64 + 1);
        if is_slower_than_the_deadline {
            assert_eq!(state.deadline.threads, ["ebpf-drain"]);
            assert_eq!(state.losses.total(), 0, "the kernel has it");
        } else {
            assert!(state.deadline.threads.is_empty());
            assert_eq!(state.losses.total(), 1, "it came after the profile");
        }
        drop(open);
    }
}

#[test]
fn panic_of_symbolizer_is_the_error() {
    struct Panics;
    impl Symbolizer for Panics {
        fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

        fn kernel(&mut self, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {
            panic!("bad name");
        }
    }
    let (mut threads, events) = Setup::new().symbolizer(Panics).start();
    events.send(sample()).unwrap();
    while threads.remote().take(Command::TakeProfile).is_ok() {}
    threads.remote().wait(Duration::MAX);
    assert!(!threads.remote().is_running());
    let expected = StopError::Panicked { thread: "ebpf-names".into(), message: "bad name".into() };
    assert_eq!(threads.finish().unwrap_err(), expected);
}

#[test]
fn exit_of_wanted_processes_ends_running_but_keeps_the_profile() {
    let setup = Setup::new();
    let is_alive = setup.is_alive.clone();
    let (mut threads, events) = setup.start();
    assert!(threads.remote().is_running());
    events.send(sample()).unwrap();
    let taken = wait_for_samples(&threads, 1);
    assert_eq!(taken.iter().sum::<u64>(), 1);
    events.send(sample()).unwrap();
    is_alive.store(false, Ordering::Relaxed);
    threads.remote().wait(Duration::MAX);
    assert!(!threads.remote().is_running());
    threads.finish().unwrap();
    assert_eq!(threads.remote().state().pipeline.samples, 2);
}

#[test]
fn broken_source_is_the_error_and_blocks_no_command() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).start();
    events.send(sample()).unwrap();
    drop(events);
    threads.remote().wait(Duration::MAX);
    assert!(!threads.remote().is_running());
    assert!(matches!(threads.stop(), Err(StopError::Broken(_))));
    assert!(matches!(threads.remote().take(Command::TakeProfile), Err(StopError::Broken(_))));
    assert_eq!(counts.iter().sum::<u64>(), 1);
}

#[test]
fn slow_names_make_profiles_longer() {
    let (open, gate) = gate();
    let (sink, counts) = counting();
    let setup = Setup::new().symbolizer(gate).sink(sink).every(Duration::from_millis(10));
    let (mut threads, events) = setup.start();
    while threads.remote().state().sinks.merged < 5 {
        events.send(sample()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(open);
    threads.stop().unwrap();
    let state = threads.remote().state();
    assert_eq!(counts.iter().sum::<u64>(), state.pipeline.samples);
    assert_eq!(state.sinks.dropped, 0);
}

#[test]
fn addresses_keep_no_name_after_the_deadline() {
    let ending = Ending::new(Duration::ZERO);
    assert!(!ending.is_past(Stage::Pipeline) && !ending.has_begun());
    ending.begin();
    assert!(ending.is_past(Stage::Pipeline) && ending.is_past(Stage::Sinks));
    let longer = Ending::new(Duration::from_secs(3600));
    longer.begin();
    assert!(!longer.is_past(Stage::Pipeline));
    assert!(longer.left(Stage::Pipeline) < longer.left(Stage::Names));
}

fn pids(pids: impl Into<Pids>) -> Change {
    Change { pids: Some(pids.into()), ..Change::default() }
}

fn pause(is_paused: bool) -> Change {
    Change { is_paused: Some(is_paused), ..Change::default() }
}

#[test]
fn change_of_period_ends_the_profile() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).start();
    events.send(sample()).unwrap();
    let mut before = wait_for_samples(&threads, 1).len() as u64;
    let change = |change: Change| threads.remote().change(change).unwrap();
    let first = change(Change { frequency: Some(20), ..Change::default() });
    assert_eq!(first.period(), Duration::from_millis(10));
    events.send(sample()).unwrap();
    before += 1 + wait_for_samples(&threads, 1).len() as u64;
    let second = change(pause(true));
    assert_eq!(second.period(), Duration::from_millis(50));
    assert!(threads.remote().settings().is_paused);
    let paused = change(pause(false));
    assert_eq!((paused.count(), paused.period()), (0, Duration::from_millis(50)));
    assert_eq!(threads.finish().unwrap().period(), Duration::from_millis(50));
    // All but the profile of the pause.
    assert_eq!(counts.iter().count() as u64, before + 2);
}

#[test]
fn resume_without_a_pause_loses_no_profile() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).start();
    events.send(sample()).unwrap();
    threads.remote().change(pause(false)).unwrap();
    threads.stop().unwrap();
    assert_eq!(counts.iter().sum::<u64>(), threads.remote().state().pipeline.samples);
}

#[test]
fn several_changes_end_one_profile() {
    let (sink, counts) = counting();
    let (mut threads, _events) = Setup::new().sink(sink).start();
    let change = Change { frequency: Some(20), is_paused: Some(true), ..pids([PID + 1]) };
    assert_eq!(threads.remote().change(change).unwrap().period(), Duration::from_millis(10));
    let Settings { frequency, pids, is_paused, .. } = threads.remote().settings();
    assert_eq!((frequency, pids, is_paused), (20, Pids::from([PID + 1]), true));
    threads.stop().unwrap();
    assert_eq!(counts.iter().count(), 2);
}

#[test]
fn change_of_pids_drops_samples_of_others() {
    let (mut threads, events) = Setup::new().start();
    let change = |change: Change| threads.remote().change(change).unwrap();
    for (others, unwanted) in [(Pids::from([PID + 1]), 1), (Pids::none(), 2)] {
        change(pids(others));
        events.send(sample()).unwrap();
        while threads.remote().state().pipeline.unwanted < unwanted {
            assert_eq!(threads.remote().take(Command::TakeProfile).unwrap().count(), 0);
        }
    }
    change(pids(Pids::All));
    events.send(sample()).unwrap();
    wait_for_samples(&threads, 1);
    threads.stop().unwrap();
}

/// No process of an empty set can exit.
#[test]
fn empty_set_waits_for_a_change() {
    let setup = Setup::new();
    setup.is_alive.store(false, Ordering::Relaxed);
    let (threads, _events) = setup.start();
    threads.remote().change(pids(Pids::none())).unwrap();
    threads.remote().wait(Duration::from_millis(1_500));
    assert!(threads.remote().is_running());
    threads.remote().change(pids([PID])).unwrap();
    threads.remote().wait(Duration::MAX);
    assert!(!threads.remote().is_running());
}

#[test]
fn handle_stops_and_the_owner_gets_the_last_profile() {
    let (sink, counts) = counting();
    let (mut threads, events) = Setup::new().sink(sink).start();
    events.send(sample()).unwrap();
    let handle = threads.remote().clone();
    let stopped =
        std::thread::spawn(move || (handle.stop(), handle.stop(), handle.take(Command::TakeProfile)));
    threads.remote().wait(Duration::MAX);
    let profile = threads.finish().unwrap();
    let (first, second, after) = stopped.join().unwrap();
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(after.unwrap_err(), StopError::Ended);
    assert_eq!(counts.iter().sum::<u64>(), threads.remote().state().pipeline.samples);
    assert_eq!(profile.count(), threads.remote().state().pipeline.samples);
}

/// A sink that waited for its own end would wait for the deadline of 60 s.
#[test]
fn sink_stops_its_profiler() {
    let handle = Arc::new(Mutex::new(None::<Remote>));
    let (taken, own) = (channel(), handle.clone());
    let sink = move |_: &Profile| {
        let stopped = lock(&own).take().map(|handle| handle.stop());
        taken.0.send(stopped)?;
        Ok(())
    };
    let (mut threads, _events) = Setup::new().sink(sink).start();
    *lock(&handle) = Some(threads.remote().clone());
    threads.remote().take(Command::TakeProfile).unwrap();
    assert_eq!(taken.1.recv().unwrap(), Some(Ok(())));
    threads.finish().unwrap();
    assert!(threads.remote().state().deadline.threads.is_empty());
}

#[test]
fn profile_that_is_not_ready_is_an_error_and_counted() {
    let (open, gate) = gate();
    let mut setup = Setup::new().symbolizer(gate);
    setup.parts.settings.reply_deadline = Duration::from_millis(20);
    let (mut threads, events) = setup.start();
    events.send(sample()).unwrap();
    let waited = Duration::from_millis(20);
    while threads.remote().take(Command::TakeProfile).is_ok() {}
    assert_eq!(threads.remote().change(pause(true)).unwrap_err(), StopError::NotReady { waited }.into());
    drop(open);
    threads.stop().unwrap();
    let state = threads.remote().state();
    assert!(state.deadline.replies >= 2 && threads.remote().settings().is_paused);
}

/// The source of these tests has no filter.
#[test]
fn filter_that_cannot_be_applied_ends_no_profile() {
    let (threads, events) = Setup::new().start();
    events.send(sample()).unwrap();
    let filter = KernelFilter::new(ebpf_programs::abi::filter::Filter::ALL, Arc::default());
    let filter = Some((filter, Filter::new()));
    match threads.remote().change(Change { filter, is_paused: Some(true), ..Change::default() }) {
        Err(ChangeError::Option(OptionError::Filter(error))) => assert!(!error.to_string().is_empty()),
        other => panic!("{other:?}"),
    }
    let profile = threads.remote().take(Command::TakeProfile).unwrap();
    assert_eq!(profile.count(), 1);
    assert!(threads.remote().is_running() && !threads.remote().settings().is_paused);
}
