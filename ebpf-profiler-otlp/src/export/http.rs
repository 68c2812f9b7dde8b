//! HTTP/1.1, as much of it as a POST of one body needs.
//!
//! One connection for each request: at one request every few seconds a kept connection saves next to nothing, and
//! would bring the case that the other side closed it in between. The answer is read up to a bound, the whole
//! attempt ends at a deadline, and nothing that comes in decides how much memory is taken.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody is there, or the connection broke.
    Io(&'static str, io::Error),
    /// Time was over.
    Timeout(&'static str),
    /// What came is no HTTP, or too much of it.
    Garbage(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(doing, error) => write!(f, "{doing}: {error}"),
            Failure::Timeout(doing) => write!(f, "{doing}: no end in the time that it may take"),
            Failure::Garbage(what) => write!(f, "the answer is not HTTP: {what}"),
        }
    }
}

/// When the attempt ends, which can become earlier while it goes on.
pub(super) type Deadline<'a> = &'a dyn Fn() -> Instant;

/// Sends a request and reads the answer; `head` is everything up to the empty line.
pub(super) fn exchange(
    endpoint: &Endpoint,
    head: &str,
    body: &[u8],
    deadline: Deadline<'_>,
) -> Result<Response, Failure> {
    let mut connection = Connection { stream: connect(endpoint, deadline)?, deadline, received: Vec::new() };
    let sent = connection.send(head.as_bytes()).and_then(|()| connection.send(body));
    // One who refuses a body may answer and close before it is all there.
    match (connection.response(), sent) {
        (Ok(response), _) => Ok(response),
        (Err(_), Err(failure)) => Err(failure),
        (Err(failure), Ok(())) => Err(failure),
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

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// How long one system call waits before the deadline is looked at again.
const LOOK: Duration = Duration::from_millis(100);

/// The most that headers take.
const MOST_HEAD: usize = 64 << 10;
/// The most that a body takes, as the specification recommends.
const MOST_BODY: usize = 4 << 20;

struct Connection<'d> {
    stream: TcpStream,
    deadline: Deadline<'d>,
    /// Came in and wasn't looked at yet.
    received: Vec<u8>,
}

impl Connection<'_> {
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let written = self.patiently("cannot send", |mut stream| stream.write(bytes))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Receives some more bytes; false at the end.
    fn receive(&mut self) -> Result<bool, Failure> {
        let mut buffer = [0; 4096];
        let read = self.patiently("cannot read the answer", |mut stream| stream.read(&mut buffer))?;
        self.received.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }

    /// Tries until it works or fails, or time is over.
    fn patiently(
        &self,
        doing: &'static str,
        mut run: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Result<usize, Failure> {
        loop {
            let timeout = Some(rest(self.deadline, doing)?.min(LOOK));
            let set = self.stream.set_read_timeout(timeout).and(self.stream.set_write_timeout(timeout));
            match set.and_then(|()| run(&self.stream)) {
                Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|error| failure(doing, error)),
            }
        }
    }

    /// The answer; those that only announce it (1xx) are skipped.
    fn response(&mut self) -> Result<Response, Failure> {
        loop {
            let mut response = self.head()?;
            if !(100..200).contains(&response.status) {
                response.body = self.body(&response)?;
                return Ok(response);
            }
        }
    }

    fn head(&mut self) -> Result<Response, Failure> {
        let mut response = Response { status: status(&self.line()?)?, ..Response::default() };
        let mut size = 0;
        loop {
            let line = self.line()?;
            size += line.len();
            if line.is_empty() {
                return Ok(response);
            }
            if size > MOST_HEAD {
                return Err(Failure::Garbage("its headers have no end"));
            }
            let (name, value) = line.split_once(':').ok_or(Failure::Garbage("a header has no name"))?;
            response.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<String, Failure> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=searched + end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            searched = self.received.len();
            if searched > MOST_HEAD {
                return Err(Failure::Garbage("a line has no end"));
            }
            if !self.receive()? {
                return Err(Failure::Garbage("it ends too early"));
            }
        }
    }

    fn body(&mut self, response: &Response) -> Result<Vec<u8>, Failure> {
        let chunked =
            response.header("transfer-encoding").is_some_and(|it| it.eq_ignore_ascii_case("chunked"));
        match response.header("content-length").map(str::parse) {
            _ if response.status == 204 || response.status == 304 => Ok(Vec::new()),
            _ if chunked => self.chunks(),
            Some(Ok(len)) => self.bytes(len),
            Some(Err(_)) => Err(Failure::Garbage("its length is no number")),
            None => self.rest(),
        }
    }

    fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        if len > MOST_BODY {
            return Err(Failure::Garbage("its body is too large"));
        }
        while self.received.len() < len {
            if !self.receive()? {
                return Err(Failure::Garbage("it ends too early"));
            }
        }
        Ok(self.received.drain(..len).collect())
    }

    /// Everything up to the end of the connection.
    fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        while self.receive()? {
            if self.received.len() > MOST_BODY {
                return Err(Failure::Garbage("its body is too large"));
            }
        }
        Ok(std::mem::take(&mut self.received))
    }

    /// Chunks: a line with the size in hexadecimal, so many bytes, an empty line; the last has size 0.
    fn chunks(&mut self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| Failure::Garbage("a chunk has no size"))?;
            if size == 0 {
                return Ok(body);
            }
            if size.saturating_add(body.len()) > MOST_BODY {
                return Err(Failure::Garbage("its body is too large"));
            }
            body.extend(self.bytes(size)?);
            self.line()?;
        }
    }
}

/// `HTTP/1.1 200 OK` is 200.
fn status(line: &str) -> Result<u16, Failure> {
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|status| status.parse().ok());
    match status {
        Some(status @ 100..1000) if version.starts_with("HTTP/1.") => Ok(status),
        _ => Err(Failure::Garbage("it does not begin with a status")),
    }
}
