//! gRPC over HTTP/2, as much of it as one call needs.
//!
//! ```text
//!   we      preface, SETTINGS, HEADERS, DATA ... DATA
//!   they    SETTINGS, WINDOW_UPDATE ..., HEADERS, DATA, HEADERS with grpc-status
//! ```
//!
//! One connection a call, as with HTTP/1.1, so there is one stream and no order to keep. We send as long as the other
//! side's windows allow; when they are used up we read what it says until they are larger.

mod frame;
mod hpack;
mod huffman;
mod status;

use super::answer::Verdict;
use super::compression::Coding;
use super::connection::{Connection, Deadline, Failure, Peer};
use super::endpoint::Endpoint;
use frame::{BROKEN, Frame, MOST_FRAME, PREFACE, flag, kind, number, put};
use hpack::{Decoder, Header};
use status::verdict;

/// The method that takes profiles.
const PATH: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Headers and trailers.
    headers: Vec<Header>,
    /// With the five bytes before the message.
    body: Vec<u8>,
}

/// The only stream.
const STREAM: u32 = 1;
/// How much may be sent before the other side said anything.
const WINDOW: i64 = 65_535;
/// The most that an answer takes.
const MOST_BODY: usize = 4 << 20;
/// The most that its headers take, packed.
const MOST_HEADERS: usize = 64 << 10;

/// Makes the call.
pub(super) fn exchange(
    peer: &mut Peer,
    headers: &[(String, String)],
    body: &[u8],
    coding: Coding,
    deadline: Deadline<'_>,
) -> Result<Answer, Failure> {
    let block = block(&peer.endpoint, headers, coding);
    let mut call = Call::new(Connection::open(peer, deadline)?);
    let sent = call.open(&block).and_then(|()| call.send(&message(body, coding)));
    // One who refuses may answer and close before everything is there.
    match (call.finish(), sent) {
        (Ok(()), _) => Ok(call.answer),
        #[cfg(feature = "tls")]
        (Err(refusal @ Failure::Tls(_)), _) => Err(refusal),
        (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
    }
}

/// Before each message stand a byte that says whether it is compressed, and its length.
fn message(body: &[u8], coding: Coding) -> Vec<u8> {
    let mut message = Vec::with_capacity(5 + body.len());
    message.push((coding != Coding::Identity).into());
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(body);
    message
}

struct Call<'d> {
    connection: Connection<'d>,
    decoder: Decoder,
    /// How much may be sent on the connection, and on the stream.
    windows: [i64; 2],
    /// What the window of a stream begins with.
    first_window: i64,
    /// The beginning of headers that aren't complete.
    block: Vec<u8>,
    /// Whether those are the last of the stream.
    ending: bool,
    answer: Answer,
    ended: bool,
}

impl<'d> Call<'d> {
    fn new(connection: Connection<'d>) -> Call<'d> {
        Call {
            connection,
            decoder: Decoder::new(),
            windows: [WINDOW; 2],
            first_window: WINDOW,
            block: Vec::new(),
            ending: false,
            answer: Answer::default(),
            ended: false,
        }
    }

    fn open(&mut self, block: &[u8]) -> Result<(), Failure> {
        let mut out = PREFACE.to_vec();
        put(kind::SETTINGS, 0, 0, &[], &mut out);
        let (mut parts, mut kind) = (block.chunks(MOST_FRAME).peekable(), kind::HEADERS);
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
            put(kind, flags, STREAM, part, &mut out);
            kind = kind::CONTINUATION;
        }
        self.connection.send(&out)
    }

