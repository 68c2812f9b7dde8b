//! Ctrl-C ends a run early, and what was seen is still written.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C, or who else asks the program to end, be noticed from now on: what takes long to start is ended
/// as well as what runs.
pub fn notice_interrupts() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let handler = handle as extern "C" fn(libc::c_int);
            // SAFETY: the handler does nothing but store to an atomic and reset itself.
            unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
        }
    });
}

/// Whether the user pressed Ctrl-C, or asked the program to end. A second time ends it at once.
pub fn interrupted() -> bool {
    notice_interrupts();
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Sleeps until `end`, until the user presses Ctrl-C, or until `goes_on`, called four times a second, returns `false`.
pub fn sleep_until_interrupted(end: Instant, mut goes_on: impl FnMut() -> bool) {
    const STEP: Duration = Duration::from_millis(250);
    while !interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !goes_on() {
            break;
        }
        std::thread::sleep(STEP.min(left));
    }
}

/// The signals that ask a program to end, for one that waits for them: it sleeps until one comes.
#[must_use = "held until it is dropped"]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Holds them from now on, in this thread and in those that it starts.
    pub fn hold() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the first call fills the set in, the others change it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: the set is whole, and what was held before isn't asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        Signals(set)
    }

    /// Waits for one for so long; whether one came.
    pub fn wait(&self, at_most: Duration) -> bool {
        let time = libc::timespec {
            tv_sec: at_most.as_secs().min(86_400) as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: set and time are valid for the call, and what it could say of the signal isn't asked for.
        unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const time) > 0 }
    }
}

/// The next one ends the program.
impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: as when they were held.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.0, ptr::null_mut()) };
    }
}

extern "C" fn handle(signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // SAFETY: allowed in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
