//! The exporter with a collector that misbehaves.
#![cfg(feature = "http")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collector;
#[cfg(feature = "grpc")]
mod grpc;
mod hostile;
#[cfg(feature = "tls")]
mod tls;

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use collector::{Act, Collector};
use ebpf_profiler_core::profile::{Process, Profile, ProfileBuilder, Thread};
use ebpf_profiler_core::sink::Sink;
use ebpf_profiler_core::symbol::NoSymbols;
use ebpf_profiler_core::trace::{Frame, Stop, Trace};
use ebpf_profiler_otlp::{Compression, ExportError, Exporter, Resource, Settings, Stats, encode};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A profile with this number of stacks; equal for equal numbers.
fn profile(stacks: u64) -> Profile {
    let mut builder = ProfileBuilder::new(Duration::from_millis(50));
    let process = builder.process(Process::new(7));
    let thread = builder.thread(Thread::new(process, 7, "worker"));
    for stack in 0..stacks {
        let frames = vec![Frame::Kernel { address: (1 << 63) + stack }];
        builder.add(thread, &Trace::new(frames, Stop::NoUserStack), 1_000 + stack);
    }
    builder.finish(UNIX_EPOCH, SECOND, |_| None, &mut NoSymbols)
}

/// Settings with short waits.
fn settings(url: &str) -> Settings {
    Settings::new(url).resource(Resource::new()).timeout(SECOND).flush_timeout(5 * SECOND).retry(
        10 * MILLI,
        20 * MILLI,
        10 * SECOND,
    )
}

fn wait_for(exporter: &Exporter, is_reached: impl Fn(&Stats) -> bool) -> Stats {
    let end = Instant::now() + 60 * SECOND;
    loop {
        let stats = exporter.stats();
        if is_reached(&stats) {
            return stats;
        }
        assert!(Instant::now() < end, "{stats:?}");
        std::thread::sleep(5 * MILLI);
    }
}

/// Exports one profile to a collector with these acts until it is delivered or dropped.
fn export_one(acts: impl Into<Vec<Act>>) -> (Stats, Collector) {
    let collector = Collector::new(acts);
    let mut exporter = Exporter::new(settings(&collector.url())).unwrap();
    exporter.take(&profile(3)).unwrap();
    (wait_for(&exporter, |stats| stats.queued == 0), collector)
}

#[test]
fn a_profile_arrives_as_it_was_encoded() {
    let (stats, collector) = export_one([Act::ok()]);
    assert_eq!((stats.delivered, stats.dropped(), stats.retries), (1, 0, 0));
    let requests = collector.requests();
    assert_eq!(requests[0].body, encode(&profile(3), &Resource::new()));
    let head = &requests[0].head;
    assert!(head.starts_with("POST /v1development/profiles HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Host: {}\r\n", collector.address)));
    assert!(head.contains("Content-Type: application/x-protobuf\r\nUser-Agent: ebpf-profiler"));
}

#[test]
fn headers_are_sent() {
    let collector = Collector::new([Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url()).header("dd-api-key", "secret")).unwrap();
    exporter.take(&profile(3)).unwrap();
    exporter.flush().unwrap();
    assert!(collector.requests()[0].head.contains("dd-api-key: secret\r\n"));
}

/// The compressions of the enabled features.
fn compressions() -> Vec<Compression> {
    let all = ["none", "gzip", "gzip:9", "zstd", "zstd:19"].into_iter();
    all.filter_map(|text| text.parse().ok()).collect()
}

#[test]
fn messages_are_compressed_as_configured() {
    for compression in compressions() {
        let collector = Collector::new([Act::ok()]);
        let mut exporter = Exporter::new(settings(&collector.url()).compression(compression)).unwrap();
        exporter.take(&profile(3)).unwrap();
        exporter.flush().unwrap();
        let request = collector.requests().remove(0);
        let is_compressed = request.head.contains("Content-Encoding: ");
        assert_eq!(is_compressed, compression != Compression::None, "{}", request.head);
        assert_eq!(request.body, encode(&profile(3), &Resource::new()), "{compression:?}");
    }
}

