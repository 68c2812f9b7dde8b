//! A connection on which everything ends in time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::stream::{Stream, is_timeout};
#[cfg(feature = "tls")]
use super::tls::Tls;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody is there, or the connection broke.
    Io(&'static str, io::Error),
    /// It can't be secured.
    #[cfg(feature = "tls")]
    Tls(String),
    /// Time was over.
    Timeout(&'static str),
    /// What came is of another protocol, or too much.
    Garbage(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(doing, error) => write!(f, "{doing}: {error}"),
            #[cfg(feature = "tls")]
            Failure::Tls(why) => write!(f, "cannot secure the connection: {why}"),
            Failure::Timeout(doing) => write!(f, "{doing}: no end in the time that it may take"),
            Failure::Garbage(what) => write!(f, "the answer is not what was expected: {what}"),
        }
    }
}

/// When the attempt ends, which can become earlier while it goes on.
pub(super) type Deadline<'a> = &'a dyn Fn() -> Instant;

/// The other side.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    /// How to secure connections to it, where it wants that.
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
}

/// A connection, and what came in on it.
pub(super) struct Connection<'d> {
    stream: Stream,
    deadline: Deadline<'d>,
    /// For what goes wrong on the way.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS has more to say"))]
    peer: &'d Peer,
    /// Came in and wasn't looked at yet.
    pub(super) received: Vec<u8>,
}

impl<'d> Connection<'d> {
    pub(super) fn open(peer: &'d mut Peer, deadline: Deadline<'d>) -> Result<Connection<'d>, Failure> {
        let socket = connect(&peer.endpoint, deadline)?;
        let stream = peer.stream(socket)?;
        Ok(Connection { stream, deadline, peer, received: Vec::new() })
    }

    /// Sends all bytes.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let written = self.patiently("cannot send", |stream| stream.write(bytes))?;
            bytes = &bytes[written..];
        }
        self.patiently("cannot send", |stream| stream.flush())
    }

    /// Receives some more bytes; false at the end.
    pub(super) fn receive(&mut self) -> Result<bool, Failure> {
        let mut buffer = [0; 4096];
        let read = self.patiently("cannot read the answer", |stream| stream.read(&mut buffer))?;
        self.received.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }

    /// Takes so many bytes out of what comes in.
    pub(super) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        while self.received.len() < len {
            if !self.receive()? {
                return Err(Failure::Garbage("it ends too early"));
            }
        }
        Ok(self.received.drain(..len).collect())
    }

    /// Tries until it works or fails, or time is over.
    fn patiently<T>(
        &mut self,
        doing: &'static str,
        mut run: impl FnMut(&mut Stream) -> io::Result<T>,
    ) -> Result<T, Failure> {
        loop {
            let timeout = rest(self.deadline, doing)?.min(LOOK);
            match self.stream.set_timeout(timeout).and_then(|()| run(&mut self.stream)) {
                Err(error) if is_timeout(&error) => {}
                result => return result.map_err(|error| self.failure(doing, error)),
            }
        }
    }

    fn failure(&self, doing: &'static str, error: io::Error) -> Failure {
        #[cfg(feature = "tls")]
        if let Some(failure) = self.peer.tls.as_ref().and_then(|tls| tls.failure(&error)) {
            return failure;
        }
        failure(doing, error)
    }
}

impl Peer {
    #[cfg(feature = "tls")]
    fn stream(&mut self, socket: TcpStream) -> Result<Stream, Failure> {
        match &mut self.tls {
            Some(tls) => tls.stream(socket),
            None => Ok(Stream::Plain(socket)),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn stream(&self, socket: TcpStream) -> Result<Stream, Failure> {
        Ok(Stream::Plain(socket))
    }
}

fn connect(endpoint: &Endpoint, deadline: Deadline<'_>) -> Result<TcpStream, Failure> {
    const DOING: &str = "cannot connect";
    let address = (&*endpoint.host, endpoint.port);
    let addresses = address.to_socket_addrs().map_err(|error| Failure::Io("cannot find the host", error))?;
    let mut last = Failure::Io(DOING, io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        match TcpStream::connect_timeout(&address, rest(deadline, DOING)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = failure(DOING, error),
        }
    }
    Err(last)
}

/// The time that is left, never zero: that would mean no limit.
fn rest(deadline: Deadline<'_>, doing: &'static str) -> Result<Duration, Failure> {
    let rest = deadline().saturating_duration_since(Instant::now());
    if rest.is_zero() { Err(Failure::Timeout(doing)) } else { Ok(rest) }
}

fn failure(doing: &'static str, error: io::Error) -> Failure {
    if is_timeout(&error) { Failure::Timeout(doing) } else { Failure::Io(doing, error) }
}

/// How long one system call waits before the deadline is looked at again.
const LOOK: Duration = Duration::from_millis(100);
