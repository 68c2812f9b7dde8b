//! HTTP/1.1, as much of it as a POST of one body needs.
//!
//! One connection for each request: at one request every few seconds a kept connection saves next to nothing, and
//! would bring the case that the other side closed it in between. The answer is read up to a bound, the whole
//! attempt ends at a deadline, and nothing that comes in decides how much memory is taken.

use super::connection::{Connection, Deadline, Failure, Peer};

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

/// Sends a request and reads the answer; `head` is everything up to the empty line.
pub(super) fn exchange(
    peer: &mut Peer,
    head: &str,
    body: &[u8],
    deadline: Deadline<'_>,
) -> Result<Response, Failure> {
    let mut connection = Exchange(Connection::open(peer, deadline)?);
    let sent = connection.0.send(head.as_bytes()).and_then(|()| connection.0.send(body));
    // One who refuses a body may answer and close before it is all there.
    match (connection.response(), sent) {
        (Ok(response), _) => Ok(response),
        #[cfg(feature = "tls")]
        (Err(refusal @ Failure::Tls(_)), _) => Err(refusal),
        (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
    }
}

/// The most that headers take.
const MOST_HEAD: usize = 64 << 10;
/// The most that a body takes, as the specification recommends.
const MOST_BODY: usize = 4 << 20;

/// The reading side of an exchange.
struct Exchange<'d>(Connection<'d>);

impl Exchange<'_> {
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
            if let Some(end) = self.0.received[searched..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.0.received.drain(..=searched + end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            searched = self.0.received.len();
            if searched > MOST_HEAD {
                return Err(Failure::Garbage("a line has no end"));
            }
            if !self.0.receive()? {
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
        self.0.bytes(len)
    }

    /// Everything up to the end of the connection.
    fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        while self.0.receive()? {
            if self.0.received.len() > MOST_BODY {
                return Err(Failure::Garbage("its body is too large"));
            }
        }
        Ok(std::mem::take(&mut self.0.received))
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