#[test]
fn line_break_in_a_header_is_an_error() {
    for (name, value) in [("a", "b\r\nc: d"), ("a b", "c"), ("", "a"), ("a\r\n", "b")] {
        let settings = settings("http://127.0.0.1:1").header(name, value);
        assert!(matches!(Exporter::new(settings), Err(ExportError::Header { .. })));
    }
}

#[test]
fn profile_without_samples_is_not_sent() {
    let collector = Collector::new([Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url())).unwrap();
    exporter.take(&profile(0)).unwrap();
    exporter.flush().unwrap();
    assert!(collector.requests().is_empty());
}

#[test]
fn absent_collector_gets_the_queue_when_it_starts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut exporter = Exporter::new(settings(&url)).unwrap();
    for _ in 0..5 {
        exporter.take(&profile(3)).unwrap();
    }
    let stats = wait_for(&exporter, |stats| stats.retries > 2);
    assert_eq!((stats.queued, stats.delivered), (5, 0));
    assert!(stats.last_error.starts_with("cannot connect: "), "{stats}");
    let collector = Collector::on(TcpListener::bind(address).unwrap(), [Act::ok()]);
    exporter.flush().unwrap();
    assert_eq!((exporter.stats().delivered, collector.requests().len()), (5, 5));
}

#[test]
fn failed_attempts_are_repeated() {
    for (name, act, error) in [
        ("429", Act::answer(429, "", b"slow down"), "the collector answered 429: slow down"),
        ("502", Act::answer(502, "", b""), "the collector answered 502"),
        ("503", Act::answer(503, "", b"\x08\x0e\x12\x04full"), "the collector answered 503: full"),
        ("504", Act::answer(504, "", b""), "the collector answered 504"),
        ("dropped", Act::Drop, "cannot"),
        ("hanging", Act::Hang, "cannot read the answer: the deadline has passed"),
        (
            "dripping",
            Act::Drip(vec![b'H'; 100], 50 * MILLI),
            "cannot read the answer: the deadline has passed",
        ),
        ("garbage", Act::Say(b"SSH-2.0-OpenSSH\r\n".into()), "invalid answer of the collector"),
        ("zeros", Act::Say(vec![0; 200_000]), "invalid answer of the collector"),
        (
            "endless",
            Act::Say([b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'a'; 200_000]].concat()),
            "invalid answer",
        ),
        (
            "cut",
            Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab".into()),
            "invalid answer of the collector",
        ),
        (
            "vast",
            Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".into()),
            "invalid answer",
        ),
    ] {
        let (stats, _) = export_one([act, Act::ok()]);
        assert_eq!((stats.delivered, stats.dropped(), stats.retries), (1, 0, 1), "{name}: {stats:?}");
        assert!(stats.last_error.starts_with(error), "{name}: {stats}");
    }
}

#[test]
fn slow_answer_within_the_deadline_is_read() {
    let collector = Collector::new([Act::Drip(b"HTTP/1.1 200 OK\r\n\r\n".into(), 50 * MILLI)]);
    let mut exporter = Exporter::new(settings(&collector.url()).timeout(60 * SECOND)).unwrap();
    exporter.take(&profile(3)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.retries), (1, 0), "{stats}");
}

/// Like a machine that is gone, or a server without a thread for the connection.
#[test]
fn collector_that_does_not_read_gets_another_attempt() {
    let collector = Collector::new([Act::Deaf, Act::ok()]);
    // More than the socket buffers of both sides.
    let settings = settings(&collector.url()).compression(Compression::None).limit(usize::MAX);
    let mut exporter = Exporter::new(settings.timeout(2 * SECOND)).unwrap();
    let large = profile(500_000);
    exporter.take(&large).unwrap();
    let stats = wait_for(&exporter, |stats| stats.retries == 1);
    assert_eq!(stats.last_error, "cannot send: the deadline has passed", "{stats}");
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.dropped(), stats.retries), (1, 0, 1), "{stats}");
    assert!(collector.requests()[0].body == encode(&large, &Resource::new()));
}

