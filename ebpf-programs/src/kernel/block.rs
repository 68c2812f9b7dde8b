//! Latency of disks.
//!
//! ```text
//!   block_bio_queue      walk, held record      HELD[bio] = its time and CPU, now
//!   block_rq_complete    each complete bio of the request ─┐
//!   block_bio_complete   devices without requests          ├─ HELD[bio] ──► end record, value = now - since, threshold
//! ```
//!
//! With a [budget], a bio is sampled with a probability in proportion to the mean latency, as its own isn't known yet, and counts
//! the more.

use core::ffi::c_long;

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_kernel};
use aya_ebpf::programs::RawTracePointContext;
use ebpf_programs::abi::held::{Held, Key};

#[cfg(feature = "kernel_5_10")]
use crate::context::Context as _;
use crate::drive::repeat;
use crate::maps::{BLOCK, HELD};
use crate::{budget, held, sample};

/// Index of the bio in the arguments of `block_bio_complete`.
const COMPLETED: usize = 1;

/// Indices in the arguments of `block_rq_complete`.
const REQUEST: usize = 0;
const BYTES: usize = 2;

/// Maximum number of bios of a request.
const MAX_BIOS: u32 = 1024;

/// The number of latencies over which their mean is taken.
const WINDOW: u64 = 16;

/// Begins a request. Returns `true` if it is sampled.
#[inline(always)]
pub(crate) fn issue(context: &RawTracePointContext) -> bool {
    let start = budget::start();
    let Some(settings) = BLOCK.get(0) else { return false };
    let (event, mean) = (settings.event as u16, settings.mean | 1);
    let Some(value) = budget::weigh(event, mean) else {
        budget::count_skipped(event, start);
        return false;
    };
    // SAFETY: the helpers have no conditions.
    let (since, pid) = unsafe { (bpf_ktime_get_ns(), (bpf_get_current_pid_tgid() >> 32) as u32) };
    let held = Held { pid, since, weight: (value << 16) / mean, ..Held::default() };
    let key = Key { owner: 0, event: event as u32, address: issued(context) };
    held::hold(&key, &held);
    // Without an entry too many are held, and the loss is counted.
    HELD.get_ptr_mut(&key).is_some()
}

/// Takes the sample of a thread that issues a request.
#[inline(always)]
pub(crate) fn walk(context: &RawTracePointContext) {
    let start = budget::start();
    let Some(settings) = BLOCK.get(0) else { return };
    let (event, mean) = (settings.event as u16, settings.mean | 1);
    let taken = sample::take_held(context, event, 0);
    let key = Key { owner: 0, event: event as u32, address: issued(context) };
    let Some(held) = HELD.get_ptr_mut(&key) else { return };
    // SAFETY: the value stays allocated while the program runs, and the request is not issued yet.
    let weight = unsafe {
        if let Some((time, cpu)) = taken {
            (*held).cpu = cpu;
            (*held).time = time;
        }
        (*held).weight
    };
    budget::count_sample(event, start, (weight >> 8).wrapping_mul(mean) >> 8);
}

/// Returns the bio in the arguments of `block_bio_queue`. It follows the queue in kernels before 5.11.
#[inline(always)]
fn issued(context: &RawTracePointContext) -> u64 {
    #[cfg(feature = "kernel_5_10")]
    // SAFETY: it is a constant; volatile, because the loader has replaced it.
    if unsafe { (&raw const crate::HAS_QUEUE).read_volatile() } != 0 {
        // SAFETY: the event has two arguments then. Volatile, or the compiler would merge the two reads into one at a selected address,
        // which the verifier rejects.
        return unsafe { context.pointer().cast::<u64>().add(1).read_volatile() };
    }
    context.arg(0)
}

/// Ends the sample of a bio.
#[inline(always)]
pub(crate) fn complete(context: &RawTracePointContext) {
    end(context.arg(COMPLETED));
}

/// Ends the samples of the bios of a request that are complete by the number of bytes in the event.
#[inline(always)]
pub(crate) fn finish(context: &RawTracePointContext) {
    let Some(settings) = BLOCK.get(0) else { return };
    let bytes: u64 = context.arg(BYTES);
    let bio = read(context.arg(REQUEST), settings.request_bio);
    let mut state = Bios { bio, left: bytes as u32 as u64 };
    repeat(MAX_BIOS, &mut state, end_next);
}

/// The bios of a request that are left, and the number of bytes that are complete.
struct Bios {
    bio: u64,
    left: u64,
}

/// Ends the sample of one bio. Returns 0 to continue.
extern "C" fn end_next(_: u32, bios: *mut Bios) -> c_long {
    // SAFETY: the pointer is that to the state on the stack of `finish`.
    let bios = unsafe { &mut *bios };
    let Some(settings) = BLOCK.get(0) else { return 1 };
    if bios.bio == 0 {
        return 1;
    }
    let size = read(bios.bio, settings.bio_size) as u32 as u64;
    if size > bios.left {
        return 1;
    }
    bios.left -= size;
    end_one(bios.bio);
    bios.bio = read(bios.bio, settings.bio_next);
    0
}

/// Ends the sample of a bio. A global function in the object for 5.10, because a loop calls it: see [drive](crate::drive).
#[cfg_attr(feature = "kernel_5_10", unsafe(no_mangle), inline(never))]
#[cfg_attr(not(feature = "kernel_5_10"), inline(always))]
extern "C" fn end_one(bio: u64) -> u32 {
    end(bio);
    0
}

#[inline(always)]
fn end(bio: u64) {
    let Some(settings) = BLOCK.get_ptr_mut(0) else { return };
    // SAFETY: the value stays allocated while the program runs, and user space writes it before the programs run.
    let (event, threshold) = unsafe { ((*settings).event as u32, (*settings).threshold) };
    let key = Key { owner: 0, event, address: bio };
    // SAFETY: the value is copied.
    let Some(Held { since, weight, .. }) = (unsafe { HELD.get(&key) }).copied() else { return };
    // SAFETY: the helper has no conditions.
    let latency = unsafe { bpf_ktime_get_ns() }.saturating_sub(since);
    // SAFETY: as above; a lost update of the mean does no harm.
    unsafe { (*settings).mean = ((*settings).mean * (WINDOW - 1) + latency) / WINDOW };
    // In two parts, so that hours of nanoseconds do not overflow.
    let value = latency * (weight >> 16) + (latency * (weight & 0xffff) >> 16);
    held::release(&key, if latency < threshold { 0 } else { value });
}

/// Returns the word at byte offset `at` of an object of the kernel; 0 if it is not readable.
#[inline(always)]
fn read(object: u64, at: u32) -> u64 {
    let mut word = 0u64;
    // SAFETY: `word` has eight bytes; the helper fails without a fault.
    unsafe { bpf_probe_read_kernel((&raw mut word).cast(), 8, object.wrapping_add(at as u64) as *const _) };
    word
}
