//! Tests of times, held samples and samples around an exec.

use super::*;
use crate::symbol::NoSymbols;
use crate::tables::MemoryTables;
use crate::testing::{FakeSystem, FakeTick};

#[test]
fn the_time_of_day_can_be_set() {
    let system = Box::new(FakeSystem::default());
    let registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    let mut pipeline = Pipeline::new(registry, Clock { offset: 1_000 }, Duration::from_millis(10));
    let mut time_of_tick = |time, clock| {
        pipeline.set_clock(clock);
        let mut batch = Batch::default();
        batch.push_tick(&FakeTick::walked(time, 7, "cat", &[]).bytes());
        pipeline.take(&mut batch);
        let profile = pipeline.finish().symbolize(&mut NoSymbols);
        profile.samples().flat_map(|sample| sample.timestamps().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(time_of_tick(5, Clock { offset: 1_000 }), [1_005]);
    assert_eq!(time_of_tick(6, Clock { offset: 2_000 }), [2_006]);
    assert_eq!(time_of_tick(7, Clock { offset: 1u64.wrapping_neg() }), [6]);
}

/// Times and stop reasons of samples.
type Samples<'a> = &'a [(u64, Stop)];

/// Takes batches of samples and exec times of one process; returns the stop reasons in the order of
/// time.
fn stops(batches: &[(Samples<'_>, &[u64])]) -> Vec<Stop> {
    let file = crate::sample::FileId::Inode { device: (8, 1), inode: 1 };
    let maps = vec![crate::sample::MapEvent::new(0x1000..0x2000, 0, file, "/bin/sh")];
    let system = Box::new(FakeSystem::default().process(7, "/bin/sh", maps));
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    registry.publish(7, 0);
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    for (ticks, execs) in batches {
        let mut batch = Batch::default();
        for &(time, stop) in *ticks {
            let tick = FakeTick::walked(time, 7, "sh", &[0x1800]).kernel(&[0xffff_ffff_8100_0000]);
            batch.push_tick(&tick.stop(stop).bytes());
        }
        execs.iter().for_each(|&time| {
            batch.push_life(LifeEvent { time, pid: 7, life: Life::Executed });
        });
        pipeline.take(&mut batch);
    }
    let profile = pipeline.finish().symbolize(&mut NoSymbols);
    let mut stops: Vec<(u64, Stop)> = Vec::new();
    for sample in profile.samples() {
        stops.extend(sample.timestamps().iter().map(|&time| (time, sample.trace().stop())));
    }
    stops.sort_unstable_by_key(|&(time, _)| time);
    stops.into_iter().map(|(_, stop)| stop).collect()
}

/// Returns the total of each profile of a pipeline with one kind of samples in bytes.
fn totals(profiles: &[&[FakeTick]], life: &[LifeEvent]) -> Vec<u64> {
    let system = Box::new(FakeSystem::default());
    let registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    pipeline.set_kinds(vec![SampleKind::new("inuse_space", crate::profile::Unit::Bytes)]);
    let each = profiles.iter().map(|ticks| {
        let mut batch = Batch::default();
        life.iter().for_each(|event| batch.push_life(event.clone()));
        ticks.iter().for_each(|tick| batch.push_tick(&tick.bytes()));
        pipeline.take(&mut batch);
        pipeline.finish().symbolize(&mut NoSymbols).total()
    });
    each.collect()
}

#[test]
fn held_samples_count_in_each_profile_until_their_end() {
    let held = |time, bytes| FakeTick::walked(time, 7, "cat", &[1, 2]).held().value(0, bytes);
    let end = |time, of, value| FakeTick::end(time, 7, (of, 0)).value(0, value);
    assert_eq!(
        totals(&[&[held(1, 10), held(2, 20)], &[held(3, 5)], &[end(4, 1, 0)], &[]], &[]),
        [30, 35, 25, 25]
    );
    // A request has no value until it completes, and then one in one profile.
    assert_eq!(totals(&[&[held(1, 0), held(2, 0)], &[end(3, 2, 700)], &[]], &[]), [0, 700, 0]);
    // The end was read before its sample, in the batch before.
    assert_eq!(totals(&[&[end(5, 4, 0)], &[held(4, 10)], &[]], &[]), [0, 0, 0]);
    assert_eq!(totals(&[&[end(5, 4, 9)], &[held(4, 0)], &[]], &[]), [0, 9, 0]);
}

#[test]
fn held_samples_end_with_their_process() {
    let held = |time, pid| FakeTick::walked(time, pid, "cat", &[1, 2]).held().value(0, 10);
    let life = |time, life| LifeEvent { time, pid: 7, life };
    let ticks: &[&[FakeTick]] = &[&[held(1, 7), held(1, 8), held(5, 7)], &[]];
    assert_eq!(totals(ticks, &[life(3, Life::Executed)]), [20, 20]);
    // No process of the fake system has memory.
    assert_eq!(totals(ticks, &[life(9, Life::Exited)]), [10, 10]);
}

#[test]
fn unreadable_stack_before_an_exec_is_one_within_it() {
    let unreadable = (1_000, Stop::Unreadable);
    assert_eq!(stops(&[(&[unreadable], &[1_500])]), [Stop::Exec]);
    assert_eq!(stops(&[(&[unreadable], &[]), (&[], &[1_500])]), [Stop::Exec], "event in the next batch");
    assert_eq!(stops(&[(&[unreadable], &[]), (&[], &[])]), [Stop::Unreadable]);
    assert_eq!(stops(&[(&[unreadable], &[])]), [Stop::Unreadable], "held until the profile ends");
    assert_eq!(stops(&[(&[(1_000, Stop::Root)], &[1_500])]), [Stop::Root]);
}

#[test]
fn walk_by_the_former_mappings_after_an_exec_is_dropped() {
    assert_eq!(stops(&[(&[(2_000, Stop::Root)], &[1_500])]), [Stop::Exec]);
    assert_eq!(stops(&[(&[], &[1_500]), (&[(2_000, Stop::Unreadable)], &[])]), [Stop::Exec]);
}

#[test]
fn late_samples_keep_process_and_innermost_function() {
    let file = crate::sample::FileId::Inode { device: (8, 1), inode: 1 };
    let maps = vec![crate::sample::MapEvent::new(0x1000..0x2000, 0, file, "/bin/sh")];
    let system = Box::new(FakeSystem::default().process(7, "/bin/sh", maps));
    let mut registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    registry.publish(7, 0);
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    let mut batch = Batch::default();
    for time in 0..6 {
        let tick = FakeTick::walked(time, 7, "sh", &[0x1800, 0x1900]).kernel(&[0xffff_ffff_8100_0000]);
        batch.push_tick(&tick.stop(Stop::Root).bytes());
    }
    let calls = std::cell::Cell::new(0);
    let urgency = || {
        calls.set(calls.get() + 1);
        if calls.get() > 2 { Urgency::Over } else { Urgency::Ending }
    };
    pipeline.take_by(&mut batch, &urgency);
    assert_eq!((pipeline.stats().samples, pipeline.stats().late), (6, 4));
    let profile = pipeline.finish().symbolize(&mut NoSymbols);
    let mut stacks: Vec<_> = profile
        .samples()
        .map(|sample| (sample.trace().stop(), sample.trace().frames().count(), sample.count()))
        .collect();
    stacks.sort_unstable();
    assert_eq!(stacks, [(Stop::Root, 3, 2), (Stop::Late, 2, 4)]);
    assert!(profile.samples().all(|sample| sample.process().pid == 7 && &*sample.thread().name == "sh"));
}

/// Words of one label, as the kernel side copies them.
fn label(key: &[u8; 8], value: &[u8; 8]) -> [u64; 3] {
    [8 | 8 << 16, u64::from_ne_bytes(*key), u64::from_ne_bytes(*value)]
}

#[test]
fn copied_labels_are_part_of_a_sample() {
    let system = Box::new(FakeSystem::default());
    let registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    let mut batch = Batch::default();
    let (blue, red) = (label(b"tenant  ", b"blue    "), label(b"tenant  ", b"red     "));
    // Of one moment: both, none, cut, unreadable, and words that are no pairs.
    let ticks: [(&[u64], u8); 7] =
        [(&blue, 0), (&red, 0), (&blue, 0), (&[], 0), (&red, 2), (&[], 1), (&[u64::MAX], 0)];
    for (words, flags) in ticks {
        batch.push_tick(&FakeTick::walked(5, 7, "go", &[]).kernel(&[9]).labels(words, flags).bytes());
    }
    pipeline.take(&mut batch);
    let stats = pipeline.stats();
    let profile = pipeline.finish().symbolize(&mut NoSymbols);
    let mut counts: Vec<(String, u64)> = profile
        .samples()
        .map(|sample| (sample.labels().get("tenant  ").map(ToString::to_string), sample.count()))
        .map(|(tenant, count)| (tenant.unwrap_or_default(), count))
        .collect();
    counts.sort();
    assert_eq!(counts, [(String::new(), 3), ("blue    ".into(), 2), ("red     ".into(), 2)]);
    assert_eq!((stats.unlabelled, stats.cut_labels, stats.malformed), (2, 1, 0));
}

#[test]
fn combinations_of_labels_are_bounded() {
    let system = Box::new(FakeSystem::default());
    let registry = Registry::new(system, Box::new(MemoryTables::default()), None, 1 << 20);
    let mut pipeline = Pipeline::new(registry, Clock::default(), Duration::from_millis(10));
    let mut batch = Batch::default();
    for value in 0..20_000u64 {
        let mut digits = [b' '; 8];
        digits.iter_mut().enumerate().for_each(|(at, digit)| *digit = b'0' + (value >> (2 * at) & 3) as u8);
        let words = label(b"request ", &digits);
        batch.push_tick(&FakeTick::walked(5, 7, "go", &[]).labels(&words, 0).bytes());
    }
    pipeline.take(&mut batch);
    assert_eq!(pipeline.stats().unlabelled, 20_000 - 16_384);
    assert_eq!(pipeline.finish().symbolize(&mut NoSymbols).count(), 20_000);
}
