//! Who comes first when every CPU is busy.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use std::io;
use std::marker::PhantomData;

const THIS_THREAD: libc::id_t = 0;

/// Lets this thread run before ordinary ones, where that is permitted.
///
/// It is for the thread that empties the kernel's buffers: it has next to nothing to do, but when it comes late
/// the ring is full, and ticks are lost.
pub(super) fn raise() {
    const NICENESS: i32 = -10;
    if niceness().is_ok_and(|niceness| niceness <= NICENESS) {
        return;
    }
    // SAFETY: the call changes nothing but when this thread runs.
    // Without the privilege the thread stays as it is.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, NICENESS) };
}

/// Lets this thread run before ordinary ones as long as it is held.
///
/// It is for the start: what runs until the clocks tick is not in any profile, and with every CPU busy a fair
/// share would be half of the time or less.
pub(super) fn raised() -> Raised {
    let before = niceness().ok();
    if before.is_some() {
        raise();
    }
    Raised { before, _of_this_thread: PhantomData }
}

/// A thread that comes first for a while.
#[must_use = "the thread goes back when this is dropped"]
pub(super) struct Raised {
    before: Option<i32>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the call changes nothing but when this thread runs.
            // To come later is always permitted.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, before) };
        }
    }
}

/// How far back this thread stands.
fn niceness() -> io::Result<i32> {
    // SAFETY: the C library keeps one error number for each thread. Minus one is an answer too, so it has to be
    // told from a failure by that number.
    let answer = unsafe {
        *libc::__errno_location() = 0;
        libc::getpriority(libc::PRIO_PROCESS, THIS_THREAD)
    };
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(0) => Ok(answer),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_back_to_where_it_was() {
        let before = niceness().unwrap();
        let raised = raised();
        assert!(niceness().unwrap() <= before);
        drop(raised);
        assert_eq!(niceness().unwrap(), before);
    }
}
