//! The exporter with a gRPC server with scripted answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ebpf_profiler_core::sink::Sink;
use ebpf_profiler_otlp::{Exporter, Protocol, Resource, Settings, Stats, encode};

use crate::collector::{Stream, unpack};
use crate::{profile, settings, wait_for};

/// The behaviour on one call.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with these trailers and optionally a message before them.
    Answer(Vec<(&'static str, String)>, Option<Vec<u8>>),
    /// Accepts the message with flow-control windows of this size.
    Stingy(u32),
    /// Answers with trailers before it reads the message.
    Early(&'static str),
    /// Sends these bytes in place of an answer.
    Raw(Vec<u8>),
    /// Sends this frame until the client closes the connection.
    Endless(Vec<u8>),
    /// Never answers.
    Hang,
}

impl Act {
    pub(crate) fn status(status: u32) -> Act {
        Act::Answer(vec![("grpc-status", status.to_string()), ("grpc-message", "some%20words".into())], None)
    }
}

/// A server, its URL, and the messages that it received.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) messages: Receiver<Vec<u8>>,
}

impl Server {
    fn new(acts: Vec<Act>) -> Server {
        Server::through(acts, |stream| Box::new(stream))
    }

    /// Wraps the connections.
    pub(crate) fn through(
        acts: Vec<Act>,
        wrap: impl Fn(TcpStream) -> Box<dyn Stream> + Clone + Send + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let last = acts.last().cloned();
            let acts = acts.into_iter().chain(std::iter::repeat(last.unwrap()));
            for (stream, act) in listener.incoming().zip(acts) {
                let (sender, wrap) = (sender.clone(), wrap.clone());
                std::thread::spawn(move || Connection(wrap(stream.unwrap())).serve(act, &sender));
            }
        });
        Server { url, messages }
    }

    fn settings(&self) -> Settings {
        settings(&self.url).protocol(Protocol::Grpc)
    }
}

struct Connection(Box<dyn Stream>);

impl Connection {
    /// Reads a frame; `None` if the client closed the connection.
    fn frame(&mut self) -> Option<(u8, u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        assert!(len <= 16_384);
        let mut payload = vec![0; len];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], payload))
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let len = (payload.len() as u32).to_be_bytes();
        let head = [len[1], len[2], len[3], kind, flags, 0, 0, 0, stream];
        // The client may have closed the connection.
        let _ = self.0.write_all(&[&head, payload].concat()).and_then(|()| self.0.flush());
    }

    fn serve(mut self, act: Act, messages: &Sender<Vec<u8>>) {
        let mut preface = [0; 24];
        if self.0.read_exact(&mut preface).is_err() {
            return;
        }
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let window = if let Act::Stingy(window) = act { window } else { 65_535 };
        self.put(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
        self.put(6, 0, 0, b"a ping!!");
        match &act {
            Act::Raw(bytes) => return drop(self.0.write_all(bytes)),
            Act::Endless(frame) => {
                let frames = frame.repeat(1_000);
                while self.0.write_all(&frames).is_ok() {}
                return;
            }
            Act::Early(status) => {
                self.headers(&[(":status", "200"), ("grpc-status", status)], 5);
                while self.frame().is_some() {}
                return;
            }
            _ => {}
        }
        let message = self.message(window);
        let _ = messages.send(message);
        match act {
            Act::Answer(trailers, body) => self.answer(&trailers, body),
            Act::Stingy(_) => self.answer(&[("grpc-status", "0".into())], None),
            _ => std::thread::sleep(Duration::from_secs(60)),
        }
    }

    /// Reads the message and opens the windows after each frame.
    fn message(&mut self, window: u32) -> Vec<u8> {
        let (mut message, mut acks, mut coding) = (Vec::new(), 0, None);
        while let Some((kind, flags, payload)) = self.frame() {
            match kind {
                0 => {
                    message.extend_from_slice(&payload);
                    if flags & 1 != 0 {
                        break;
                    }
                    assert!(payload.len() as u32 <= window);
                    let len = (payload.len() as u32).to_be_bytes();
                    self.put(8, 0, 0, &len);
                    self.put(8, 0, 1, &len);
                }
                1 => coding = coding_in(&payload),
                4 | 6 if flags & 1 != 0 => acks += 1,
                _ => {}
            }
        }
        assert!(acks <= 2);
        let (head, packed) = message.split_at(5);
        assert_eq!(u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize, packed.len());
        let coding = coding.unwrap();
        assert_eq!(head[0], u8::from(coding != "identity"));
        unpack(packed, coding)
    }

    fn answer(&mut self, trailers: &[(&str, String)], body: Option<Vec<u8>>) {
        self.headers(&[(":status", "200"), ("content-type", "application/grpc")], 4);
        if let Some(body) = body {
            let len = (body.len() as u32).to_be_bytes();
            self.put(0, 0, 1, &[&[0][..], &len, &body].concat());
        }
        let trailers: Vec<_> = trailers.iter().map(|(name, value)| (*name, &**value)).collect();
        self.headers(&trailers, 5);
        while self.frame().is_some() {}
    }

    /// Sends headers as literals, in frames of three bytes.
    fn headers(&mut self, headers: &[(&str, &str)], flags: u8) {
        let mut block = Vec::new();
        for (name, value) in headers {
            for (first, text) in [(Some(0), name), (None, value)] {
                block.extend(first);
                block.push(text.len() as u8);
                block.extend_from_slice(text.as_bytes());
            }
        }
        let last = block.chunks(3).len() - 1;
        for (index, part) in block.chunks(3).enumerate() {
            let (kind, end_stream) = if index == 0 { (1, flags & 1) } else { (9, 0) };
            let end_headers = if index == last { flags & 4 } else { 0 };
            self.put(kind, end_stream | end_headers, 1, part);
        }
    }
}

