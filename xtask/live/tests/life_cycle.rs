//! Start and end of a profiler on the running machine.
//!
//! Needs root: `cargo test -p live-suite --test life_cycle -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{
    AttachError, Builder, ChangeError, Changes, Filter, OptionError, Pids, StartError, StopError, Uprobe,
};
use ebpf_profiler_core::profile::Profile;
use ebpf_profiler_core::replay::Replay;
use ebpf_profiler_core::symbol::NoSymbols;

fn builder() -> Builder {
    Profiler::builder().frame_pointers_only().frequency(197).symbolizer(NoSymbols)
}

fn start(builder: Builder) -> Profiler {
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

/// A process that runs until it is killed.
fn busy() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
}

fn spin(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "needs root"]
fn own_pid_is_sampled_without_include_self() {
    test_needs::root!();
    let profiler = start(builder().pid(std::process::id()));
    spin(Duration::from_millis(500));
    let (profile, _) = profiler.finish().unwrap();
    assert!(profile.samples().any(|sample| sample.process().pid == std::process::id()));
}

#[test]
#[ignore = "needs root"]
fn exit_of_last_process_ends_run_with_its_profile() {
    test_needs::root!();
    let mut busy = busy();
    let profiler = start(builder().pid(busy.id()));
    assert!(profiler.is_running());
    std::thread::sleep(Duration::from_millis(500));
    busy.kill().unwrap();
    busy.wait().unwrap();
    // An unnoticed exit would last an hour.
    let profile = profiler.run_for(Duration::from_secs(3600)).unwrap();
    assert!(profile.count() > 0);
    assert!(profile.samples().all(|sample| sample.process().pid == busy.id()));
}

