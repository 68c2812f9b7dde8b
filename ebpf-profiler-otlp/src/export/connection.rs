//! A connection on which every operation ends at a deadline.

use std::fmt;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::stream::{Stream, is_timeout};
#[cfg(feature = "tls")]
use super::tls::Tls;

/// The reason why an attempt has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was not established or broke.
    Io(&'static str, io::Error),
    /// The TLS handshake or a TLS record failed.
    #[cfg(feature = "tls")]
    Tls(String),
    /// The deadline passed.
    Timeout(&'static str),
    /// The peer sent bytes of another protocol, or more than the limits allow.
    Protocol(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(doing, error) => write!(f, "{doing}: {error}"),
            #[cfg(feature = "tls")]
            Failure::Tls(why) => write!(f, "cannot secure the connection: {why}"),
            Failure::Timeout(doing) => write!(f, "{doing}: the deadline has passed"),
            Failure::Protocol(what) => write!(f, "invalid answer of the collector: {what}"),
        }
    }
}

/// Returns the end of the attempt, which can move forward while the attempt runs.
pub(super) type Deadline<'a> = &'a dyn Fn() -> Instant;

/// The collector's address and the state that connections to it share.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) dialer: Dialer,
    /// Present if the endpoint is `https`.
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
}

/// A connection with the bytes that were received and not yet consumed.
pub(super) struct Connection<'d> {
    stream: Stream,
    deadline: Deadline<'d>,
    #[cfg(feature = "tls")]
    tls: Option<&'d Tls>,
    buffer: Vec<u8>,
    /// Number of bytes at the beginning of `buffer` that are consumed.
    consumed: usize,
    /// Number of bytes received since the connection was opened.
    total: usize,
}

/// Maximum number of bytes that one attempt receives: twice the largest body.
const MAX_RECEIVED: usize = 8 << 20;

/// Longest wait of one system call, after which the deadline is checked again.
pub(super) const POLL: Duration = Duration::from_millis(100);

impl Peer {
    pub(super) fn open<'d>(&'d mut self, deadline: Deadline<'d>) -> Result<Connection<'d>, Failure> {
        let socket = self.dialer.connect(&self.endpoint, deadline)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let stream = tls.stream(socket)?;
            return Ok(Connection { tls: Some(tls), ..Connection::new(stream, deadline) });
        }
        Ok(Connection::new(Stream::Plain(socket), deadline))
    }
}

impl<'d> Connection<'d> {
    pub(super) fn new(stream: Stream, deadline: Deadline<'d>) -> Connection<'d> {
        Connection {
            stream,
            deadline,
            #[cfg(feature = "tls")]
            tls: None,
            buffer: Vec::new(),
            consumed: 0,
            total: 0,
        }
    }

    /// Sends all bytes.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let written = self.poll("cannot send", |stream| stream.write(bytes))?;
            bytes = &bytes[written..];
        }
        self.poll("cannot send", |stream| stream.flush())
    }

    /// Receives up to 4,096 bytes and returns how many; 0 at the end of the stream.
    pub(super) fn receive(&mut self) -> Result<usize, Failure> {
        let mut bytes = [0; 4096];
        let read = self.poll("cannot read the answer", |stream| stream.read(&mut bytes))?;
        self.total += read;
        if self.total > MAX_RECEIVED {
            return Err(Failure::Protocol("it is too large"));
        }
        self.buffer.drain(..std::mem::take(&mut self.consumed));
        self.buffer.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Receives bytes; the end of the stream is an error.
    pub(super) fn receive_more(&mut self) -> Result<usize, Failure> {
        match self.receive()? {
            0 => Err(Failure::Protocol("it ends too early")),
            read => Ok(read),
        }
    }

    /// Returns the bytes that were received and not yet consumed.
    pub(super) fn received(&self) -> &[u8] {
        &self.buffer[self.consumed..]
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.consumed = (self.consumed + len).min(self.buffer.len());
    }

    /// Receives and consumes exactly `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        while self.received().len() < len {
            self.receive_more()?;
        }
        let bytes = self.received()[..len].to_vec();
        self.consume(len);
        Ok(bytes)
    }

    /// Repeats an operation until it succeeds or fails, or the deadline passes.
    fn poll<T>(
        &mut self,
        doing: &'static str,
        mut run: impl FnMut(&mut Stream) -> io::Result<T>,
    ) -> Result<T, Failure> {
        loop {
            let timeout = remaining(self.deadline, doing)?.min(POLL);
            match self.stream.set_timeout(timeout).and_then(|()| run(&mut self.stream)) {
                Err(error) if is_timeout(&error) => {}
                result => return result.map_err(|error| self.failure(doing, error)),
            }
        }
    }

    fn failure(&self, doing: &'static str, error: io::Error) -> Failure {
        #[cfg(feature = "tls")]
        if let Some(failure) = self.tls.and_then(|tls| tls.failure(&error)) {
            return failure;
        }
        failure(doing, error)
    }
}

/// Returns the time until the deadline, never zero: for a socket, zero means no limit.
pub(super) fn remaining(deadline: Deadline<'_>, doing: &'static str) -> Result<Duration, Failure> {
    let remaining = deadline().saturating_duration_since(Instant::now());
    if remaining.is_zero() { Err(Failure::Timeout(doing)) } else { Ok(remaining) }
}

pub(super) fn failure(doing: &'static str, error: io::Error) -> Failure {
    if is_timeout(&error) { Failure::Timeout(doing) } else { Failure::Io(doing, error) }
}