/// Returns the content coding from literal headers.
fn coding_in(headers: &[u8]) -> Option<&'static str> {
    let headers = String::from_utf8_lossy(headers);
    let (_, rest) = headers.split_once("grpc-encoding")?;
    ["gzip", "zstd", "identity"].into_iter().find(|name| rest[1..].starts_with(name))
}

/// Exports one profile to a server with these acts until it is delivered or dropped.
fn export_one(acts: Vec<Act>) -> (Stats, Server) {
    let server = Server::new(acts);
    let mut exporter = Exporter::new(server.settings()).unwrap();
    exporter.take(&profile(3)).unwrap();
    (wait_for(&exporter, |stats| stats.queued == 0), server)
}

#[test]
fn a_profile_arrives_as_it_was_encoded() {
    let (stats, server) = export_one(vec![Act::status(0)]);
    assert_eq!((stats.delivered, stats.retries), (1, 0), "{stats}");
    assert_eq!(server.messages.recv().unwrap(), encode(&profile(3), &Resource::new()));
}

#[test]
fn messages_are_compressed_as_configured() {
    for compression in crate::compressions() {
        let server = Server::new(vec![Act::status(0)]);
        let mut exporter = Exporter::new(server.settings().compression(compression)).unwrap();
        exporter.take(&profile(3)).unwrap();
        exporter.flush().unwrap();
        assert_eq!(server.messages.recv().unwrap(), encode(&profile(3), &Resource::new()), "{compression:?}");
    }
}

#[test]
fn windows_are_respected() {
    for window in [1, 7, 100, 1_000] {
        let (stats, server) = export_one(vec![Act::Stingy(window)]);
        assert_eq!((stats.delivered, stats.retries), (1, 0), "{window}: {stats}");
        assert_eq!(server.messages.recv().unwrap(), encode(&profile(3), &Resource::new()));
    }
}

#[test]
fn large_message_takes_many_frames() {
    let server = Server::new(vec![Act::status(0)]);
    let mut exporter = Exporter::new(server.settings().timeout(Duration::from_secs(10))).unwrap();
    let large = profile(30_000);
    exporter.take(&large).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert!(stats.delivered == 1 && stats.bytes > 100_000, "{stats}");
    assert_eq!(server.messages.recv().unwrap(), encode(&large, &Resource::new()));
}

#[test]
fn each_status_has_the_meaning_of_the_specification() {
    for status in [1, 4, 10, 11, 14, 15] {
        let (stats, _) = export_one(vec![Act::status(status), Act::status(0)]);
        assert_eq!((stats.delivered, stats.retries), (1, 1), "{status}: {stats}");
        assert!(stats.last_error.ends_with(&format!("gRPC status {status}: some words")), "{stats}");
    }
    for status in [2, 3, 5, 7, 8, 12, 13, 16] {
        let (stats, _) = export_one(vec![Act::status(status), Act::status(0)]);
        assert_eq!((stats.refused, stats.retries), (1, 0), "{status}: {stats}");
    }
}

/// Status { 8, "", [Any { "type.googleapis.com/google.rpc.RetryInfo", RetryInfo { 1 s } }] }, as Go
/// sends it.
const IN_A_SECOND: &str = "CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";

