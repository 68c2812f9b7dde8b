//! Output through the per-CPU buffer.

use core::arch::asm;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use ebpf_programs::abi::cpu_buffer::{MAX_RECORD_WORDS, WORDS};

use crate::arch;
use crate::maps::CPU_BUFFERS;
use crate::scratch::Record;
use crate::slot;

/// Copies the first `words` words of `record` into the buffer of `cpu`. Returns `false` if they do not fit, or if an
/// interrupted program writes to it.
#[inline(always)]
pub(crate) fn put(cpu: u32, record: &Record, words: u32) -> bool {
    if !slot::claim_buffer(cpu) {
        return false;
    }
    let is_done = put_alone(cpu, record, words);
    slot::release_buffer(cpu);
    is_done
}

#[inline(always)]
fn put_alone(cpu: u32, record: &Record, words: u32) -> bool {
    let Some(buffer) = CPU_BUFFERS.get_ptr_mut(cpu) else { return false };
    // SAFETY: the value belongs to this CPU and is claimed; user space only writes `read`.
    let (written, read) = unsafe { ((*buffer).written, (&raw const (*buffer).read).read_volatile()) };
    let taken = written.wrapping_sub(read);
    if words >= MAX_RECORD_WORDS as u32 || taken >= (WORDS - MAX_RECORD_WORDS) as u64 {
        return false;
    }
    let at = written as usize & (WORDS - 1);
    let bytes = bounded(words) as u32 * 8;
    // SAFETY: `at` is followed by room for an entry of the maximum length; the record has at least `bytes` bytes. The
    // position is written last.
    unsafe {
        (*buffer).words[at] = words as u64;
        bpf_probe_read_kernel((&raw mut (*buffer).words[at + 1]).cast(), bytes, record.as_ptr().cast());
        arch::publish(&raw mut (*buffer).written, written + 1 + words as u64);
    }
    true
}

/// Returns a number of words below the maximum, masked where the compiler can't see it: it would prove the bound and drop the mask,
/// which older verifiers need.
#[inline(always)]
fn bounded(words: u32) -> u64 {
    let mut bounded = words as u64;
    // SAFETY: an operation on one register.
    unsafe {
        asm!("{words} &= {mask}", words = inout(reg) bounded, mask = const MAX_RECORD_WORDS as u64 - 1);
    }
    bounded
}
