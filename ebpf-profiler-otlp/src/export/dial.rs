//! Name resolution and connection setup, on a thread because neither can be interrupted.
//!
//! ```text
//!   worker   ──► waits until the deadline ──► connection, or gives up and leaves the thread behind
//!   thread   ──► getaddrinfo ──► connect
//! ```
//!
//! At most one such thread exists per exporter: the next attempt first waits for the thread that
//! was left behind.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::{Deadline, Failure, POLL, failure, remaining};
use super::endpoint::Endpoint;

const RESOLVE: &str = "cannot resolve the host";
const CONNECT: &str = "cannot connect";

/// Opens connections to one host.
#[derive(Debug, Default)]
pub(super) struct Dialer {
    pending: Option<JoinHandle<()>>,
}

impl Dialer {
    /// Resolves the host and connects to the first address that accepts.
    pub(super) fn connect(
        &mut self,
        endpoint: &Endpoint,
        deadline: Deadline<'_>,
    ) -> Result<TcpStream, Failure> {
        while self.pending.as_ref().is_some_and(|thread| !thread.is_finished()) {
            std::thread::sleep(remaining(deadline, RESOLVE)?.min(POLL / 10));
        }
        let (sender, receiver) = channel();
        let is_resolved = Arc::new(AtomicBool::new(false));
        let (resolved, host, port, end) =
            (is_resolved.clone(), endpoint.host.clone(), endpoint.port, deadline());
        let thread = std::thread::Builder::new().name("otlp-connect".into());
        // The receiver is gone if the worker has given up.
        let run = move || drop(sender.send(connect(&host, port, end, &resolved)));
        self.pending = Some(thread.spawn(run).map_err(|error| Failure::Io(CONNECT, error))?);
        loop {
            let doing = if is_resolved.load(Relaxed) { CONNECT } else { RESOLVE };
            match receiver.recv_timeout(remaining(deadline, doing)?.min(POLL)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Io(doing, io::ErrorKind::Other.into()));
                }
            }
        }
    }
}

fn connect(host: &str, port: u16, end: Instant, is_resolved: &AtomicBool) -> Result<TcpStream, Failure> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| Failure::Io(RESOLVE, error))?;
    is_resolved.store(true, Relaxed);
    let addresses: Vec<_> = addresses.collect();
    let mut last = Failure::Io(CONNECT, io::ErrorKind::AddrNotAvailable.into());
    for (index, address) in addresses.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        // An address that does not answer leaves time for the others. A timeout of zero is an error.
        let share = (left / (addresses.len() - index) as u32).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = failure(CONNECT, error),
        }
    }
    Err(last)
}
