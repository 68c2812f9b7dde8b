//! Spans: the time from one event of a thread to another, as the value of the other.
//!
//! ```text
//!   uprobe at a function          SPANS[thread, kind, stack pointer] = now
//!   uretprobe                     value = now - SPANS[…]
//!   fentry at a function          SPANS[thread, kind, context] = now: a call's programs have the same context
//!   fexit                         value = now - SPANS[…]
//!   sys_enter_futex               SPANS[thread, kind, 0] = now, for operations that wait
//!   sys_exit_futex                value = now - SPANS[…], threshold
//! ```

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::programs::{ProbeContext, TracePointContext};
use ebpf_programs::abi::cookie;
use ebpf_programs::abi::span::Key;

use crate::arch::{PUSHED_BY_CALL, word};
use crate::context::Context;
use crate::event::{cookie, read};
use crate::maps::SPANS;
use crate::sample;

/// Begins the span of a function.
#[inline(always)]
pub(crate) fn enter(context: &ProbeContext) {
    // The return pops the return address, where a call pushes it.
    begin(key(context, context.word(word::SP) + PUSHED_BY_CALL));
}

/// Ends the span of a function, and takes a sample of its time.
#[inline(always)]
pub(crate) fn leave(context: &ProbeContext) {
    let key = key(context, context.word(word::SP));
    if let Some(time) = end(&key) {
        sample::take(context, key.event as u16, time);
    }
}

/// Begins the span of a system call that waits.
#[inline(always)]
pub(crate) fn call(context: &TracePointContext) {
    /// Byte offset of the operation in the event, if it has one.
    const OPERATION: usize = 24;
    let (key, cookie) = (key(context, 0), cookie(context));
    if cookie >> cookie::OPERATION_SHIFT & 1 == 1 && !is_wait(read(context, OPERATION)) {
        return;
    }
    begin(key);
}

/// Ends the span of a system call, and takes a sample of its time if that is not below the threshold.
#[inline(always)]
pub(crate) fn answer(context: &TracePointContext) {
    let (key, cookie) = (key(context, 0), cookie(context));
    let threshold = (cookie >> cookie::VALUE_SHIFT) * cookie::THRESHOLD_UNIT;
    if let Some(time) = end(&key)
        && time >= threshold
    {
        sample::take(context, key.event as u16, time);
    }
}

/// Returns `true` for operations of a futex that wait: those of the kernel's interface, without flags.
#[inline(always)]
fn is_wait(operation: u64) -> bool {
    const WAIT: u64 = 0;
    const LOCK_PI: u64 = 6;
    const WAIT_BITSET: u64 = 9;
    const WAIT_REQUEUE_PI: u64 = 11;
    const LOCK_PI2: u64 = 13;
    const COMMANDS: u64 = 0x7f;
    const WAITS: u64 = 1 << WAIT | 1 << LOCK_PI | 1 << WAIT_BITSET | 1 << WAIT_REQUEUE_PI | 1 << LOCK_PI2;
    let command = operation & COMMANDS;
    command < 64 && WAITS >> (command & 63) & 1 == 1
}

/// Returns the key of a span of this thread, of the kind of the link that runs the program.
#[inline(always)]
pub(crate) fn key<C: Context>(context: &C, place: u64) -> Key {
    // SAFETY: the helper has no conditions.
    let tid = unsafe { bpf_get_current_pid_tgid() } as u32;
    Key { tid, event: cookie(context) as u16 as u32, place }
}

/// Begins a span.
#[inline(always)]
pub(crate) fn begin(key: Key) {
    // SAFETY: the helper has no conditions.
    let now = unsafe { bpf_ktime_get_ns() };
    // Fails for lack of memory only: then the end finds no beginning.
    let _ = SPANS.insert(key, now, 0);
}

/// Returns the time since the beginning of a span; `None` if that was before the profiler's.
#[inline(always)]
pub(crate) fn end(key: &Key) -> Option<u64> {
    // SAFETY: the value is copied.
    let start = unsafe { SPANS.get(key) }.copied()?;
    let _ = SPANS.remove(key);
    // SAFETY: the helper has no conditions.
    Some(unsafe { bpf_ktime_get_ns() }.saturating_sub(start))
}
