//! Signals and outputs that fail.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use live_suite::paths::example;

use crate::scratch::{Process, Scratch, error};

#[test]
#[ignore = "needs root"]
fn agent_sends_what_it_has_after_each_signal_that_ends_it() {
    test_needs::root!();
    // On an idle machine the agent has nothing to send.
    let _busy = Process::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    for signal in ["HUP", "TERM", "INT"] {
        let collector = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", collector.local_addr().unwrap());
        let arguments = ["--endpoint", &endpoint, "--interval", "1000", "--timeout", "2"];
        let mut agent = Process::start(with_default_signals("agent").args(arguments));
        let mut said = BufReader::new(agent.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(" sends to ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the agent ended");
        }
        // It begins to sample after it said so, and on a busy machine that takes its time.
        std::thread::sleep(Duration::from_secs(3));
        agent.signal(signal);
        let mut request = connection(&collector);
        let mut start = [0; 5];
        request.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"POST ", "after {signal}");
        drop((request, collector));
        assert!(agent.output().status.code().is_some(), "ended by the signal itself: {signal}");
    }
}

/// A program that no signal is ignored for: a shell's background job ignores SIGINT, and what
/// `nohup` runs SIGHUP.
fn with_default_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(example(program));
    command
}

/// Returns the connection that comes within 30 s, with a limit for what is read from it.
fn connection(collector: &TcpListener) -> TcpStream {
    collector.set_nonblocking(true).unwrap();
    let end = Instant::now() + LIMIT;
    let stream = loop {
        match collector.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(error.kind() == ErrorKind::WouldBlock && Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

const LIMIT: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs root"]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    test_needs::root!();
    let scratch = Scratch::new("nohup");
    let output = scratch.path("x.html");
    let command =
        format!("trap '' HUP; exec {} --seconds 4 --output {output}", example("flamegraph").display());
    let program = Process::start(Command::new("sh").args(["-c", &command]));
    std::thread::sleep(Duration::from_secs(1));
    program.signal("HUP");
    let ended = program.output();
    assert!(ended.status.success(), "{ended:?}");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.contains(" samples, "), "{text}");
}

#[test]
#[ignore = "needs root"]
fn a_full_standard_output_is_an_error() {
    test_needs::root!();
    let scratch = Scratch::new("stdout");
    let (picture, recording) = (scratch.path("x.html"), scratch.path("run.ticks"));
    for (program, arguments) in [
        ("top", &["--seconds", "1"][..]),
        ("embed", &["--seconds", "2"]),
        ("flamegraph", &["--seconds", "0.2", "--output", &picture]),
        ("record", &["--seconds", "0.2", "--output", &recording]),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(example(program)).args(arguments).stdout(full).output().unwrap();
        let message = error(&output);
        assert!(message.starts_with("cannot print: No space left"), "{program}: {message}");
    }
}
