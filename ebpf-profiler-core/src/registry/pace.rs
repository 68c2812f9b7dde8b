//! The pace of work that nobody waits for.
#![cfg_attr(
    not(any(feature = "live", test)),
    expect(dead_code, reason = "only a live profiler derives rules")
)]

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::until::IsOver;
use crate::elf::ReadAt;

/// Interval at which a thread that waits looks for the end.
const CHECK: Duration = Duration::from_millis(20);

/// Limits the work of one thread to a share of a CPU.
#[derive(Debug)]
pub(crate) struct Pace {
    share: f64,
    /// Time that may be spent at first.
    credit: Duration,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    spent: Duration,
    /// Start of the work that is not in `spent`.
    since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(share: f64, credit: Duration) -> Pace {
        Pace {
            share,
            credit,
            begun: Instant::now(),
            state: Mutex::new(State { spent: Duration::ZERO, since: None }),
        }
    }

    /// Counts the time since the last call as work, and waits until no more than the share is spent.
    fn keep(&self, is_over: &IsOver) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stop();
        while self.excess(state.spent, self.begun.elapsed()) && !is_over() {
            std::thread::sleep(CHECK);
        }
        state.since = Some(Instant::now());
    }

    /// Counts the end of the work.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stop();
    }

    fn excess(&self, spent: Duration, elapsed: Duration) -> bool {
        spent > self.credit + elapsed.mul_f64(self.share)
    }
}

impl State {
    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.spent += since.elapsed();
        }
    }
}

/// A file whose reads keep a pace.
pub(super) struct Paced {
    pub(super) source: Box<dyn ReadAt>,
    pub(super) pace: Arc<Pace>,
    pub(super) is_over: IsOver,
}

impl ReadAt for Paced {
    fn size(&self) -> io::Result<u64> {
        self.source.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.pace.keep(&self.is_over);
        self.source.read_at(offset, buffer)
    }
}

#[test]
fn work_beyond_the_credit_has_a_share_of_the_time() {
    let pace = Pace::new(0.01, Duration::from_secs(2));
    let excess = |spent, elapsed| pace.excess(Duration::from_secs(spent), Duration::from_secs(elapsed));
    assert!(!excess(2, 0) && excess(3, 0) && excess(3, 99) && !excess(3, 100) && !excess(12, 1000));
}

#[test]
fn waiting_ends_with_the_profiler() {
    let pace = Pace::new(0.0, Duration::ZERO);
    let is_over: IsOver = Arc::new(|| true);
    pace.keep(&is_over);
    std::thread::sleep(Duration::from_millis(1));
    pace.keep(&is_over);
    pace.end();
    assert!(pace.excess(pace.state.lock().unwrap().spent, pace.begun.elapsed()));
}