#[test]
#[ignore = "needs root"]
fn sinks_get_all_profiles_of_a_run() {
    test_needs::root!();
    for interval in [None, Some(Duration::from_millis(100))] {
        let (sender, profiles) = channel();
        let mut builder = builder().include_self().sink(move |profile: &Profile| {
            sender.send(profile.clone())?;
            Ok(())
        });
        if let Some(interval) = interval {
            builder = builder.every(interval);
        }
        let profiler = start(builder);
        spin(Duration::from_millis(300));
        let taken = profiler.take_profile().unwrap();
        spin(Duration::from_millis(300));
        let (last, health) = profiler.finish().unwrap();
        let counts: Vec<u64> = profiles.iter().map(|profile| profile.count()).collect();
        assert!(counts.contains(&taken.count()) && counts.last() == Some(&last.count()));
        assert_eq!(counts.iter().sum::<u64>(), health.pipeline.samples, "{health:?}");
        assert_eq!(counts.len() as u64, health.sinks.delivered);
        assert_eq!(counts.len() > 2, interval.is_some(), "{counts:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn invalid_options_do_not_start() {
    test_needs::root!();
    let option = |builder: Builder| match builder.start() {
        Err(StartError::Option(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(option(builder().ring_size(1)), OptionError::RingSize { bytes: 1 }));
    assert!(matches!(option(builder().jitter(1.5)), OptionError::Jitter { .. }));
    assert!(matches!(option(builder().pid(u32::MAX)), OptionError::NoProcess { .. }));
    let none = Duration::ZERO;
    let sink = |_: &Profile| Ok(());
    assert!(matches!(option(builder().every(none).sink(sink)), OptionError::Interval { .. }));
    assert!(matches!(option(builder().every(Duration::from_secs(1))), OptionError::NoSink));
}

#[test]
#[ignore = "needs root"]
fn changes_apply_while_running_and_replay() {
    test_needs::root!();
    let path = std::env::temp_dir().join(format!("life-cycle-{}.ticks", std::process::id()));
    let (mut first, mut second) = (busy(), busy());
    let profiler = start(builder().pid(first.id()).record(&path));
    let of = |profile: &Profile, child: &Child| {
        profile
            .samples()
            .filter(|sample| sample.process().pid == child.id())
            .map(|it| it.count())
            .sum::<u64>()
    };
    let run = || std::thread::sleep(Duration::from_millis(600));
    run();
    let slow = profiler.set_frequency(997).unwrap();
    run();
    let fast = profiler.set_pids([second.id()]).unwrap().profile;
    run();
    let other = profiler.pause().unwrap();
    run();
    let paused = profiler.take_profile().unwrap();
    profiler.resume().unwrap();
    run();
    let (last, health) = profiler.finish().unwrap();
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let profiles = [&slow, &fast, &other, &last];
    assert_eq!(profiles.map(|profile| 1_000_000_000 / profile.period().as_nanos()), [197, 997, 997, 997]);
    assert_eq!(profiles.map(|profile| of(profile, &first) > 0), [true, true, false, false]);
    assert_eq!(profiles.map(|profile| of(profile, &second) > 0), [false, false, true, true]);
    assert!(paused.count() == 0 && health.lost == 0, "{health:?}");

    let replayed: Vec<Profile> =
        Replay::open(&path).unwrap().profiles().unwrap().collect::<Result<_, _>>().unwrap();
    std::fs::remove_file(&path).unwrap();
    let content = |profile: &Profile| (profile.period(), profile.count());
    let recorded: Vec<_> = replayed.iter().filter(|profile| profile.count() > 0).map(content).collect();
    assert_eq!(recorded, profiles.map(content));
}

/// A process that ended, and whose id is free.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
#[ignore = "needs root"]
fn dead_processes_are_skipped_and_an_empty_set_is_nobody() {
    test_needs::root!();
    let path = std::env::temp_dir().join(format!("life-cycle-pids-{}.ticks", std::process::id()));
    let (mut child, mut other, dead) = (busy(), busy(), dead());
    let profiler = start(builder().pids(Pids::none()).record(&path));
    let run = || std::thread::sleep(Duration::from_millis(600));
    run();
    let changed = profiler.set_pids([child.id(), dead]).unwrap();
    assert_eq!((changed.profile.count(), changed.skipped), (0, vec![OptionError::NoProcess { pid: dead }]));
    assert_eq!(profiler.settings().pids, Pids::from([child.id()]));
    run();
    let one = profiler.set_pids([dead]).unwrap();
    assert_eq!((one.skipped.len(), profiler.settings().pids), (1, Pids::none()));
    run();
    assert!(profiler.is_running());
    let nobody = profiler.set_pids(Pids::All).unwrap().profile;
    run();
    let (everybody, _) = profiler.finish().unwrap();
    for busy in [&mut child, &mut other] {
        busy.kill().unwrap();
        busy.wait().unwrap();
    }
    let is_of = |profile: &Profile, busy: &Child| profile.samples().any(|it| it.process().pid == busy.id());
    assert!(is_of(&one.profile, &child));
    assert!(one.profile.samples().all(|it| it.process().pid == child.id()));
    assert_eq!(nobody.count(), 0);
    assert!(is_of(&everybody, &child) && is_of(&everybody, &other));

    let replayed = Replay::open(&path).unwrap().profiles().unwrap();
    let counts: Vec<u64> = replayed.map(|profile| profile.unwrap().count()).collect();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(counts, [0, one.profile.count(), 0, everybody.count()]);
}

#[test]
#[ignore = "needs root"]
fn changes_end_one_profile_and_apply_together_or_not_at_all() {
    test_needs::root!();
    let mut child = busy();
    let (sender, profiles) = channel();
    let sink = move |profile: &Profile| Ok(sender.send(profile.count())?);
    let profiler = start(builder().sink(sink));
    let changes = Changes::new().frequency(997).pids([child.id()]);
    let wrong = changes.clone().filter(Filter::new().cgroup("no/such.slice"));
    assert!(matches!(profiler.reconfigure(&wrong), Err(ChangeError::Option(OptionError::Filter(_)))));
    assert!(profiler.settings().frequency == 197 && profiler.settings().pids == Pids::All);
    let filter = Filter::new().command("sh").user_code();
    let first = profiler.reconfigure(&changes.filter(filter.clone())).unwrap();
    let settings = profiler.settings();
    assert_eq!((settings.frequency, settings.filter), (997, filter));
    std::thread::sleep(Duration::from_millis(600));
    let (last, _) = profiler.finish().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(last.count() > 0 && last.samples().all(|it| it.process().pid == child.id()));
    assert_eq!([first.profile.period(), last.period()].map(|it| 1_000_000_000 / it.as_nanos()), [197, 997]);
    assert_eq!(profiles.iter().collect::<Vec<_>>(), [first.profile.count(), last.count()]);
}

#[test]
#[ignore = "needs root"]
fn handles_control_a_run_of_another_thread() {
    test_needs::root!();
    let profiler = start(builder().include_self());
    let (handle, other) = (profiler.handle(), profiler.handle());
    let controller = std::thread::spawn(move || {
        spin(Duration::from_millis(300));
        let taken = handle.take_profile().unwrap();
        spin(Duration::from_millis(300));
        let health = handle.stop().unwrap();
        (taken.count(), health.pipeline.samples)
    });
    // Without the handle it would last an hour.
    let last = profiler.run_for(Duration::from_secs(3600)).unwrap();
    let (taken, samples) = controller.join().unwrap();
    assert!(taken > 0 && last.count() > 0);
    assert_eq!(taken + last.count(), samples);
    assert!(!other.is_running() && other.stop().is_ok());
    assert!(matches!(other.take_profile(), Err(StopError::Ended)));
}

#[test]
#[ignore = "needs root"]
fn triggers_that_cannot_be_attached_are_told_apart() {
    test_needs::root!();
    let own = std::env::current_exe().unwrap();
    match builder().on(Uprobe::entry(&own, "no_such_function")).start() {
        Err(StartError::Trigger { trigger, error: AttachError::NotFound { .. } }) => {
            assert!(trigger.to_string().ends_with("no_such_function"));
        }
        other => panic!("{other:?}"),
    }
}