#[test]
fn retry_info_is_respected() {
    for status in ["8", "14"] {
        let start = Instant::now();
        let trailers = vec![("grpc-status", status.into()), ("grpc-status-details-bin", IN_A_SECOND.into())];
        let (stats, _) = export_one(vec![Act::Answer(trailers, None), Act::status(0)]);
        assert!(start.elapsed() >= Duration::from_secs(1), "{status}");
        assert_eq!((stats.delivered, stats.retries), (1, 1), "{status}: {stats}");
    }
}

#[test]
fn small_message_is_not_divided() {
    let message = "grpc: received message larger than max (9 vs. 4)";
    let trailers = vec![("grpc-status", "8".into()), ("grpc-message", message.into())];
    let (stats, _) = export_one(vec![Act::Answer(trailers, None)]);
    assert_eq!((stats.too_large, stats.divided, stats.retries), (1, 0, 0), "{stats}");
}

#[test]
fn large_message_is_divided() {
    let message = "grpc: received message larger than max (9 vs. 4)";
    let trailers = vec![("grpc-status", "8".into()), ("grpc-message", message.into())];
    let server = Server::new(vec![Act::Answer(trailers, None), Act::status(0)]);
    let settings = server.settings().timeout(Duration::from_secs(10));
    let mut exporter = Exporter::new(settings).unwrap();
    exporter.take(&profile(3_000)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.divided, stats.retries), (2, 1, 0), "{stats}");
}

#[test]
fn partial_success_is_not_sent_again() {
    let body = [&[0x0a, 13, 0x08, 2, 0x12, 9][..], b"too large"].concat();
    let (stats, _) = export_one(vec![Act::Answer(vec![("grpc-status", "0".into())], Some(body))]);
    assert_eq!((stats.delivered, stats.rejected_profiles, stats.retries), (1, 2, 0));
    assert_eq!(stats.last_error, "the collector rejected 2 samples: too large");
}

#[test]
fn answer_before_the_message_counts() {
    let (stats, _) = export_one(vec![Act::Early("16")]);
    assert_eq!((stats.refused, stats.retries), (1, 0), "{stats}");
}

#[test]
fn malformed_answers_lead_to_another_attempt() {
    let go_away = [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
    let reset = [&[0, 0, 4, 3, 0, 0, 0, 0, 1][..], &[0, 0, 0, 7]].concat();
    let broken = [&[0, 0, 2, 1, 4, 0, 0, 0, 1][..], &[0xff, 0xff]].concat();
    let padded = [&[0, 0, 1, 1, 12, 0, 0, 0, 1][..], &[9]].concat();
    for (name, act) in [
        ("going away", Act::Raw(go_away)),
        ("reset", Act::Raw(reset)),
        ("broken headers", Act::Raw(broken)),
        ("too much padding", Act::Raw(padded)),
        ("a frame of 16 MiB", Act::Raw(vec![0xff; 100])),
        ("HTTP/1.1", Act::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n".into())),
        ("nothing", Act::Raw(Vec::new())),
        ("hanging", Act::Hang),
    ] {
        let (stats, _) = export_one(vec![act, Act::status(0)]);
        assert_eq!((stats.delivered, stats.dropped(), stats.retries), (1, 0, 1), "{name}: {stats}");
    }
}

/// Each of these took a CPU until the deadline of the attempt.
#[test]
fn endless_frames_end_an_attempt() {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    for (name, frames) in [
        ("CONTINUATION", [frame(1, 0, 1, b"\0"), frame(9, 0, 1, b"").repeat(10_000)].concat()),
        ("SETTINGS", frame(4, 0, 0, b"")),
        ("SETTINGS acknowledgement", frame(4, 1, 0, b"")),
        ("WINDOW_UPDATE", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("PRIORITY", frame(2, 0, 1, &[0; 5])),
        ("RST_STREAM of another stream", frame(3, 0, 3, &[0; 4])),
        ("empty DATA", frame(0, 0, 1, b"")),
        ("DATA of another stream", frame(0, 0, 3, b"")),
        ("DATA of one byte", frame(0, 0, 1, b"a")),
        ("unknown kind", frame(200, 0, 0, b"")),
        ("informational headers", frame(1, 4, 1, &[0x88])),
    ] {
        let server = Server::new(vec![Act::Endless(frames), Act::status(0)]);
        let settings = server.settings().timeout(Duration::from_secs(600));
        let mut exporter = Exporter::new(settings).unwrap();
        exporter.take(&profile(3)).unwrap();
        let stats = wait_for(&exporter, |stats| stats.queued == 0);
        assert_eq!((stats.delivered, stats.retries), (1, 1), "{name}: {stats}");
        assert!(stats.last_error.contains("no end"), "{name}: {stats}");
    }
}
