//! Pipes and character devices.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Refused;

/// Longest time without progress.
const STALLED: Duration = Duration::from_secs(10);

/// A pipe or a character device, opened for writing.
///
/// A write fails with [`Refused::Stalled`] once the reader has taken no byte for 10 seconds.
#[derive(Debug)]
pub struct Stream(File);

impl Stream {
    /// Takes a descriptor that was opened with `O_NONBLOCK`.
    pub(super) fn new(descriptor: OwnedFd) -> Stream {
        Stream(descriptor.into())
    }

    /// Writes all that `write` produces.
    ///
    /// # Errors
    ///
    /// Fails if `write` does, or the stream.
    pub fn write_with(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        super::write_all(self, write)
    }

    fn wait(&self) -> io::Result<()> {
        let end = Instant::now() + STALLED;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&timeout)) {
                Ok(0) => return Err(Refused::Stalled.into()),
                Err(Errno::INTR) => {}
                other => return other.map(drop).map_err(io::Error::from),
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
