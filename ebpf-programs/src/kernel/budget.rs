//! Sampling by periods, and the cost of samples. See [`budget`](ebpf_programs::abi::budget).
//!
//! The loader sets [`IS_GOVERNED`] and [`HAS_PERIODS`] before the programs are verified: without a budget or period, the verifier
//! removes this code.

use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_get_smp_processor_id, bpf_ktime_get_ns};
use ebpf_programs::abi::budget::{Cost, MAX_KINDS, TIMED};

use crate::maps::{COSTS, PERIODS};
use crate::output::add_atomically;
use crate::{HAS_PERIODS, IS_GOVERNED};

/// Returns `true` if the profiler has a budget, a constant for the verifier.
#[inline(always)]
pub(crate) fn is_governed() -> bool {
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    unsafe { (&raw const IS_GOVERNED).read_volatile() != 0 }
}

/// Returns `true` if a kind may have a period, a constant for the verifier.
#[inline(always)]
fn has_periods() -> bool {
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    unsafe { (&raw const HAS_PERIODS).read_volatile() != 0 }
}

/// Returns the current time for [`count_sample`] and [`count_idle`]; 0 without a budget.
#[inline(always)]
pub(crate) fn start() -> u64 {
    // SAFETY: the helper has no conditions.
    if is_governed() { unsafe { bpf_ktime_get_ns() } } else { 0 }
}

/// Returns the value of a sample of an event with a value; `None` if the event is not sampled.
#[inline(always)]
pub(crate) fn weigh(event: u16, value: u64) -> Option<u64> {
    if !has_periods() {
        return Some(value);
    }
    let Some(period) = PERIODS.get(event as u32) else { return Some(value) };
    // SAFETY: user space writes the word at once.
    let period = unsafe { core::ptr::from_ref(period).read_volatile() };
    if value >= period {
        return Some(value);
    }
    // SAFETY: the helper has no conditions.
    let random = unsafe { (bpf_get_prandom_u32() as u64) << 32 | bpf_get_prandom_u32() as u64 };
    (random % period.max(1) < value).then_some(period)
}

/// Counts a sample of kind number `event` that was begun at `start`.
#[inline(always)]
pub(crate) fn count_sample(event: u16, start: u64, value: u64) {
    if let Some(cost) = cost(event) {
        // SAFETY: the pointers are those of fields of a map value, and the additions are atomic.
        unsafe {
            add_atomically(&raw mut (*cost).samples, 1);
            add_atomically(&raw mut (*cost).time, bpf_ktime_get_ns().saturating_sub(start));
            add_atomically(&raw mut (*cost).value, value);
        }
    }
}

/// Counts an event of kind number `event` that was skipped.
#[inline(always)]
pub(crate) fn count_skipped(event: u16, start: u64) {
    if let Some(cost) = cost(event) {
        // SAFETY: as above.
        unsafe { add_atomically(&raw mut (*cost).skipped, 1) };
    }
    count_idle(event, start);
}

/// Adds the time since `start` to that of events without a sample, for one of [`TIMED`].
#[inline(always)]
pub(crate) fn count_idle(event: u16, start: u64) {
    // The last bits of the time are random enough.
    if !is_governed() || start % TIMED != 0 {
        return;
    }
    if let Some(cost) = cost(event) {
        // SAFETY: as above.
        unsafe {
            add_atomically(&raw mut (*cost).idle, bpf_ktime_get_ns().saturating_sub(start) * TIMED);
        }
    }
}

/// Returns the costs of a kind on this CPU; `None` without a budget.
#[inline(always)]
fn cost(event: u16) -> Option<*mut Cost> {
    if !is_governed() {
        return None;
    }
    // SAFETY: the helper has no conditions.
    let costs = COSTS.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })?;
    // SAFETY: the index is in bounds after the mask.
    Some(unsafe { &raw mut (*costs)[event as usize & (MAX_KINDS - 1)] })
}
