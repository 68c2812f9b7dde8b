//! The exporter with hostile files in its spool, a collector that asks for endless patience, and a
//! silent name server.

use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use super::*;

fn name(number: u64, ending: &str) -> String {
    format!("{number:020}.{ending}")
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A FIFO hung the exporter, a link was followed and its target overwritten, and the large file was
/// read.
#[test]
fn files_of_others_in_the_spool_are_skipped() {
    let directory = Directory::new("hostile");
    let file = |number, ending| directory.0.join(name(number, ending));
    fs::create_dir(&directory.0).unwrap();
    fs::write(directory.0.join("target"), "precious").unwrap();
    fifo(&file(0, "otlp"));
    symlink("target", file(1, "otlp.gz")).unwrap();
    fs::File::create(file(2, "otlp")).unwrap().set_len(3 << 30).unwrap();
    fs::create_dir(file(3, "otlp")).unwrap();
    fs::write(file(4, "otlp"), "foreign").unwrap();
    let is_root = test_needs::is_root();
    if is_root {
        chown(file(4, "otlp"), Some(65_534), None).unwrap();
    } else {
        fs::remove_file(file(4, "otlp")).unwrap();
    }
    // A name that a new file could get.
    symlink("target", file(if is_root { 5 } else { 4 }, "otlp.gz")).unwrap();

    let collector = Collector::new([Act::answer(503, "", b""), Act::ok()]);
    let mut exporter = Exporter::new(settings(&collector.url()).spool(&directory.0, 1 << 20)).unwrap();
    let stats = exporter.stats();
    assert_eq!(stats.spooled, 0, "{stats}");
    assert!(stats.last_error.contains("files of the spool skipped"), "{stats}");
    exporter.take(&profile(3)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.delivered == 1);
    exporter.flush().unwrap();
    assert_eq!((stats.dropped(), stats.retries), (0, 1), "{stats}");
    assert_eq!(fs::read(directory.0.join("target")).unwrap(), b"precious");
    assert_eq!(directory.files(), if is_root { 7 } else { 6 }, "foreign files stay");
}

#[test]
fn spooled_messages_are_private() {
    let directory = Directory::new("private");
    let collector = Collector::new([Act::answer(503, "Retry-After: 3600\r\n", b"")]);
    let settings = settings(&collector.url()).spool(&directory.0, 1 << 20);
    let mut exporter = Exporter::new(settings.flush_timeout(Duration::ZERO)).unwrap();
    exporter.take(&profile(3)).unwrap();
    wait_for(&exporter, |stats| stats.spooled == 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = fs::read_dir(&directory.0).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&directory.0), mode(&file)), (0o700, 0o600));
}

#[test]
fn spool_directory_that_others_can_write_is_refused() {
    let directory = Directory::new("writable");
    fs::create_dir(&directory.0).unwrap();
    fs::set_permissions(&directory.0, Permissions::from_mode(0o777)).unwrap();
    let error = Exporter::new(settings("http://127.0.0.1:1").spool(&directory.0, 1 << 20)).unwrap_err();
    assert!(error.to_string().ends_with("take the permission from others: chmod go-w"), "{error}");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "folder that other users can write");
}

#[test]
fn flush_does_not_wait_for_retry_after() {
    let collector = Collector::new([Act::answer(429, "Retry-After: 10000\r\n", b"")]);
    let settings = settings(&collector.url()).retry(SECOND, SECOND, 100_000 * SECOND);
    let mut exporter = Exporter::new(settings.flush_timeout(SECOND)).unwrap();
    exporter.take(&profile(3)).unwrap();
    wait_for(&exporter, |stats| !stats.last_error.is_empty());
    let error = exporter.flush().unwrap_err().to_string();
    assert!(error.ends_with("last error: the collector answered 429"), "{error}");
    assert_eq!((exporter.stats().abandoned, exporter.stats().queued), (1, 0));
}

