//! Labels that a program sets for its own threads, against calls that it counts.

use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::label::{WithLabels, label};
use ebpf_profiler_core::live::Uprobe;
use ebpf_profiler_core::profile::{Labels, Profile, Sample};

/// Calls in each scope.
const CALLS: u64 = 300;

#[test]
#[ignore = "needs root"]
fn samples_have_the_labels_of_the_scope_in_which_they_were_taken() {
    test_needs::root!();
    let profiler = profiler();
    let threads: Vec<_> = ["blue", "red"].map(|tenant| std::thread::spawn(move || work(tenant))).into();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (profile, health) = profiler.finish().unwrap();
    assert_eq!(health.lost, 0);
    let mut expected = BTreeMap::from([(String::new(), 2 * CALLS)]);
    for tenant in ["blue", "red"] {
        expected.insert(format!("tenant={tenant}"), 2 * CALLS);
        for request in 1..=3 {
            expected.insert(format!("request={request} tenant={tenant}"), CALLS);
        }
    }
    assert_eq!(counts(&profile), expected);
    let merged = Profile::merge([&profile, &profile]).unwrap();
    expected.values_mut().for_each(|count| *count *= 2);
    assert_eq!(counts(&merged), expected);
}

/// Tasks of two threads change places at each of 100,000 polls a second. A sample that is read too
/// late has no labels, never others.
#[test]
#[ignore = "needs root"]
fn samples_have_the_labels_of_the_task_that_is_polled() {
    const TASKS: i64 = 10;
    const POLLS: u64 = 20_000;
    const POLLS_PER_CALL: u64 = 100;
    test_needs::root!();
    let profiler = profiler();
    let task = |tenant: &'static str, request: i64| async move {
        for poll in 0..POLLS {
            if poll % POLLS_PER_CALL == 0 {
                black_box(labelled_call(poll));
            }
            let end = Instant::now() + Duration::from_micros(9);
            while Instant::now() < end {}
            tokio::task::yield_now().await;
        }
        async { black_box(labelled_call(0)) }.with_labels([("step", "last"), ("tenant", tenant)]).await;
        request
    };
    let run = move |tenant: &'static str| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let labels = Labels::from([("tenant", tenant)]);
        let start = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|request| {
                    let labels = labels.and(&Labels::from([("request", request)]));
                    tokio::spawn(task(tenant, request).with_labels(labels))
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let polls = TASKS as u64 * POLLS;
        println!("{:.0} polls a second", polls as f64 / start.elapsed().as_secs_f64());
        labelled_call(1);
    };
    let threads: Vec<_> = ["blue", "red"].map(|tenant| std::thread::spawn(move || run(tenant))).into();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (profile, health) = profiler.finish().unwrap();
    let unlabelled = health.pipeline.unlabelled;
    println!("{unlabelled} samples without their labels");
    assert_eq!(health.lost, 0);
    let mut expected = BTreeMap::from([(String::new(), 2)]);
    for tenant in ["blue", "red"] {
        for request in 0..TASKS {
            expected.insert(format!("request={request} tenant={tenant}"), POLLS / POLLS_PER_CALL);
            expected.insert(format!("request={request} step=last tenant={tenant}"), 1);
        }
    }
    let counts = counts(&profile);
    let missing: u64 =
        expected.iter().map(|(labels, &all)| all - counts.get(labels).unwrap_or(&0).min(&all)).sum();
    assert_eq!(missing, unlabelled, "{counts:?}");
    assert_eq!(counts.values().sum::<u64>(), expected.values().sum::<u64>(), "{counts:?}");
    assert!(unlabelled * 50 <= profile.count(), "{unlabelled} of {}", profile.count());
}

/// Samples the calls of this program.
fn profiler() -> Profiler {
    let probe = Uprobe::entry(env::current_exe().unwrap(), "labelled_call");
    let builder = Profiler::builder().frame_pointers_only().on(probe).pid(std::process::id());
    let builder = builder.ring_size(64 << 20).deadline(Duration::from_secs(120));
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Makes calls without labels, with one, and with two.
fn work(tenant: &'static str) {
    call();
    let _tenant = label("tenant", tenant);
    call();
    for request in 1..=3 {
        let _request = label("request", request);
        call();
    }
    call();
}

fn call() {
    for number in 0..CALLS {
        black_box(labelled_call(number));
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn labelled_call(number: u64) -> u64 {
    black_box(number)
}

/// Returns the number of calls for each set of labels.
fn counts(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for sample in profile.samples() {
        *counts.entry(text(&sample)).or_default() += sample.count();
    }
    counts
}

fn text(sample: &Sample<'_>) -> String {
    let texts = sample.labels().iter().map(|label| format!("{}={}", label.key(), label.value()));
    texts.collect::<Vec<_>>().join(" ")
}