    fn send(&mut self, mut message: &[u8]) -> Result<(), Failure> {
        while !message.is_empty() && !self.ended {
            let window = self.windows.into_iter().min().unwrap_or_default();
            let len = message.len().min(MOST_FRAME).min(usize::try_from(window).unwrap_or_default());
            if len == 0 {
                self.receive()?;
                continue;
            }
            let (part, rest) = message.split_at(len);
            let flags = if rest.is_empty() { flag::END_STREAM } else { 0 };
            self.reply(kind::DATA, flags, STREAM, part)?;
            self.windows = self.windows.map(|window| window - len as i64);
            message = rest;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        while !self.ended {
            self.receive()?;
        }
        Ok(())
    }

    fn reply(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::with_capacity(9 + payload.len());
        put(kind, flags, stream, payload, &mut out);
        self.connection.send(&out)
    }

    /// Reads one frame and does what it wants.
    fn receive(&mut self) -> Result<(), Failure> {
        let frame = Frame::read(&mut self.connection)?;
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => self.settings(&frame.payload),
            kind::PING if !frame.has(flag::ACK) => self.reply(kind::PING, flag::ACK, 0, &frame.payload),
            kind::WINDOW => self.window(&frame),
            kind::GO_AWAY => self.go_away(&frame),
            kind::RESET => Err(Failure::Garbage("the call was reset")),
            kind::DATA if frame.stream == STREAM => self.data(&frame),
            kind::HEADERS | kind::CONTINUATION if frame.stream == STREAM => self.headers(&frame),
            _ => Ok(()),
        }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), Failure> {
        const FIRST_WINDOW: [u8; 2] = [0, 4];
        for setting in payload.chunks_exact(6) {
            if setting[..2] == FIRST_WINDOW {
                let window = number(&setting[2..]).ok_or(BROKEN)?.into();
                self.windows[1] += window - self.first_window;
                self.first_window = window;
            }
        }
        self.reply(kind::SETTINGS, flag::ACK, 0, &[])
    }

    fn window(&mut self, frame: &Frame) -> Result<(), Failure> {
        let more = i64::from(number(&frame.payload).ok_or(BROKEN)? & (u32::MAX >> 1));
        self.windows[usize::from(frame.stream != 0)] += more;
        Ok(())
    }

    /// The other side takes no new calls; ours may be one that it still answers.
    fn go_away(&mut self, frame: &Frame) -> Result<(), Failure> {
        let last = number(&frame.payload).ok_or(BROKEN)?;
        if last >= STREAM { Ok(()) } else { Err(Failure::Garbage("the collector goes away")) }
    }

    fn data(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.answer.body.extend_from_slice(frame.content()?);
        if self.answer.body.len() > MOST_BODY {
            return Err(Failure::Garbage("its body is too large"));
        }
        let len = frame.payload.len() as u32;
        if len > 0 {
            self.reply(kind::WINDOW, 0, 0, &len.to_be_bytes())?;
            self.reply(kind::WINDOW, 0, STREAM, &len.to_be_bytes())?;
        }
        self.ended = frame.has(flag::END_STREAM);
        Ok(())
    }

    fn headers(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.block.extend_from_slice(frame.content()?);
        if self.block.len() > MOST_HEADERS {
            return Err(Failure::Garbage("its headers have no end"));
        }
        self.ending |= frame.kind == kind::HEADERS && frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            let block = std::mem::take(&mut self.block);
            self.answer.headers.extend(self.decoder.decode(&block).ok_or(BROKEN)?);
            self.ended = self.ending;
        }
        Ok(())
    }
}

fn block(endpoint: &Endpoint, headers: &[(String, String)], coding: Coding) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", if endpoint.secure { "https" } else { "http" }),
        (":path", PATH),
        (":authority", &*endpoint.authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", concat!("ebpf-profiler-otlp/", env!("CARGO_PKG_VERSION"))),
        ("grpc-encoding", coding.name()),
    ] {
        hpack::encode(name, value, &mut block);
    }
    for (name, value) in headers {
        hpack::encode(&name.to_ascii_lowercase(), value, &mut block);
    }
    block
}

/// What the outcome of a call means.
pub(super) fn judge(outcome: Result<Answer, Failure>) -> Verdict {
    match outcome {
        Ok(answer) => verdict(&answer),
        Err(failure) => Verdict::Later { after: None, why: failure.to_string() },
    }
}
