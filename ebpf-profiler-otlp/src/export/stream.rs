//! The byte stream of a connection, plain or TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[cfg(feature = "tls")]
use super::secure::Secure;

/// A byte stream to and from a collector.
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<Secure>),
    /// Bytes in place of a collector's answer; what is written is discarded.
    #[cfg(fuzzing)]
    Bytes(io::Cursor<Vec<u8>>),
}

impl Stream {
    /// Sets the longest wait of one read or write.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => set_timeout(socket, timeout),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => set_timeout(&stream.socket, timeout),
            #[cfg(fuzzing)]
            Stream::Bytes(_) => Ok(()),
        }
    }
}

fn set_timeout(socket: &TcpStream, timeout: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.read(buffer),
            #[cfg(fuzzing)]
            Stream::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write(bytes),
            #[cfg(fuzzing)]
            Stream::Bytes(_) => Ok(bytes.len()),
        }
    }

    /// Sends the bytes that TLS has buffered.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.flush(),
            #[cfg(fuzzing)]
            Stream::Bytes(_) => Ok(()),
        }
    }
}

/// Returns `true` if the operation can be repeated.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
