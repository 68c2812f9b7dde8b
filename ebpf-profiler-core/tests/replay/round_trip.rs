//! A replay returns the recorded profiles.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ebpf_profiler_core::internal::pipeline::Clock;
use ebpf_profiler_core::internal::replay::{RecordOptions, Recorder};
use ebpf_profiler_core::internal::sample::{Batch, Counts, Life, LifeEvent, Source, TickRecord};
use ebpf_profiler_core::internal::testing::FakeTick;
use ebpf_profiler_core::profile::Profile;
use ebpf_programs::abi::record::HEAD_WORDS;

use crate::world::{AnyFile, CODE, Shared, batches, record, record_with, recorder, replay, system, text};

const PATH: &str = "/made/up/program";

#[test]
fn a_replay_gives_the_profiles_that_were_recorded() {
    let (recording, texts) = record(system(PATH), batches(PATH));
    let profiles: Vec<Profile> = replay(&recording).profiles().unwrap().map(Result::unwrap).collect();
    assert_eq!(profiles.iter().map(text).collect::<Vec<_>>(), texts);
    // Two callers by frame pointer, and the kernel function's name, which is in no file of this
    // machine.
    assert!(texts[0].contains("do_it_[k]"), "{}", texts[0]);
    assert!(texts[0].lines().any(|line| line.matches(';').count() == 3), "{}", texts[0]);
    assert_eq!(texts[1].lines().count(), 3, "{}", texts[1]);
}

#[test]
fn all_of_it_is_one_profile() {
    let (recording, _) = record(system(PATH), batches(PATH));
    let before = SystemTime::now();
    let profile = replay(&recording).profile().unwrap();
    assert_eq!(profile.count(), 5);
    assert_eq!(profile.period(), Duration::from_millis(10));
    assert!(profile.start() <= before && profile.start() + Duration::from_secs(600) > before);
    let first = profile.samples().next().unwrap();
    assert_eq!(first.timestamps(), [1_100]);
}

#[test]
fn sinks_get_each_profile_and_their_errors_are_kept() {
    let (recording, texts) = record(system(PATH), batches(PATH));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let replayed = replay(&recording)
        .sink(move |profile: &Profile| {
            sink.lock().unwrap().push(text(profile));
            Err("no more paper".into())
        })
        .run()
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), texts);
    assert_eq!((replayed.profiles, replayed.sink_errors.len()), (2, 2));
    assert_eq!((replayed.pipeline.samples, replayed.pipeline.malformed), (5, 1));
    assert_eq!(replayed.pipeline.life_lost, 3);
}

#[test]
fn processes_have_the_state_at_the_time_of_the_event() {
    // The same process id twice, with another program the second time.
    let (mut recording, texts) = record(system(PATH), batches(PATH));
    let again = replay(&recording).profiles().unwrap().map(|profile| text(&profile.unwrap()));
    assert_eq!(again.collect::<Vec<_>>(), texts);
    // A record of an unknown kind is skipped.
    let end = recording.len() - 20;
    recording.splice(end..end, [99, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    assert_eq!(replay(&recording).profile().unwrap().count(), 5);
}

#[test]
fn walks_process_attached_before_its_first_tick() {
    let mut batch = Batch::default();
    batch.push_life(LifeEvent { time: 50, pid: 8, life: Life::Forked { parent: 7 } });
    batch.push_tick(&FakeTick::walked(100, 7, "cat", &[CODE + 8, CODE + 128]).bytes());
    batch.push_tick(&FakeTick::walked(110, 8, "dog", &[CODE + 16]).bytes());
    let (recording, texts) = record_with(vec![Box::new(AnyFile)], system(PATH), vec![batch]);
    assert_eq!(texts, ["cat;program+0x80;program+0x8 1\ndog;program+0x10 1\n"]);
    assert_eq!(text(&replay(&recording).profile().unwrap()), texts[0]);
}

/// A recording holds the verdicts: in a replay, no published state is outdated.
#[test]
fn stacks_by_outdated_mappings_are_the_same_ones_in_a_replay() {
    let tick = |time, epoch| FakeTick::walked(time, 7, "cat", &[CODE + 8]).epoch(epoch).bytes();
    let mut batch = Batch::default();
    [(100, 0), (200, 99), (300, 0)].into_iter().for_each(|(time, epoch)| batch.push_tick(&tick(time, epoch)));
    let (recording, texts) = record(system(PATH), vec![batch]);
    assert!(texts[0].contains("mappings changed meanwhile") && texts[0].ends_with(" 1\n"), "{}", texts[0]);
    assert_eq!(text(&replay(&recording).profile().unwrap()), texts[0]);
}

#[test]
fn the_events_come_through_the_trait_of_all_sources() {
    let (recording, _) = record(system(PATH), batches(PATH));
    let mut source = replay(&recording).source().unwrap();
    for expected in batches(PATH) {
        let mut batch = Batch::default();
        assert!(source.next(Duration::ZERO, &mut batch).unwrap());
        assert_eq!(batch.life(), expected.life());
        // Of a malformed record only the time is recorded.
        assert!(batch.ticks().map(TickRecord::decode).eq(expected.ticks().map(TickRecord::decode)));
    }
    assert!(!source.next(Duration::ZERO, &mut Batch::default()).unwrap());
    assert_eq!(source.counts(), Counts::default());
}

#[test]
fn filters_processes() {
    let out = Shared::default();
    let mut options = RecordOptions::new(Clock::default(), Duration::from_millis(10));
    options.pids = [8].into();
    let recorder = Recorder::new(out.clone(), &options).unwrap();
    batches(PATH).iter().for_each(|batch| recorder.batch(batch));
    assert_eq!(recorder.finish().error, None);
    let recording = out.0.lock().unwrap().clone();
    let mut source = replay(&recording).source().unwrap();
    let mut batch = Batch::default();
    assert!(source.next(Duration::ZERO, &mut batch).unwrap());
    let stacks = |batch: &Batch| batch.ticks().filter(|words| words.len() > HEAD_WORDS).count();
    assert_eq!((batch.ticks().count(), stacks(&batch)), (2, 0), "8 is selected, 7 was sampled");
    batch.clear();
    assert!(source.next(Duration::ZERO, &mut batch).unwrap());
    assert_eq!((batch.ticks().count(), stacks(&batch)), (4, 2));
}

#[test]
fn lost_ticks_are_in_the_profile_in_which_they_were_lost() {
    let out = Shared::default();
    let recorder = recorder(&out);
    for lost in [3, 3, 10] {
        let mut counts = Counts::default();
        counts.counters = vec![0, 0, 0, 0, lost];
        recorder.flush(&counts);
    }
    assert_eq!(recorder.finish().error, None);
    let recording = out.0.lock().unwrap().clone();
    let lost = |profile: &Profile| profile.losses().map(|(_, count)| count).sum::<u64>();
    let profiles = replay(&recording).profiles().unwrap();
    assert_eq!(profiles.map(|profile| lost(&profile.unwrap())).collect::<Vec<_>>(), [3, 0, 7]);
    assert_eq!(lost(&replay(&recording).profile().unwrap()), 10);
}
