//! Scheduling priority of the profiler's threads.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use std::io;
use std::marker::PhantomData;

const THIS_THREAD: libc::id_t = 0;

/// Raises the priority of this thread above the default, if permitted.
///
/// For all threads at the end, and for the drain thread: it has little work, but if it runs late
/// the ring is full and samples are lost.
pub(in crate::live) fn raise() {
    const NICENESS: i32 = -10;
    if niceness().is_ok_and(|niceness| niceness <= NICENESS) {
        return;
    }
    // SAFETY: the call changes only the priority of this thread.
    // Without the privilege it has no effect.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, NICENESS) };
}

/// Gives this thread the default priority, unless it has a lower one: it has the one of the thread that
/// started it.
pub(in crate::live) fn reset() {
    const NICENESS: i32 = 0;
    if niceness().is_ok_and(|niceness| niceness < NICENESS) {
        // SAFETY: as in `raise`. Lowering it is always permitted.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, NICENESS) };
    }
}

/// Raises the priority of this thread above the default until the result is dropped.
///
/// For the start: nothing is sampled before it is done, and on a busy machine a thread of default
/// priority gets half of a CPU or less.
pub(in crate::live) fn raised() -> Raised {
    let before = niceness().ok();
    if before.is_some() {
        raise();
    }
    Raised { before, _of_this_thread: PhantomData }
}

/// A raised priority of this thread.
#[must_use = "the priority is restored when this is dropped"]
pub(in crate::live) struct Raised {
    before: Option<i32>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the call changes only the priority of this thread.
            // Lowering it is always permitted.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, before) };
        }
    }
}

/// Returns the nice value of this thread.
fn niceness() -> io::Result<i32> {
    // SAFETY: `errno` is local to the thread. -1 is a valid nice value, so only `errno` tells a
    // failure.
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
    fn priority_is_restored() {
        let before = niceness().unwrap();
        let raised = raised();
        assert!(niceness().unwrap() <= before);
        drop(raised);
        assert_eq!(niceness().unwrap(), before);
    }

    #[test]
    fn thread_has_the_default_priority_after_a_reset() {
        let niceness_after = |before: i32| {
            let thread = std::thread::spawn(move || {
                // SAFETY: the call changes only the priority of this thread.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, before) };
                // Not all may be permitted.
                let set = niceness().unwrap();
                reset();
                (set, niceness().unwrap())
            });
            thread.join().unwrap()
        };
        for (set, after) in [-10, 0, 5].map(niceness_after) {
            assert_eq!(after, set.max(0));
        }
    }
}
