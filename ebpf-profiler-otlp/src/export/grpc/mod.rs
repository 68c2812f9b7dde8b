//! gRPC over HTTP/2 for one unary call.
//!
//! ```text
//!   client  preface, SETTINGS, HEADERS, DATA ... DATA
//!   server  SETTINGS, WINDOW_UPDATE ..., HEADERS, DATA, HEADERS with grpc-status
//! ```
//!
//! Each call has a connection, as with HTTP/1.1, so there is one stream and no priority. DATA is
//! sent as far as the server's flow-control windows allow; when they are exhausted, frames are read
//! until they grow.
//!
//! Written by hand, in 600 lines: the smallest client, `h2`, brings 20 crates, among them the async
//! runtime `tokio`, which an embedder's program may not have, for one call every few seconds. The
//! fuzz targets `frames`, `hpack` and `grpc` cover it.

mod frame;
pub(super) mod hpack;
mod huffman;
mod status;

use super::answer::Verdict;
use super::compression::Coding;
use super::connection::{Connection, Deadline, Failure, Peer};
use super::endpoint::Endpoint;
use frame::{Frame, MALFORMED, MAX_FRAME, PREFACE, flag, kind, number, put};
use hpack::{Decoder, Header};
use status::verdict;

/// The path of the gRPC method.
const PATH: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// The server's answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Headers and trailers.
    pub(super) headers: Vec<Header>,
    /// The message with its prefix of five bytes.
    pub(super) body: Vec<u8>,
}

/// The only stream.
const STREAM: u32 = 1;
/// Initial flow-control window in bytes.
const WINDOW: i64 = 65_535;
/// Maximum size of an answer's body in bytes.
const MAX_BODY: usize = 4 << 20;
/// Maximum size of a header block in bytes, compressed.
const MAX_BLOCK: usize = 64 << 10;
/// Maximum number of frames that one call receives, besides one for each KiB that it sends.
///
/// Servers send some ten frames, and two or three for 16 KiB that they receive. Without the limit,
/// endless SETTINGS, WINDOW_UPDATE, CONTINUATION, PING or empty DATA frames would take a CPU until
/// the deadline.
const MAX_FRAMES: usize = 4_096;

/// Sends a message and reads the answer.
pub(super) fn exchange(
    peer: &mut Peer,
    headers: &[(String, String)],
    body: &[u8],
    coding: Coding,
    deadline: Deadline<'_>,
) -> Result<Answer, Failure> {
    let block = block(&peer.endpoint, headers, coding);
    call(peer.open(deadline)?, &block, &message(body, coding))
}

/// Makes one call on a new connection.
pub(super) fn call(connection: Connection<'_>, block: &[u8], message: &[u8]) -> Result<Answer, Failure> {
    let mut call = Call::new(connection, message.len());
    let sent = call.open(block).and_then(|()| call.send(message));
    // A server may refuse a message and close the connection before all of it is sent.
    match (call.finish(), sent) {
        (Ok(()), _) => Ok(call.answer),
        #[cfg(feature = "tls")]
        (Err(refusal @ Failure::Tls(_)), _) => Err(refusal),
        (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
    }
}

/// Adds the prefix of a gRPC message: one byte that is 1 if it is compressed, and the length.
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
    /// Number of bytes that may be sent on the connection and on the stream.
    windows: [i64; 2],
    /// Initial window of a stream.
    initial_window: i64,
    /// The received part of an incomplete header block.
    block: Vec<u8>,
    /// `true` if that block ends the stream.
    is_last_block: bool,
    /// Number of frames that may still be received.
    frames_left: usize,
    answer: Answer,
    has_ended: bool,
}

impl<'d> Call<'d> {
    fn new(connection: Connection<'d>, message: usize) -> Call<'d> {
        Call {
            connection,
            decoder: Decoder::new(),
            windows: [WINDOW; 2],
            initial_window: WINDOW,
            block: Vec::new(),
            is_last_block: false,
            frames_left: MAX_FRAMES + message / 1_024,
            answer: Answer::default(),
            has_ended: false,
        }
    }

    fn open(&mut self, block: &[u8]) -> Result<(), Failure> {
        let mut out = PREFACE.to_vec();
        put(kind::SETTINGS, 0, 0, &[], &mut out);
        let (mut parts, mut kind) = (block.chunks(MAX_FRAME).peekable(), kind::HEADERS);
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
            put(kind, flags, STREAM, part, &mut out);
            kind = kind::CONTINUATION;
        }
        self.connection.send(&out)
    }