#[test]
fn too_large_messages_are_divided_or_dropped() {
    let too_large = Act::answer(413, "", b"");
    let (stats, collector) = export_one([too_large.clone(), Act::ok()]);
    assert_eq!((stats.too_large, stats.divided, stats.retries, stats.delivered), (1, 0, 0, 0), "{stats}");
    assert_eq!(collector.requests().len(), 1);

    let collector = Collector::new([too_large.clone(), Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url())).unwrap();
    exporter.take(&profile(3_000)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.divided, stats.dropped(), stats.retries), (2, 1, 0, 0), "{stats}");

    // A collector that takes nothing gets parts down to a limit, and each is counted.
    let collector = Collector::new([too_large]);
    let mut exporter = Exporter::new(settings(&collector.url())).unwrap();
    exporter.take(&profile(3_000)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.too_large), (0, stats.divided + 1), "{stats}");
}

#[test]
fn refused_messages_are_not_sent_again() {
    for status in [400, 401, 403, 404, 415, 500, 501, 301] {
        let (stats, collector) = export_one([Act::answer(status, "", b"no"), Act::ok()]);
        assert_eq!((stats.delivered, stats.refused, stats.retries), (0, 1, 0), "{status}");
        assert_eq!(stats.last_error, format!("the collector answered {status}: no"));
        assert_eq!(collector.requests().len(), 1);
    }
}

#[test]
fn refusal_before_the_body_is_sent_counts() {
    let collector = Collector::new([Act::Interrupt(
        b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
    )]);
    let mut exporter = Exporter::new(settings(&collector.url())).unwrap();
    exporter.take(&profile(3)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0 || stats.retries > 3);
    // The reset that follows the answer may overtake it; then the attempt fails without an answer.
    assert!(stats.too_large == 1 || stats.last_error.starts_with("cannot"), "{stats:?}");
}

#[test]
fn retry_after_is_respected() {
    // The clock of the second collector is years behind; the wait is a second all the same.
    let date = "Date: Sun, 06 Nov 1994 08:49:36 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (status, headers) in
        [(429, "Retry-After: 1\r\n"), (429, date), (503, "Retry-After: 1\r\n"), (503, date)]
    {
        let start = Instant::now();
        let (stats, _) = export_one([Act::answer(status, headers, b""), Act::ok()]);
        assert!(start.elapsed() >= SECOND, "{status} {headers}");
        assert_eq!((stats.delivered, stats.retries), (1, 1));
    }
}

#[test]
fn message_is_dropped_if_retry_after_exceeds_its_time() {
    for headers in ["Retry-After: 18446744073709551615\r\n", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n"]
    {
        let (stats, _) = export_one([Act::answer(429, headers, b"")]);
        assert_eq!((stats.gave_up, stats.retries), (1, 0), "{headers}: {stats}");
    }
    // An invalid value is ignored.
    let (stats, _) = export_one([Act::answer(503, "Retry-After: soon\r\n", b""), Act::ok()]);
    assert_eq!((stats.delivered, stats.retries), (1, 1));
}

#[test]
fn partial_success_is_not_sent_again() {
    let body = [&[0x0a, 13, 0x08, 2, 0x12, 9][..], b"too large"].concat();
    let (stats, _) = export_one([Act::answer(200, "", &body), Act::ok()]);
    assert_eq!((stats.delivered, stats.rejected_profiles, stats.retries), (1, 2, 0));
    assert_eq!(stats.last_error, "the collector rejected 2 samples: too large");
}

#[test]
fn all_forms_of_a_body_are_read() {
    for answer in [
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n\n\0\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.0 200 OK\n\n{}",
    ] {
        let (stats, _) = export_one([Act::Say(answer.into())]);
        assert_eq!((stats.delivered, stats.retries), (1, 0), "{answer:?}: {stats:?}");
    }
}

#[test]
fn message_is_dropped_after_its_time() {
    let collector = Collector::new([Act::answer(503, "", b"")]);
    let settings = settings(&collector.url()).retry(10 * MILLI, 20 * MILLI, SECOND);
    let mut exporter = Exporter::new(settings).unwrap();
    exporter.take(&profile(3)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.gave_up, stats.delivered), (1, 0));
    assert!(stats.retries > 2);
}

