//! HTTP/1.1 for a POST with one body, with heads and chunk sizes parsed by `httparse`.
//!
//! The smallest blocking client, `ureq` without features, brings ten crates, and its timeouts are
//! fixed when a request starts. Here one deadline covers name resolution, connecting, the TLS
//! handshake and the transfer, and moves forward when the exporter is closed.
//!
//! Each request has a connection: at one request every few seconds a kept connection saves next to
//! nothing, and it brings the case that the collector closed it in between. The limits below bound
//! the memory that an answer takes.

use super::connection::{Connection, Deadline, Failure, Peer};

/// A collector's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Header fields with their names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Maximum size of a head in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Maximum number of header fields.
const MAX_HEADERS: usize = 128;
/// Maximum number of interim answers (status 1xx).
const MAX_INTERIM: usize = 16;
/// Maximum size of a body in bytes, as the OTLP specification recommends.
const MAX_BODY: usize = 4 << 20;
/// Maximum size in bytes of a chunk's first line.
const MAX_CHUNK_LINE: usize = 4 << 10;

/// Sends a request and reads the answer; `head` ends with the empty line.
pub(super) fn exchange(
    peer: &mut Peer,
    head: &str,
    body: &[u8],
    deadline: Deadline<'_>,
) -> Result<Response, Failure> {
    let mut connection = peer.open(deadline)?;
    let sent = connection.send(head.as_bytes()).and_then(|()| connection.send(body));
    // A collector may refuse a body and close the connection before all of it is sent.
    match (response(&mut connection), sent) {
        (Ok(response), _) => Ok(response),
        #[cfg(feature = "tls")]
        (Err(refusal @ Failure::Tls(_)), _) => Err(refusal),
        (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
    }
}

/// Reads an answer and skips interim ones.
pub(super) fn response(connection: &mut Connection<'_>) -> Result<Response, Failure> {
    for _ in 0..=MAX_INTERIM {
        let mut response = head(connection)?;
        if !(100..200).contains(&response.status) {
            response.body = body(connection, &response)?;
            return Ok(response);
        }
    }
    Err(Failure::Protocol("its interim answers have no end"))
}

/// Reads a status line and header fields.
///
/// Each line is parsed again for each following one that comes separately, which `MAX_HEADERS`
/// bounds.
fn head(connection: &mut Connection<'_>) -> Result<Response, Failure> {
    let mut new = connection.received().len();
    loop {
        let received = connection.received();
        // httparse would skip empty lines without end.
        if received.first().is_some_and(|&byte| byte != b'H') {
            return Err(Failure::Protocol("it is not HTTP"));
        }
        if received[received.len() - new..].contains(&b'\n')
            && let Some((len, response)) = parse_head(received)?
        {
            connection.consume(len);
            return Ok(response);
        }
        if received.len() > MAX_HEAD {
            return Err(Failure::Protocol("its head has no end"));
        }
        new = connection.receive_more()?;
    }
}

/// Parses a head and returns its length; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, Response)>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let mut config = httparse::ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    let len = match config.parse_response(&mut parsed, bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Failure::Protocol("it has too many headers")),
        Err(_) => return Err(Failure::Protocol("its head is not HTTP")),
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
    let headers = parsed.headers.iter().map(|it| (it.name.to_ascii_lowercase(), text(it.value))).collect();
    let status = parsed.code.filter(|code| (100..1000).contains(code));
    let status = status.ok_or(Failure::Protocol("it has no status"))?;
    Ok(Some((len, Response { status, headers, body: Vec::new() })))
}

fn body(connection: &mut Connection<'_>, response: &Response) -> Result<Vec<u8>, Failure> {
    let coding = response.header("transfer-encoding").and_then(|codings| codings.rsplit(',').next());
    let is_chunked = coding.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
    match response.header("content-length").map(str::parse) {
        _ if response.status == 204 || response.status == 304 => Ok(Vec::new()),
        _ if is_chunked => chunks(connection),
        Some(Ok(len @ 0..=MAX_BODY)) => connection.bytes(len),
        Some(Ok(_)) => Err(TOO_LARGE),
        Some(Err(_)) => Err(Failure::Protocol("its length is no number")),
        None => until_end(connection),
    }
}

const TOO_LARGE: Failure = Failure::Protocol("its body is too large");

fn until_end(connection: &mut Connection<'_>) -> Result<Vec<u8>, Failure> {
    while connection.receive()? > 0 {
        if connection.received().len() > MAX_BODY {
            return Err(TOO_LARGE);
        }
    }
    connection.bytes(connection.received().len())
}

/// Reads chunks up to the empty one; trailer fields are not read.
fn chunks(connection: &mut Connection<'_>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let size = match httparse::parse_chunk_size(connection.received()) {
            Ok(httparse::Status::Complete((len, size))) => {
                connection.consume(len);
                size
            }
            Ok(httparse::Status::Partial) if connection.received().len() <= MAX_CHUNK_LINE => {
                connection.receive_more()?;
                continue;
            }
            _ => return Err(Failure::Protocol("a chunk has no size")),
        };
        match usize::try_from(size) {
            Ok(0) => return Ok(body),
            Ok(size) if size <= MAX_BODY - body.len() => body.extend(connection.bytes(size)?),
            _ => return Err(TOO_LARGE),
        }
        if connection.bytes(2)? != b"\r\n" {
            return Err(Failure::Protocol("a chunk has another size"));
        }
    }
}
