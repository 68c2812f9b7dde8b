//! Frames of HTTP/2 (RFC 9113).
//!
//! ```text
//! length 24 | type 8 | flags 8 | stream 32 | payload of `length` bytes
//! ```

use crate::export::connection::{Connection, Failure};

/// The bytes with which a client begins a connection.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum payload size that every endpoint accepts; we never raise it.
pub(super) const MAX_FRAME: usize = 16_384;

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
    /// Of SETTINGS and PING: an acknowledgement.
    pub(in crate::export::grpc) const ACK: u8 = 0x1;
    pub(in crate::export::grpc) const END_STREAM: u8 = 0x1;
    pub(in crate::export::grpc) const END_HEADERS: u8 = 0x4;
    pub(in crate::export::grpc) const PADDED: u8 = 0x8;
    pub(in crate::export::grpc) const PRIORITY: u8 = 0x20;
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Reads the next frame.
    pub(super) fn read(connection: &mut Connection<'_>) -> Result<Frame, Failure> {
        let head = connection.bytes(9)?;
        let [a, b, c, kind, flags, ref stream @ ..] = head[..] else { return Err(MALFORMED) };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if len > MAX_FRAME {
            return Err(Failure::Protocol("a frame is too large"));
        }
        let stream = number(stream).ok_or(MALFORMED)? & STREAM_MASK;
        Ok(Frame { kind, flags, stream, payload: connection.bytes(len)? })
    }

    /// Returns the payload of a DATA or HEADERS frame without padding and priority.
    pub(super) fn content(&self) -> Result<&[u8], Failure> {
        let mut content = &self.payload[..];
        if self.has(flag::PADDED) && self.kind != kind::CONTINUATION {
            let (&padding, rest) = content.split_first().ok_or(MALFORMED)?;
            let len = rest.len().checked_sub(padding.into()).ok_or(MALFORMED)?;
            content = &rest[..len];
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or(MALFORMED)?;
        }
        Ok(content)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Mask of a stream identifier; the top bit is reserved.
const STREAM_MASK: u32 = 0x7fff_ffff;

pub(super) const MALFORMED: Failure = Failure::Protocol("a frame is malformed");

/// Appends a frame.
pub(super) fn put(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Returns the number in the first four bytes.
pub(super) fn number(bytes: impl AsRef<[u8]>) -> Option<u32> {
    bytes.as_ref().first_chunk().map(|&bytes| u32::from_be_bytes(bytes))
}