    fn send(&mut self, mut message: &[u8]) -> Result<(), Failure> {
        while !message.is_empty() && !self.has_ended {
            let window = self.windows.into_iter().min().unwrap_or_default();
            let len = message.len().min(MAX_FRAME).min(usize::try_from(window).unwrap_or_default());
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
        while !self.has_ended {
            self.receive()?;
        }
        Ok(())
    }

    fn reply(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::with_capacity(9 + payload.len());
        put(kind, flags, stream, payload, &mut out);
        self.connection.send(&out)
    }

    /// Reads and handles one frame.
    fn receive(&mut self) -> Result<(), Failure> {
        let frames_left = self.frames_left.checked_sub(1);
        self.frames_left = frames_left.ok_or(Failure::Protocol("its frames have no end"))?;
        let frame = Frame::read(&mut self.connection)?;
        if !self.block.is_empty() && frame.kind != kind::CONTINUATION {
            return Err(Failure::Protocol("a frame interrupts a header block"));
        }
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => self.settings(&frame.payload),
            kind::PING if !frame.has(flag::ACK) => self.reply(kind::PING, flag::ACK, 0, &frame.payload),
            kind::WINDOW => self.window(&frame),
            kind::GO_AWAY => self.go_away(&frame),
            kind::RESET if frame.stream == STREAM => Err(Failure::Protocol("the call was reset")),
            kind::DATA if frame.stream == STREAM => self.data(&frame),
            kind::HEADERS | kind::CONTINUATION if frame.stream == STREAM => self.headers(&frame),
            _ => Ok(()),
        }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), Failure> {
        const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
        for setting in payload.chunks_exact(6) {
            if setting[..2] == INITIAL_WINDOW_SIZE {
                let window = number(&setting[2..]).ok_or(MALFORMED)?.into();
                self.windows[1] += window - self.initial_window;
                self.initial_window = window;
            }
        }
        self.reply(kind::SETTINGS, flag::ACK, 0, &[])
    }

    fn window(&mut self, frame: &Frame) -> Result<(), Failure> {
        let more = i64::from(number(&frame.payload).ok_or(MALFORMED)? & (u32::MAX >> 1));
        self.windows[usize::from(frame.stream != 0)] += more;
        Ok(())
    }

    /// Handles the end of the connection; the server may still answer a stream that it accepted.
    fn go_away(&mut self, frame: &Frame) -> Result<(), Failure> {
        let last = number(&frame.payload).ok_or(MALFORMED)?;
        if last >= STREAM { Ok(()) } else { Err(Failure::Protocol("the collector closes the connection")) }
    }

    fn data(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.answer.body.extend_from_slice(frame.content()?);
        if self.answer.body.len() > MAX_BODY {
            return Err(Failure::Protocol("its body is too large"));
        }
        let len = frame.payload.len() as u32;
        if len > 0 {
            self.reply(kind::WINDOW, 0, 0, &len.to_be_bytes())?;
            self.reply(kind::WINDOW, 0, STREAM, &len.to_be_bytes())?;
        }
        self.has_ended = frame.has(flag::END_STREAM);
        Ok(())
    }

    fn headers(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.block.extend_from_slice(frame.content()?);
        if self.block.len() > MAX_BLOCK {
            return Err(Failure::Protocol("its headers have no end"));
        }
        self.is_last_block |= frame.kind == kind::HEADERS && frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            let block = std::mem::take(&mut self.block);
            self.answer.headers.extend(self.decoder.decode(&block).ok_or(MALFORMED)?);
            self.has_ended = self.is_last_block;
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

/// Classifies the outcome of a call.
pub(super) fn outcome(result: Result<Answer, Failure>) -> Verdict {
    match result {
        Ok(answer) => verdict(&answer),
        Err(failure) => Verdict::Retry { after: None, why: failure.to_string() },
    }
}
