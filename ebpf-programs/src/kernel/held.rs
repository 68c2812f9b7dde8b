//! Samples that are held until their end. See [`held`](ebpf_programs::abi::held).
//!
//! An end that cannot be sent stays in the map, and is sent when its address is used or freed again.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use ebpf_programs::abi::held::{Held, Key};
use ebpf_programs::abi::reason::Counter;

use crate::maps::HELD;
use crate::output::{self, Counters};

/// Holds a sample. The former one of the key, whose end was not seen, ends without a value.
///
/// Not inlined, because it needs room on the stack.
#[inline(never)]
pub(crate) fn hold(key: &Key, held: &Held) -> u32 {
    // SAFETY: the value is copied.
    if let Some(former) = unsafe { HELD.get(key) }.copied() {
        end(&former, key.event, former.ended.saturating_sub(1));
    }
    if HELD.insert(key, held, 0).is_err() {
        end(held, key.event, 0);
        lose(Counter::Unheld);
    }
    0
}

/// Ends the sample of a key with a value, if there is one.
#[inline(always)]
pub(crate) fn release(key: &Key, value: u64) {
    // SAFETY: the value is copied.
    let Some(held) = (unsafe { HELD.get(key) }).copied() else { return };
    let value = if held.ended == 0 { value } else { held.ended - 1 };
    if held.time == 0 || output::end(&held, key.event, value) {
        let _ = HELD.remove(key);
    } else {
        let _ = HELD.insert(key, Held { ended: value + 1, ..held }, 0);
        lose(Counter::UnsentEnds);
    }
}

/// Removes the sample of a key without an end. Returns one with time 0 if there is none.
#[inline(always)]
pub(crate) fn remove(key: &Key) -> Held {
    // SAFETY: the value is copied.
    let held = unsafe { HELD.get(key) }.copied().unwrap_or_default();
    if held.time != 0 {
        let _ = HELD.remove(key);
    }
    held
}

/// Ends a sample that is in no map with a value, unless it was not taken.
#[inline(always)]
pub(crate) fn end(held: &Held, event: u32, value: u64) {
    if held.time != 0 && !output::end(held, event, value) {
        lose(Counter::UnsentEnds);
    }
}

#[inline(always)]
fn lose(counter: Counter) {
    // SAFETY: the helper has no conditions.
    Counters::lose(unsafe { bpf_get_smp_processor_id() }, counter);
}
