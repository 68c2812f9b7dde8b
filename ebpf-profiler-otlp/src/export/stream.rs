//! The bytes of a connection, in the clear or through TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[cfg(feature = "tls")]
type Secure = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// A connection to a collector.
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<Secure>),
}

impl Stream {
    /// Sets how long a read or a write may take.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(Some(timeout))?;
        self.socket().set_write_timeout(Some(timeout))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => match stream.read(buffer) {
                // Many close without saying so in TLS. Where an answer may end is said inside of it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                Err(error) if !is_timeout(&error) => last_words(stream, buffer, error),
                result => result,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// What was written may still be in memory before this.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// What the other side said before it went away, though it doesn't hear us any more: why, or an early answer.
#[cfg(feature = "tls")]
fn last_words(stream: &mut Secure, buffer: &mut [u8], error: io::Error) -> io::Result<usize> {
    while let Ok(1..) = stream.conn.read_tls(&mut stream.sock) {
        if let Err(said) = stream.conn.process_new_packets() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, said));
        }
    }
    match stream.conn.reader().read(buffer) {
        Ok(read @ 1..) => Ok(read),
        _ => Err(error),
    }
}

/// Nothing went wrong but that there was no time for it.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