#[test]
fn flush_timeout_of_zero_drops_the_queue() {
    let collector = Collector::new([Act::Hang]);
    let settings = settings(&collector.url()).timeout(600 * SECOND).flush_timeout(Duration::ZERO);
    let mut exporter = Exporter::new(settings).unwrap();
    for _ in 0..3 {
        exporter.take(&profile(3)).unwrap();
    }
    let watch = exporter.watch();
    drop(exporter);
    assert_eq!((watch().abandoned, watch().queued), (3, 0), "{}", watch());
}

#[test]
fn deadline_of_the_profiler_shortens_flush() {
    let collector = Collector::new([Act::Hang]);
    let settings = settings(&collector.url()).timeout(600 * SECOND).flush_timeout(600 * SECOND);
    let mut exporter = Exporter::new(settings).unwrap();
    exporter.take(&profile(3)).unwrap();
    assert!(exporter.flush_until(std::time::Instant::now()).is_err());
    assert_eq!((exporter.stats().abandoned, exporter.stats().queued), (1, 0), "{}", exporter.stats());
}

#[test]
fn endless_interim_answers_and_chunks_end_an_attempt() {
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000);
    let chunks =
        [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &b"1\r\na\r\n".repeat(2_000_000)];
    for answer in [interim, chunks.concat()] {
        let collector = Collector::new([Act::Say(answer), Act::ok()]);
        let mut exporter = Exporter::new(settings(&collector.url()).timeout(600 * SECOND)).unwrap();
        exporter.take(&profile(3)).unwrap();
        let stats = wait_for(&exporter, |stats| stats.queued == 0);
        assert_eq!((stats.delivered, stats.retries), (1, 1), "{stats}");
        assert!(stats.last_error.starts_with("invalid answer of the collector: it"), "{stats}");
    }
}

/// Runs this test again in a mount namespace whose name server is a socket that never answers.
#[test]
#[ignore = "mounts: needs root"]
fn silent_name_server_does_not_delay_the_end() {
    test_needs::root!();
    const INSIDE: &str = "EXPORT_WITH_SILENT_SERVER";
    let Some(folder) = std::env::var_os(INSIDE).map(PathBuf::from) else {
        let directory = Directory::new("resolver");
        fs::create_dir(&directory.0).unwrap();
        fs::write(directory.0.join("resolv.conf"), "nameserver 127.77.0.1\noptions timeout:30 attempts:5\n")
            .unwrap();
        fs::write(directory.0.join("nsswitch.conf"), "hosts: dns\n").unwrap();
        let script = "for file in resolv.conf nsswitch.conf; do touch /etc/$file; \
                      mount --bind \"$EXPORT_WITH_SILENT_SERVER/$file\" \"$(readlink -f /etc/$file)\" || exit 1; done; \
                      exec \"$0\" --exact --ignored --nocapture hostile::silent_name_server_does_not_delay_the_end";
        let status = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(std::env::current_exe().unwrap())
            .env(INSIDE, &directory.0)
            .status();
        return assert!(status.unwrap().success());
    };
    let _server = UdpSocket::bind("127.77.0.1:53").unwrap();
    let spool = folder.join("spool");
    let settings = settings("http://collector.invalid:4318").spool(&spool, 1 << 20);
    let mut exporter = Exporter::new(settings.flush_timeout(2 * SECOND)).unwrap();
    exporter.take(&profile(3)).unwrap();
    // The second attempt waits for the thread of the first one and starts no other.
    let stats = wait_for(&exporter, |stats| stats.retries == 2);
    assert_eq!(stats.last_error, "cannot resolve the host: the deadline has passed", "{stats}");
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default());
    assert_eq!(names.filter(|name| name.trim() == "otlp-connect").count(), 1);
    exporter.flush().unwrap();
    let stats = exporter.stats();
    assert_eq!((stats.spooled, stats.queued, stats.dropped()), (1, 0, 0), "{stats}");
}
