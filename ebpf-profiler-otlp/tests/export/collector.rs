//! A local HTTP collector with scripted answers.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use flate2::read::GzDecoder;

/// The behaviour on one connection.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Reads the request, answers with these bytes, closes.
    Say(Vec<u8>),
    /// Like `Say`, one byte at a time with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Answers without reading the request, and closes.
    Interrupt(Vec<u8>),
    /// Reads the request and keeps the connection open without an answer.
    Hang,
    /// Keeps the connection open without reading.
    Deaf,
    /// Closes.
    Drop,
}

impl Act {
    /// Answers with this status, these header lines and this body.
    pub(crate) fn answer(status: u16, headers: &str, body: &[u8]) -> Act {
        let head =
            format!("HTTP/1.1 {status} Some Reason\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        Act::Say([head.as_bytes(), body].concat())
    }

    /// Accepts the message.
    pub(crate) fn ok() -> Act {
        Act::answer(200, "Content-Type: application/x-protobuf\r\n", b"")
    }
}

/// A byte stream, plain or TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A request with its decompressed body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The collector; it repeats the last of its acts.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    requests: Receiver<Request>,
}

impl Collector {
    pub(crate) fn new(acts: impl Into<Vec<Act>>) -> Collector {
        Collector::on(TcpListener::bind("127.0.0.1:0").unwrap(), acts)
    }

    pub(crate) fn on(listener: TcpListener, acts: impl Into<Vec<Act>>) -> Collector {
        Collector::through(listener, acts, |stream| Box::new(stream))
    }

    /// Wraps the connections.
    pub(crate) fn through(
        listener: TcpListener,
        acts: impl Into<Vec<Act>>,
        wrap: impl Fn(TcpStream) -> Box<dyn Stream> + Clone + Send + 'static,
    ) -> Collector {
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        let acts = Arc::new(Mutex::new(VecDeque::from(acts.into())));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut acts = acts.lock().unwrap();
                let act = if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() };
                let (sender, act, wrap) = (sender.clone(), act.unwrap(), wrap.clone());
                std::thread::spawn(move || serve(&mut *wrap(stream.unwrap()), act, &sender));
            }
        });
        Collector { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1development/profiles", self.address)
    }

    /// Returns the requests read so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }
}

fn serve(stream: &mut dyn Stream, act: Act, requests: &Sender<Request>) {
    if let Act::Drop = act {
        return;
    }
    if let Act::Interrupt(answer) = act {
        let _ = stream.write_all(&answer);
        return;
    }
    if let Act::Deaf = act {
        return sleep(Duration::from_secs(60));
    }
    let Some(request) = read(stream) else { return };
    // The test may have ended.
    let _ = requests.send(request);
    match act {
        Act::Say(answer) => drop(stream.write_all(&answer).and_then(|()| stream.flush())),
        Act::Drip(answer, pause) => {
            for byte in answer {
                sleep(pause);
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        }
        _ => sleep(Duration::from_secs(60)),
    }
}

/// Reads a request; `None` if the client closed the connection before.
fn read(stream: &mut dyn Stream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or_default() == 0 {
            assert!(head.is_empty(), "{head}");
            return None;
        }
    }
    let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut packed = vec![0; len.parse().unwrap()];
    reader.read_exact(&mut packed).unwrap();
    let coding = head.lines().find_map(|line| line.strip_prefix("Content-Encoding: "));
    let body = unpack(&packed, coding.unwrap_or("identity"));
    Some(Request { head, body })
}

pub(crate) fn unpack(packed: &[u8], coding: &str) -> Vec<u8> {
    let mut body = Vec::new();
    match coding {
        "gzip" => drop(GzDecoder::new(packed).read_to_end(&mut body).unwrap()),
        "zstd" => {
            body.reserve(1 << 20);
            zstd_safe::decompress(&mut body, packed).unwrap();
        }
        other => {
            assert_eq!(other, "identity");
            body.extend_from_slice(packed);
        }
    }
    body
}
