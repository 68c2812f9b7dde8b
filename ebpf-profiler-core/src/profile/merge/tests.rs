use std::collections::BTreeMap;

use super::*;
use crate::sink::folded::sorted_lines as lines;
use crate::testing;

#[test]
fn equal_stacks_become_one_whatever_their_numbers() {
    let first = "cat;main;libc.so.6`read;sys_read_[k] 3\ncat;main 1\nls;main;helper_[i];deep_[j] 2";
    let second = "ls;main;helper_[i];deep_[j] 5\ncat;[truncated: stack not readable];f 1\ncat;main 2";
    let both = format!("{first}\n{second}");
    let (first, second) = (testing::profile(first), testing::profile(second));
    // The made-up pids depend on the order of the processes.
    let merged = Profile::merge([&first, &second]).unwrap();
    assert_eq!(merged.count(), 14);
    let sum = |profile: &Profile| {
        let mut sums = BTreeMap::<String, u64>::new();
        for line in lines(profile) {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            *sums.entry(stack.to_owned()).or_default() += count.parse::<u64>().unwrap();
        }
        sums
    };
    assert_eq!(sum(&merged), sum(&testing::profile(&both)));
}

#[test]
fn profile_merged_with_itself_has_twice_the_counts_and_no_more_parts() {
    let profile = testing::profile("cat;main;libc.so.6`read;sys_read_[k] 3\ncat;main;x::y_[i] 1");
    let merged = Profile::merge([&profile, &profile.clone()]).unwrap();
    let parts = |it: &Profile| {
        let names: Vec<String> = it.frames_by_place().map(|frame| frame.to_string()).collect();
        (it.modules().len(), it.threads().len(), it.stacks(), it.samples().len(), it.functions().len(), names)
    };
    assert_eq!(parts(&merged), parts(&profile));
    assert_eq!(merged.count(), 2 * profile.count());
    assert_eq!((merged.start(), merged.duration()), (profile.start(), profile.duration()));
}

/// Returns a profile with one sample of each value, of one kind.
fn of(kind: SampleKind, values: &[u64]) -> Profile {
    let mut builder = super::super::ProfileBuilder::of_kinds([kind]);
    let process = builder.process(Process::new(1));
    let thread = builder.thread(Thread::new(process, 1, "t"));
    let trace = Trace::new([].as_slice(), crate::trace::Stop::NoUserStack);
    for &value in values {
        builder.add_value(0, value, None, thread, &trace, 0);
    }
    builder.finish(SystemTime::UNIX_EPOCH, Duration::from_secs(1), |_| None, &mut crate::symbol::NoSymbols)
}

#[test]
fn values_of_different_periods_are_weighted() {
    use crate::profile::Unit;
    let cpu = |millis| SampleKind::cpu(Duration::from_millis(millis));
    let (ns, off) = (SampleKind::cpu_nanoseconds(), SampleKind::off_cpu());
    let unknown = Some(MergeError::Period { first: Duration::from_millis(10), other: Duration::ZERO });
    // Two profiles, and the unit, total and number of events of both together.
    let cases = [
        (of(cpu(10), &[1, 2]), of(cpu(10), &[4]), Ok((Unit::Count, 7, 3))),
        (of(cpu(10), &[1, 2]), of(cpu(50), &[4]), Ok((Unit::Nanoseconds, 230_000_000, 3))),
        (of(cpu(50), &[1]), of(cpu(10), &[1, 1]), Ok((Unit::Nanoseconds, 70_000_000, 3))),
        (of(cpu(10), &[1]), of(ns.clone(), &[5]), Ok((Unit::Nanoseconds, 10_000_005, 2))),
        (of(ns.clone(), &[1]), of(cpu(10), &[5]), Ok((Unit::Nanoseconds, 50_000_001, 2))),
        (of(cpu(10), &[u64::MAX]), of(cpu(20), &[1]), Ok((Unit::Nanoseconds, u64::MAX, 2))),
        (of(cpu(10), &[1]), of(cpu(0), &[1]), Err(unknown)),
        (of(off, &[1]), of(cpu(10), &[1]), Err(Some(MergeError::Kind))),
    ];
    for (first, second, expected) in cases {
        let merged = Profile::merge([&first, &second]).map_err(Some);
        let seen = merged.map(|it| (it.kind().unit(), it.total(), it.count()));
        assert_eq!(seen, expected, "{:?} {:?}", first.kind(), second.kind());
    }
    let more = Profile::merge([&of(cpu(10), &[1]), &of(cpu(20), &[1]), &of(cpu(40), &[1])]).unwrap();
    assert_eq!((more.kind().format(more.total()), more.period()), ("70 ms".into(), Duration::ZERO));
    assert_eq!(Profile::merge([]).unwrap_err(), MergeError::Empty);
}
