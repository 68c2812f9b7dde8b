//! TLS over a socket, one system call per read or write.
//!
//! The caller checks the deadline between two calls, so that a collector that sends single bytes
//! cannot hold it beyond the deadline, also during the handshake. A call that made progress but has
//! no result returns `WouldBlock`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

/// A TLS session and its socket.
pub(super) struct Secure {
    pub(super) connection: ClientConnection,
    pub(super) socket: TcpStream,
}

impl Secure {
    /// Sends buffered records with one system call.
    fn send(&mut self) -> io::Result<()> {
        if self.connection.wants_write() && self.connection.write_tls(&mut self.socket)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        if self.connection.wants_write() { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// Receives records with one system call; returns `false` at the end of the stream.
    fn receive(&mut self) -> io::Result<bool> {
        let read = self.connection.read_tls(&mut self.socket)?;
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the alert.
            let _ = self.connection.write_tls(&mut self.socket);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(read > 0)
    }

    fn plain(&mut self, buffer: &mut [u8]) -> Option<usize> {
        self.connection.reader().read(buffer).ok()
    }
}

impl Read for Secure {
    /// Reads decrypted bytes. A close without a TLS alert is an end as well: the answer itself has
    /// a length.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(read) = self.plain(buffer) {
            return Ok(read);
        }
        // A peer that closed the connection may have sent the reason before.
        let sent = self.send();
        match (self.receive(), sent) {
            (Ok(true), _) => self.plain(buffer).ok_or(ErrorKind::WouldBlock.into()),
            (Ok(false), Err(error)) if error.kind() != ErrorKind::WouldBlock => Err(error),
            (Ok(false), _) => Ok(self.plain(buffer).unwrap_or_default()),
            (Err(error), _) => Err(error),
        }
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?;
        if self.connection.is_handshaking() {
            return match self.receive()? {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Err(ErrorKind::UnexpectedEof.into()),
            };
        }
        self.connection.writer().write(bytes)
    }

    /// Sends buffered records.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
