//! Signals that end a program: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! The first one ends the run early, and what was collected is still written or sent; a second one
//! ends the program at once. A signal that is ignored when the program starts, as SIGHUP is by
//! `nohup`, stays ignored.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Deadline in seconds for the rest of the program after the first signal.
const DEADLINE: libc::c_uint = 10;

/// Message at the deadline.
const LATE: &[u8] = b"error: not finished 10 s after the signal to end\n";

/// Handles the signals from now on.
pub fn notice_interrupts() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
            install(signal, handle);
        }
        install(libc::SIGALRM, give_up);
    });
}

/// Returns `true` after the first signal. The program then has 10 seconds to end.
pub fn interrupted() -> bool {
    notice_interrupts();
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Sleeps until `end` or the first signal, and calls `each` four times a second until it returns
/// `false`. Raises the priority of this thread then, for the rest of the program.
pub fn sleep_until_interrupted(end: Instant, mut each: impl FnMut() -> bool) {
    const STEP: Duration = Duration::from_millis(250);
    while !interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !each() {
            break;
        }
        std::thread::sleep(STEP.min(left));
    }
    raise_priority();
}

/// Raises the priority of this thread, if permitted: with the default one, the rest of the program
/// gets too little time on a busy machine to be done by its deadline.
fn raise_priority() {
    const NICENESS: libc::c_int = -10;
    // SAFETY: the call changes only the priority of this thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// The signals, blocked and waited for by a program that sleeps meanwhile.
#[must_use = "the signals are blocked until it is dropped"]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the signals in this thread and in those that it starts.
    pub fn hold() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the first call initializes the set, the others change it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: the set is initialized, and the previous one is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        Signals(set)
    }

    /// Waits for a signal. Returns `true` if one came within `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        let time = libc::timespec {
            tv_sec: at_most.as_secs().min(86_400) as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: set and time are valid for the call, and details of the signal are not requested.
        unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const time) > 0 }
    }
}

/// Unblocks the signals: the next one ends the program.
impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: as in `hold`.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.0, ptr::null_mut()) };
    }
}

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handlers store to an atomic and call functions that are safe in a handler.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes nothing and fills the action, which is valid as zeros too.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

extern "C" fn handle(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // SAFETY: these calls are safe in a handler.
    unsafe {
        libc::alarm(DEADLINE);
        for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

extern "C" fn give_up(_: libc::c_int) {
    // SAFETY: these calls are safe in a handler, and the message is as long as stated.
    unsafe {
        libc::write(libc::STDERR_FILENO, LATE.as_ptr().cast(), LATE.len());
        libc::_exit(1);
    }
}
