//! Bytes through TLS, a step at a time.
//!
//! Whoever reads or writes looks at the time between two steps: a collector that sends a byte now and then must not
//! keep us for as long as it likes, in the handshake either. So a step is one system call, and where that
//! isn't enough the answer is that there is nothing yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

/// A connection, and the socket below it.
pub(super) struct Secure {
    pub(super) connection: ClientConnection,
    pub(super) socket: TcpStream,
}

impl Secure {
    /// Sends some of what waits to be sent.
    fn send(&mut self) -> io::Result<()> {
        if self.connection.wants_write() && self.connection.write_tls(&mut self.socket)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        if self.connection.wants_write() { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// Takes some of what came in; false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        let read = self.connection.read_tls(&mut self.socket)?;
        if let Err(error) = self.connection.process_new_packets() {
            // The other side is told why, if it still listens.
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
    /// Many close without saying so in TLS, which is an end as well. Where an answer may end is said inside of it.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(read) = self.plain(buffer) {
            return Ok(read);
        }
        // One who doesn't hear us any more may have said why before.
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

    /// What was written may still be in memory before this.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
