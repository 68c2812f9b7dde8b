//! The program `agent` and a real OpenTelemetry collector, which `cargo xtask fixtures` builds.
//!
//! Needs root: `cargo build --release --package examples`, then
//! `cargo test --release -p live-suite --test collector -- --ignored --test-threads=1`.
//! The variable `COLLECTOR_SECONDS` lets the tests in which the collector is killed take longer
//! than 20 seconds each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agent;
mod certificates;
mod kinds;
mod otelcol;
mod privileges;
mod received;
mod scratch;
mod scripts;
mod workload;

use std::thread::sleep;
use std::time::{Duration, Instant};

use agent::Agent;
use certificates::Certificates;
use otelcol::{Options, Otelcol};
use scratch::Scratch;
use workload::Workload;

use live_suite::selection::is_matrix;

const SECOND: Duration = Duration::from_secs(1);

/// Functions of the workload that the debug exporter has to show.
const FUNCTIONS: [&str; 6] = ["leaf", "l3", "l2", "spread", "l1", "main"];

#[test]
#[ignore = "needs root and a collector"]
fn the_functions_of_a_workload_arrive_by_each_way() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    let all = ["grpc", "http"].map(|it| ["gzip", "zstd", "zstd:9", "none"].map(|way| (it, way))).concat();
    // Each protocol and each compression, and in the matrix all pairs of them.
    let some = [("grpc", "gzip"), ("grpc", "zstd:9"), ("http", "zstd"), ("http", "none")];
    for (protocol, compression) in if is_matrix() { all } else { some.to_vec() } {
        let scratch = Scratch::new("ways");
        let mut collector = Otelcol::start(&program, &scratch, &Options::default());
        let workload = Workload::start(&scratch);
        let account = Agent::new(&collector.endpoint(protocol))
            .with(&["--protocol", protocol, "--compression", compression])
            .with(&["--pid", &workload.pid(), "--seconds", "3", "--interval", "1"])
            .run();
        let received = collector.received();
        println!("{protocol} {compression}: {account}");
        received.assert_has(&FUNCTIONS);
        assert_eq!(received.profiles(), account.delivered);
        assert!(account.delivered >= 2 && account.dropped == 0, "{account}");
    }
}

/// Returns both protocols in the matrix, otherwise the first one: the test is on what they share.
pub(crate) fn protocols(both: [&'static str; 2]) -> Vec<&'static str> {
    both[..if is_matrix() { 2 } else { 1 }].to_vec()
}

#[test]
#[ignore = "needs root and a collector"]
fn functions_arrive_through_mutual_tls() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    for protocol in ["grpc", "http"] {
        let scratch = Scratch::new("tls");
        let certificates = Certificates::new(&scratch);
        let options = Options { certificates: Some(&certificates), ..Options::default() };
        let mut collector = Otelcol::start(&program, &scratch, &options);
        let workload = Workload::start(&scratch);
        let agent = || {
            Agent::new(&collector.endpoint(protocol).replace("http:", "https:"))
                .with(&[
                    "--protocol",
                    protocol,
                    "--pid",
                    &workload.pid(),
                    "--seconds",
                    "2",
                    "--interval",
                    "1",
                ])
                .with(&["--certificate", &certificates.authority])
        };
        let stranger = agent().run();
        println!("{protocol}, a client without certificate: {stranger}");
        assert!(
            stranger.delivered == 0 && stranger.said.contains("cannot secure the connection: "),
            "{stranger}"
        );

        let known = agent()
            .with(&["--client-certificate", &certificates.client, "--client-key", &certificates.client_key])
            .run();
        println!("{protocol}, a client that is known: {known}");
        collector.received().assert_has(&FUNCTIONS);
        assert!(known.delivered >= 1 && known.dropped == 0, "{known}");
    }
}

#[test]
#[ignore = "needs root and a collector"]
fn splits_profiles_too_large_for_a_collector() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    let scratch = Scratch::new("large");
    let options = Options { most_bytes: Some(50_000), ..Options::default() };
    let mut collector = Otelcol::start(&program, &scratch, &options);
    let workload = Workload::start(&scratch);
    let _others = Workload::of_many_stacks();
    let account = Agent::new(&collector.endpoint("http"))
        .with(&["--frequency", "997", "--seconds", "4", "--interval", "2"])
        .run();
    drop(workload);
    println!("{account}");
    collector.received().assert_has(&FUNCTIONS);
    assert!(account.said.contains(" divided"), "{account}");
    assert_eq!((account.dropped, account.retries), (0, 0), "{account}");
}

#[test]
#[ignore = "needs root and a collector"]
fn a_spool_loses_nothing_when_the_collector_is_killed_again_and_again() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    for protocol in protocols(["grpc", "http"]) {
        let scratch = Scratch::new("spool");
        // The workload always runs: an interval without samples would send no profile.
        let _workload = Workload::start(&scratch);
        let mut collector = Otelcol::start(&program, &scratch, &Options::default());
        let agent = Agent::new(&collector.endpoint(protocol))
            .with(&["--protocol", protocol, "--interval", "0.5"])
            .with(&["--spool", &scratch.path("spool")])
            .start();
        (0..2).for_each(|_| kill_and_restart(&mut collector));
        let account = agent.end();
        let received = collector.received();
        println!("{protocol}: {account}; {}", received.summary());
        assert!(account.retries > 0, "no retry although the collector was killed: {account}");
        assert_eq!((account.dropped, account.queued, account.on_disk), (0, 0, 0), "{account}");
        assert_eq!(received.profiles(), account.delivered);
        assert_eq!(received.gaps(), 0, "there are gaps between the profiles: {}", received.summary());
    }
}

#[test]
#[ignore = "needs root and a collector"]
fn counts_profiles_dropped_without_a_spool() {
    test_needs::root!();
    test_needs::programs!("gcc");
    let Some(program) = otelcol::program() else { return };
    let scratch = Scratch::new("memory");
    let workload = Workload::start(&scratch);
    let mut collector = Otelcol::start(&program, &scratch, &Options::default());
    let agent = Agent::new(&collector.endpoint("grpc"))
        .with(&["--protocol", "grpc", "--pid", &workload.pid(), "--interval", "0.2", "--queue-mib", "0.01"])
        .start();
    kill_and_restart(&mut collector);
    let account = agent.end();
    let received = collector.received();
    println!("{account}; {}", received.summary());
    assert!(account.dropped > 0 && account.said.contains("queue full"), "{account}");
    assert_eq!(received.profiles(), account.delivered);
    assert!(received.gaps() > 0, "{account}; {}", received.summary());
}

/// Kills the collector, starts it again, and returns after profiles have reached it again, of all
/// intervals.
fn kill_and_restart(collector: &mut Otelcol) {
    sleep(SECOND * 3 / 2);
    collector.kill();
    let before = collector.so_far().profiles();
    // Several intervals.
    sleep(SECOND * 5 / 2);
    collector.start_again();
    // The agent waits up to 8 s between two attempts.
    let end = Instant::now() + 60 * SECOND;
    while collector.so_far().profiles() == before {
        assert!(Instant::now() < end, "no profile since the collector runs again");
        sleep(SECOND / 10);
    }
    // Those that were queued first, then those of new intervals.
    sleep(SECOND * 2);
}
