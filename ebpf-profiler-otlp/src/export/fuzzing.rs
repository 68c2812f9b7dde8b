//! Entry points of the fuzz targets to the readers of network and spool bytes.

use std::io::Cursor;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;

use super::answer::{self, Verdict};
use super::compression::Coding;
use super::connection::{Connection, Failure};
use super::http;
use super::stream::Stream;

/// Reads an HTTP answer and returns the sizes of its head and body; `None` if it is malformed.
pub fn http(answer: &[u8]) -> Option<(usize, usize)> {
    let response = over(answer, |mut connection| http::response(&mut connection)).ok()?;
    let head = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let body = response.body.len();
    drop(answer::verdict(Ok(response), UNIX_EPOCH));
    Some((head, body))
}

/// Classifies an answer by status, `Retry-After`, `Date` and body, and returns the wait.
pub fn answer(status: u16, retry_after: &str, date: &str, body: &[u8]) -> Option<Duration> {
    let headers = [("retry-after", retry_after), ("date", date)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    match answer::verdict(Ok(http::Response { status, headers, body: body.to_vec() }), UNIX_EPOCH) {
        Verdict::Retry { after, .. } => after,
        _ => None,
    }
}

/// Makes a gRPC call whose server sends these frames, and returns `true` if it is answered.
#[cfg(feature = "grpc")]
pub fn frames(answer: &[u8]) -> bool {
    over(answer, |connection| super::grpc::call(connection, b"", &[0; 3_000])).is_ok()
}

/// Classifies the answer of a gRPC call with these headers and this body, and returns the wait.
#[cfg(feature = "grpc")]
pub fn grpc(headers: &[(&[u8], &[u8])], body: &[u8]) -> Option<Duration> {
    let headers = headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    match super::grpc::outcome(Ok(super::grpc::Answer { headers, body: body.to_vec() })) {
        Verdict::Retry { after, .. } => after,
        _ => None,
    }
}

/// Decodes header blocks of one connection and returns the size of each; `None` for a malformed
/// one.
#[cfg(feature = "grpc")]
pub fn hpack<'b>(blocks: impl Iterator<Item = &'b [u8]>) -> Vec<Option<usize>> {
    let mut decoder = super::grpc::hpack::Decoder::new();
    let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len();
    blocks.map(|block| Some(decoder.decode(block)?.iter().map(size).sum())).collect()
}

/// Encodes a header as it is sent.
#[cfg(feature = "grpc")]
pub fn hpack_block(name: &str, value: &str) -> Vec<u8> {
    let mut block = Vec::new();
    super::grpc::hpack::encode(name, value, &mut block);
    block
}

/// Decompresses and divides a message of the spool, and returns the parts.
pub fn divide(body: &[u8], coding: u8) -> Option<[Vec<u8>; 2]> {
    let coding = [Coding::Identity, Coding::Gzip, Coding::Zstd][usize::from(coding % 3)];
    super::divide::divide(&coding.decode(&Bytes::copy_from_slice(body), 1 << 20)?)
}

fn over<T>(answer: &[u8], run: impl FnOnce(Connection<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    let end = Instant::now() + Duration::from_secs(60);
    run(Connection::new(Stream::Bytes(Cursor::new(answer.to_vec())), &|| end))
}
