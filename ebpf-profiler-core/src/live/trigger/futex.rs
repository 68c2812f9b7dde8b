//! Waits for locks.

use std::time::Duration;

use ebpf_programs::abi::cookie;

use super::error::AttachError;
use super::tracepoint;
use crate::profile::{SampleKind, Unit};

/// The trigger of futex waits by nanoseconds, with the stack that waits: for mutexes, condition
/// variables and semaphores of most languages, and for the end of threads.
///
/// A wait counts when it ends, at its whole length. Waits that began before the profiler are not
/// counted. Needs tracefs, at `/sys/kernel/tracing`.
#[doc(alias("lock contention", "mutex"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Futex {
    pub(super) threshold: Duration,
}

impl Futex {
    /// Samples waits of at least `threshold`, at most 429 s. Shorter ones are dropped, so totals do
    /// not contain them.
    pub fn longer_than(threshold: Duration) -> Futex {
        Futex { threshold }
    }

    pub(super) fn kind() -> SampleKind {
        SampleKind::new("futex", Unit::Nanoseconds)
    }

    /// Returns the numbers of the tracepoints at the entry and at the exit of each system call,
    /// with the cookie.
    pub(super) fn location(&self) -> Result<Vec<([u64; 2], u64)>, AttachError> {
        // Later ones are not in each kernel.
        const CALLS: [(&str, bool); 3] = [("futex", true), ("futex_wait", false), ("futex_waitv", false)];
        let units = self.threshold.as_nanos().div_ceil(u128::from(cookie::THRESHOLD_UNIT));
        let units = u32::try_from(units)
            .map_err(|_| AttachError::invalid(format!("{:?} is longer than 429 s", self.threshold)))?;
        let mut found = Vec::new();
        for (call, has_operation) in CALLS {
            let id = |edge: &str| tracepoint::id("syscalls", &format!("sys_{edge}_{call}"));
            match (id("enter"), id("exit")) {
                (Ok(enter), Ok(exit)) => {
                    let cookie = u64::from(units) << cookie::VALUE_SHIFT
                        | u64::from(has_operation) << cookie::OPERATION_SHIFT;
                    found.push(([enter, exit], cookie));
                }
                (Err(what), _) | (_, Err(what)) if has_operation => return Err(what),
                _ => {}
            }
        }
        Ok(found)
    }
}
