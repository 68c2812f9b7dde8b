//! Frames of HTTP/2 (RFC 9113).
//!
//! ```text
//! length 24 | type 8 | flags 8 | stream 32 | as many bytes as the length says
//! ```

use crate::export::connection::{Connection, Failure};

/// What both sides begin with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest frame that everybody takes, and that we take.
pub(super) const MOST_FRAME: usize = 16_384;

pub(super) mod kind {
    pub(in crate::export::grpc) const DATA: u8 = 0;
    pub(in crate::export::grpc) const HEADERS: u8 = 1;
    pub(in crate::export::grpc) const RESET: u8 = 3;
    pub(in crate::export::grpc) const SETTINGS: u8 = 4;
    pub(in crate::export::grpc) const PING: u8 = 6;
    pub(in crate::export::grpc) const GO_AWAY: u8 = 7;
    pub(in crate::export::grpc) const WINDOW: u8 = 8;
    pub(in crate::export::grpc) const CONTINUATION: u8 = 9;
}

pub(super) mod flag {
    /// Of settings and pings: an answer.
    pub(in crate::export::grpc) const ACK: u8 = 0x1;
    pub(in crate::export::grpc) const END_STREAM: u8 = 0x1;
    pub(in crate::export::grpc) const END_HEADERS: u8 = 0x4;
    pub(in crate::export::grpc) const PADDED: u8 = 0x8;
    pub(in crate::export::grpc) const PRIORITY: u8 = 0x20;
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Reads the next one.
    pub(super) fn read(connection: &mut Connection<'_>) -> Result<Frame, Failure> {
        let head = connection.bytes(9)?;
        let [a, b, c, kind, flags, ref stream @ ..] = head[..] else { return Err(BROKEN) };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if len > MOST_FRAME {
            return Err(Failure::Garbage("a frame is too large"));
        }
        let stream = number(stream).ok_or(BROKEN)? & STREAM;
        Ok(Frame { kind, flags, stream, payload: connection.bytes(len)? })
    }

    /// The payload of data or headers, without padding and priority.
    pub(super) fn content(&self) -> Result<&[u8], Failure> {
        let mut content = &self.payload[..];
        if self.flags & flag::PADDED != 0 {
            let (&padding, rest) = content.split_first().ok_or(BROKEN)?;
            let len = rest.len().checked_sub(padding.into()).ok_or(BROKEN)?;
            content = &rest[..len];
        }
        if self.kind == kind::HEADERS && self.flags & flag::PRIORITY != 0 {
            content = content.get(5..).ok_or(BROKEN)?;
        }
        Ok(content)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// One bit of the number of a stream means nothing.
const STREAM: u32 = 0x7fff_ffff;

pub(super) const BROKEN: Failure = Failure::Garbage("a frame is broken");

/// Appends a frame.
pub(super) fn put(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The number in the first four bytes.
pub(super) fn number(bytes: impl AsRef<[u8]>) -> Option<u32> {
    bytes.as_ref().first_chunk().map(|&bytes| u32::from_be_bytes(bytes))
}
