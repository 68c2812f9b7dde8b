//! Interrupts a wait for events.

use std::io::{self, PipeReader, PipeWriter, Write};

use rustix::fs::{OFlags, fcntl_setfl};

/// Interrupts a wait for events.
#[derive(Debug)]
pub(in crate::live) struct Waker(PipeWriter);

impl Waker {
    /// Returns a waker, and the pipe that is readable once it was used.
    pub(in crate::live) fn new() -> io::Result<(PipeReader, Waker)> {
        let (wake, waker) = io::pipe()?;
        // No thread reads after the end of the events, and threads of the program wake.
        fcntl_setfl(&waker, OFlags::NONBLOCK)?;
        Ok((wake, Waker(waker)))
    }

    /// Returns another waker of the same wait.
    pub(in crate::live) fn try_clone(&self) -> io::Result<Waker> {
        self.0.try_clone().map(Waker)
    }

    /// Ends the current or the next wait.
    pub(in crate::live) fn wake(&self) {
        // Without a reader there is no wait; a full pipe wakes.
        let _ = (&self.0).write(&[0]);
    }
}
