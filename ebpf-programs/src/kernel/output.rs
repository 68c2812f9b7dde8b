//! Output of records to user space, with counters.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::{bpf_ringbuf_output, bpf_ringbuf_query};
use ebpf_programs::abi::config::Config;
use ebpf_programs::abi::reason::{Counter, Stop};
use ebpf_programs::abi::record::{MAX_WORDS, kind};

use crate::cpu_buffer;
use crate::maps::{COUNTERS, RING};
use crate::scratch::{RECORD_WORDS, Scratch};

/// The counters of one CPU.
pub(crate) struct Counters(*mut [u64; Counter::WORDS]);

impl Counters {
    /// Returns the counters of a [slot](crate::level).
    #[inline(always)]
    pub(crate) fn of(slot: u32) -> Option<Counters> {
        COUNTERS.get_ptr_mut(slot).map(Counters)
    }

    /// Counts one lost event, outside of any level. Only these counters are written by several programs.
    #[inline(always)]
    pub(crate) fn lose(cpu: u32, counter: Counter) {
        let Some(counters) = COUNTERS.get_ptr_mut(cpu) else { return };
        // SAFETY: the index is in bounds, and the addition is atomic.
        unsafe { add_atomically(&raw mut (*counters)[counter as usize], 1) };
    }

    /// Counts one event that a filter drops at a switch, outside of any level: no sample is interrupted by a switch.
    #[inline(always)]
    pub(crate) fn filter(cpu: u32) {
        Counters::lose(cpu, Counter::Events);
        Counters::lose(cpu, Counter::Filtered);
    }

    /// Adds `count` to a counter.
    #[inline(always)]
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        // SAFETY: the value belongs to this level of the CPU; user space only reads it, a word at a time.
        unsafe { (*self.0)[counter as usize] += count };
    }

    /// Counts a record of `words` words, as `counter`.
    #[inline(always)]
    fn sent(&self, counter: Counter, words: u32) {
        self.add(counter, 1);
        self.add(Counter::Bytes, words as u64 * 8);
    }
}

/// Adds to a word of a map value in one atomic operation.
///
/// # Safety
///
/// `word` is in a map value.
#[inline(always)]
pub(crate) unsafe fn add_atomically(word: *mut u64, count: u64) {
    // SAFETY: the word is writable, as the caller guarantees.
    unsafe {
        core::arch::asm!("lock *(u64 *)({word} + 0) += {count}", word = in(reg) word, count = in(reg) count);
    }
}

/// Sends the unwound stack in `scratch`.
#[inline(always)]
pub(crate) fn walked(scratch: &mut Scratch, config: &Config, counters: &Counters) {
    let (words, taken) = (scratch.walk.words, scratch.walk.taken);
    let head = scratch.head();
    head.kind = kind::WALKED;
    head.user = words;
    head.taken = taken;
    if words > MAX_WORDS as u32 {
        head.user = MAX_WORDS as u32;
        head.omitted = words - MAX_WORDS as u32;
        if head.stop == Stop::Root as u8 {
            head.stop = Stop::TooDeep as u8;
        }
    }
    let (cpu, user) = (head.cpu, head.user);
    counters.add(Counter::Frames, taken as u64);
    let words = scratch.user_at + user;
    let urgent = scratch.urgent != 0;
    if !urgent && cpu_buffer::put(cpu, &scratch.record, words) {
        counters.sent(Counter::Samples, words);
    } else {
        send(scratch, words, urgent, Counter::Samples, config, counters);
    }
    if take_second(scratch) {
        counters.add(Counter::Events, 1);
        send(scratch, words, false, Counter::Samples, config, counters);
    }
}

/// Turns the record into that of the next kind. Returns `false` if there is none.
#[inline(always)]
pub(crate) fn take_second(scratch: &mut Scratch) -> bool {
    let second = scratch.second;
    let head = scratch.head();
    head.event += 1;
    head.value = second;
    second != 0
}

/// Sends the first `words` words of the record through the ring and counts it as `counter`, or as lost.
#[inline(always)]
pub(crate) fn send(
    scratch: &mut Scratch,
    words: u32,
    urgent: bool,
    counter: Counter,
    config: &Config,
    counters: &Counters,
) {
    let record = scratch.record.as_mut_ptr();
    let bytes = (words as u64 & (RECORD_WORDS as u64 - 1)) * 8;
    let ring = (&raw const RING).cast_mut().cast();
    // SAFETY: `RING` is a ring buffer map, and the record has at least `bytes` bytes.
    let (wake, error) = unsafe {
        let wake = urgent || bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA as u64) >= config.wakeup_bytes as u64;
        let flags = if wake { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
        (wake, bpf_ringbuf_output(ring, record.cast(), bytes, flags as u64))
    };
    if error != 0 {
        return counters.add(Counter::RingFull, 1);
    }
    counters.sent(counter, words);
    if wake {
        counters.add(Counter::Wakeups, 1);
    }
}
