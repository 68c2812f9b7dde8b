//! The tables thread, which compiles the unwind tables of large files, and the rules thread, which derives rules of code
//! without unwind data.

use std::cell::RefCell;
use std::sync::Arc;

use crate::live::machine::priority::{self, Raised};
use crate::live::machine::reservation::Reserved;
use crate::registry::{BuildQueue, Pace, Registry};

/// Bytes of code from which on this thread compiles a file's table.
///
/// Compiling takes 0.5 to 1.6 ms per MiB of code, 2.8 ms for Go, if the file is in memory: less code than this is done within the
/// 250 ms between two batches, before another thread would have the CPU.
const MIN_CODE: u64 = 32 << 20;

/// Lets a registry queue large files.
pub(super) fn start_queue(registry: &mut Registry) -> Arc<BuildQueue> {
    let queue = Arc::new(BuildQueue::default());
    registry.build_with(queue.clone(), MIN_CODE);
    queue
}

/// Compiles tables until the registry is dropped. Samples wait for them, so the thread has a raised priority while it works, as
/// the pipeline thread has with raw samples.
pub(super) fn run(queue: &BuildQueue, reserved: Option<&Reserved>) {
    let raised: RefCell<Option<Raised>> = RefCell::default();
    queue.run(&|is_busy| {
        reserved.into_iter().for_each(|reserved| reserved.set_busy(is_busy));
        *raised.borrow_mut() = is_busy.then(priority::raised);
    });
}

/// Lets a registry queue files whose rules are to be derived.
pub(super) fn start_rules(registry: &mut Registry, pace: Pace) -> Arc<BuildQueue> {
    let queue = Arc::new(BuildQueue::default());
    registry.derive_with(queue.clone(), Arc::new(pace));
    queue
}

/// Derives rules until the registry is dropped. No sample waits for them, so the thread has no priority. In a reservation it
/// counts as idle, which limits its part to a twentieth of an active thread's, until it ends.
pub(super) fn run_rules(queue: &BuildQueue, reserved: Option<&Reserved>) {
    queue.run(&|_| reserved.into_iter().for_each(|reserved| reserved.set_busy(false)));
    reserved.into_iter().for_each(|reserved| reserved.set_busy(true));
}