#[test]
fn full_queue_is_an_error_and_counted() {
    let collector = Collector::new([Act::Hang]);
    let len = encode(&profile(3), &Resource::new()).len();
    let settings = settings(&collector.url()).timeout(60 * SECOND).queue_bytes(2 * len);
    let mut exporter = Exporter::new(settings.flush_timeout(10 * MILLI)).unwrap();
    exporter.take(&profile(3)).unwrap();
    exporter.take(&profile(3)).unwrap();
    let error = exporter.take(&profile(3)).unwrap_err().to_string();
    assert!(error.starts_with("1 messages dropped: the queue is full"), "{error}");
    assert_eq!((exporter.stats().queued, exporter.stats().queue_full), (2, 1));
}

#[test]
fn flush_ends_and_counts_the_rest() {
    let collector = Collector::new([Act::Hang]);
    let settings = settings(&collector.url()).timeout(60 * SECOND).flush_timeout(SECOND);
    let mut exporter = Exporter::new(settings).unwrap();
    for _ in 0..3 {
        exporter.take(&profile(3)).unwrap();
    }
    let watch = exporter.watch();
    std::thread::sleep(50 * MILLI);
    let error = exporter.flush().unwrap_err().to_string();
    assert!(error.starts_with("3 messages dropped at the end: the flush timeout has passed"), "{error}");
    assert_eq!((watch().abandoned, watch().queued), (3, 0), "{}", watch());
}

/// A directory path that is removed when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        Directory(std::env::temp_dir().join(format!("export-{name}-{}", std::process::id())))
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.0).map_or(0, Iterator::count)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn spooled_messages_survive_a_restart() {
    let directory = Directory::new("restart");
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let before = settings(&format!("http://{absent}")).spool(&directory.0, 1 << 20).flush_timeout(2 * SECOND);
    let mut exporter = Exporter::new(before).unwrap();
    for stacks in 1..=5 {
        exporter.take(&profile(stacks)).unwrap();
    }
    exporter.flush().unwrap();
    let stats = exporter.stats();
    assert_eq!((stats.spooled, stats.queued, stats.dropped(), directory.files()), (5, 0, 0, 5), "{stats:?}");

    let collector = Collector::new([Act::answer(503, "", b""), Act::ok()]);
    let exporter = Exporter::new(settings(&collector.url()).spool(&directory.0, 1 << 20)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.spooled == 0);
    assert_eq!((stats.delivered, stats.dropped(), directory.files()), (5, 0, 0), "{stats:?}");
    let mut bodies: Vec<_> = collector.requests().into_iter().map(|request| request.body).collect();
    bodies.dedup();
    let sent: Vec<_> = (1..=5).map(|stacks| encode(&profile(stacks), &Resource::new())).collect();
    assert_eq!(bodies, sent);
}

/// A power loss leaves incomplete and empty files.
#[test]
fn garbage_in_the_spool_is_sent_once_or_left() {
    let directory = Directory::new("garbage");
    std::fs::create_dir(&directory.0).unwrap();
    let whole = encode(&profile(3), &Resource::new());
    for (name, content) in [
        (".profile.1.part", &whole[..10]),
        ("00000000000000000002.otlp", &[]),
        ("00000000000000000003.otlp", b"not a message"),
        ("00000000000000000004.otlp", &whole),
        ("18446744073709551615.otlp", &whole),
        ("99999999999999999999.otlp", &whole),
        ("notes.txt", b"foreign"),
    ] {
        std::fs::write(directory.0.join(name), content).unwrap();
    }
    let refuse = Act::answer(400, "", b"malformed");
    let collector = Collector::new([refuse.clone(), refuse, Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url()).spool(&directory.0, 1 << 20)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.spooled == 0);
    assert_eq!((stats.delivered, stats.refused), (1, 2), "{stats}");
    exporter.take(&profile(3)).unwrap();
    exporter.flush().unwrap();
    assert_eq!((exporter.stats().delivered, exporter.stats().dropped()), (2, 2));
    assert_eq!(directory.files(), 3, "foreign files stay");
}

