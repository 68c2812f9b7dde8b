//! Ctrl-C ends a run early, and what was seen is still written.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user pressed Ctrl-C, or asked the program to end. A second time ends it at once.
pub fn interrupted() -> bool {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let handler = handle as extern "C" fn(libc::c_int);
            // SAFETY: the handler does nothing but store to an atomic and reset itself.
            unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
        }
    });
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Sleeps until `end`, or until the user pressed Ctrl-C; calls `each` four times a second.
pub fn sleep_until_interrupted(end: Instant, mut each: impl FnMut()) {
    const STEP: Duration = Duration::from_millis(250);
    while !interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        each();
        std::thread::sleep(STEP.min(left));
    }
}

extern "C" fn handle(signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // SAFETY: allowed in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
