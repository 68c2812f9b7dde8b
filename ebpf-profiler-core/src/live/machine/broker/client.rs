//! The side of the profiler.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use super::BrokerStats;
use super::message::{MAX_ANSWER, decode_answer, encode_request};
use super::socket;
use crate::live::machine::access::{Opened, Request};

/// Asks a broker.
///
/// A thread that asks has a connection alone, so a request that is not answered stalls no other.
#[derive(Debug)]
pub(in crate::live) struct Client {
    /// Takes connections; closed by the end of the broker.
    socket: OwnedFd,
    idle: Mutex<Vec<OwnedFd>>,
    has_ended: AtomicBool,
    answered: AtomicU64,
    unanswered: AtomicU64,
}

/// Maximum number of connections without a request. The broker has a thread for each.
const MAX_IDLE: usize = 3;

impl Client {
    pub(super) fn new(socket: OwnedFd) -> Client {
        Client {
            socket,
            idle: Mutex::default(),
            has_ended: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        }
    }

    /// Waits until the broker is ready. Returns `false` if it ends or is not ready in time.
    pub(super) fn wait_for_start(&self, deadline: Duration) -> bool {
        let time = Timespec { tv_sec: deadline.as_secs() as i64, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let is_ready =
            rustix::io::retry_on_intr(|| poll(&mut polled, Some(&time))).is_ok_and(|ready| ready > 0);
        is_ready && socket::receive(&self.socket, &mut [0; 8]).is_ok_and(|(length, _)| length > 0)
    }

    /// Returns `true` until the broker has ended.
    pub(in crate::live) fn is_running(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed)
    }

    /// Ends the broker.
    pub(super) fn close(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.has_ended.store(true, Ordering::Relaxed);
        self.idle().clear();
    }

    /// Asks the broker, and waits for its answer as long as it takes.
    pub(in crate::live::machine) fn ask(&self, request: &Request) -> io::Result<Opened> {
        if !self.is_running() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let request = encode_request(request).ok_or(io::ErrorKind::InvalidInput)?;
        match self.exchange(&request) {
            Ok(answer) => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                answer
            }
            Err(error) => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
                self.check();
                Err(error)
            }
        }
    }

    /// Returns the counters.
    pub(in crate::live) fn stats(&self) -> BrokerStats {
        self.check();
        BrokerStats {
            is_running: self.is_running(),
            answered: self.answered.load(Ordering::Relaxed),
            unanswered: self.unanswered.load(Ordering::Relaxed),
        }
    }

    /// Sends a request and receives its answer, which may be an error of the broker's.
    fn exchange(&self, request: &[u8]) -> io::Result<io::Result<Opened>> {
        let connection = self.connection()?;
        socket::send(&connection, request, None)?;
        let mut answer = [0; MAX_ANSWER];
        let (length, descriptor) = socket::receive(&connection, &mut answer)?;
        if length == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(decode_answer(&answer[..length], descriptor))
    }

    fn connection(&self) -> io::Result<OwnedFd> {
        if let Some(connection) = self.idle().pop() {
            return Ok(connection);
        }
        let (ours, theirs) = socket::pair()?;
        socket::send(&self.socket, &[1], Some(theirs.as_fd()))?;
        Ok(ours)
    }

    /// Notes the end of the broker.
    fn check(&self) {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0) {
            self.has_ended.store(true, Ordering::Relaxed);
            self.idle().clear();
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