#[test]
fn spool_takes_more_than_the_queue_holds() {
    let directory = Directory::new("queue");
    let collector = Collector::new([Act::answer(503, "Retry-After: 1\r\n", b""), Act::ok()]);
    let len = encode(&profile(3), &Resource::new()).len();
    let settings = settings(&collector.url()).spool(&directory.0, 1 << 20).queue_bytes(2 * len);
    let mut exporter = Exporter::new(settings).unwrap();
    for _ in 0..20 {
        exporter.take(&profile(3)).unwrap();
        wait_for(&exporter, |stats| stats.queued < 2);
    }
    assert!(exporter.stats().spooled > 2);
    let stats = wait_for(&exporter, |stats| stats.delivered == 20 && stats.spooled == 0);
    assert_eq!(stats.dropped(), 0);
}

#[test]
fn full_spool_is_counted() {
    let directory = Directory::new("full");
    let collector = Collector::new([Act::answer(503, "", b"")]);
    let mut exporter = Exporter::new(settings(&collector.url()).spool(&directory.0, 10)).unwrap();
    exporter.take(&profile(3)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.spool_failed == 1);
    assert_eq!((stats.spooled, stats.dropped()), (0, 1));
    assert!(stats.last_error.starts_with("cannot write to the spool: "), "{stats}");

    std::fs::write(directory.0.join("file"), "").unwrap();
    let bad = settings(&collector.url()).spool(directory.0.join("file"), 10);
    assert!(matches!(Exporter::new(bad), Err(ExportError::Spool { .. })));
}

/// Uses a file system of 64 KiB in a mount namespace.
#[test]
#[ignore = "mounts: needs root"]
fn full_disk_is_reported_and_whole_messages_stay() {
    test_needs::root!();
    const INSIDE: &str = "EXPORT_ON_SMALL_DISK";
    let Some(disk) = std::env::var_os(INSIDE).map(PathBuf::from) else {
        let directory = Directory::new("disk");
        std::fs::create_dir(&directory.0).unwrap();
        let script = "mount -t tmpfs -o size=64k tmpfs \"$EXPORT_ON_SMALL_DISK\" && exec \"$0\" --exact --ignored \
                      --nocapture full_disk_is_reported_and_whole_messages_stay";
        let status = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(std::env::current_exe().unwrap())
            .env(INSIDE, &directory.0)
            .status();
        return assert!(status.unwrap().success());
    };
    let spool = disk.join("spool");
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let before = settings(&format!("http://{absent}")).spool(&spool, 1 << 30).flush_timeout(2 * SECOND);
    let mut exporter = Exporter::new(before).unwrap();
    let mut is_reported = false;
    for _ in 0..40 {
        exporter.take(&profile(300)).unwrap();
        let stats = wait_for(&exporter, |stats| stats.queued == 0);
        is_reported |= stats.last_error == "cannot write to the spool: No space left on device (os error 28)";
    }
    exporter.flush().unwrap();
    let stats = exporter.stats();
    assert!(is_reported && stats.spooled > 2 && stats.spool_failed > 2, "{stats}");
    assert_eq!(stats.spooled + stats.dropped(), 40, "{stats}");
    let files =
        std::fs::read_dir(&spool).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(files.into_iter().all(|name| name.ends_with(".otlp.gz")), "incomplete files are removed");

    let collector = Collector::new([Act::ok()]);
    let exporter = Exporter::new(settings(&collector.url()).spool(&spool, 1 << 30)).unwrap();
    let sent = wait_for(&exporter, |stats| stats.spooled == 0);
    assert_eq!((sent.delivered, sent.dropped()), (stats.spooled, 0), "{sent}");
    assert!(collector.requests().iter().all(|it| it.body == encode(&profile(300), &Resource::new())));
}

#[test]
fn large_profile_is_sent_in_parts() {
    let collector = Collector::new([Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url()).limit(2_000)).unwrap();
    exporter.take(&profile(200)).unwrap();
    exporter.flush().unwrap();
    let requests = collector.requests();
    assert!(requests.len() > 3 && requests.iter().all(|request| request.body.len() <= 2_000));
}
