//! Labels that a program sets for its own threads, against calls that it counts.

use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::time::Duration;

use ebpf_profiler_core::Profiler;
use ebpf_profiler_core::live::{Uprobe, label};
use ebpf_profiler_core::profile::{Profile, Sample};

/// Calls in each scope.
const CALLS: u64 = 300;

#[test]
#[ignore = "needs root"]
fn samples_have_the_labels_of_the_scope_in_which_they_were_taken() {
    test_needs::root!();
    let probe = Uprobe::entry(env::current_exe().unwrap(), "labelled_call");
    let builder = Profiler::builder().frame_pointers_only().on(probe).pid(std::process::id());
    let profiler = builder
        .ring_size(64 << 20)
        .deadline(Duration::from_secs(120))
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
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
