//! Events of the embedder's own programs, which call these walks last. See [`own`](ebpf_programs::abi::own).

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use ebpf_programs::abi::own::MAX_VALUE;
use ebpf_programs::abi::reason::Counter;

use crate::context::Context;
use crate::maps::OWN_EVENTS;
use crate::output::Counters;
use crate::{OWN_KINDS, sample};

/// Takes a sample with kind and value of the event of this context.
#[inline(always)]
pub(crate) fn take<C: Context>(context: &C) {
    let key = context.pointer() as u64;
    // SAFETY: the value is copied, and no other program has the same context.
    let event = unsafe { OWN_EVENTS.get(key) }.copied().unwrap_or_default();
    // It may not be there, which is an error below.
    let found = OWN_EVENTS.remove(key).is_ok();
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    let kinds = unsafe { (&raw const OWN_KINDS).read_volatile() };
    let is_kind = event.kind < u64::BITS && kinds >> (event.kind & 63) & 1 != 0;
    if !found || !is_kind || event.value > MAX_VALUE {
        // SAFETY: the helper has no conditions.
        return Counters::lose(unsafe { bpf_get_smp_processor_id() }, Counter::Invalid);
    }
    sample::take(context, event.kind as u16, event.value);
}
