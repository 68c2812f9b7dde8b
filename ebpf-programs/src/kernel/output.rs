//! Output of records to user space, with counters.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_ringbuf_discard,
    bpf_ringbuf_output, bpf_ringbuf_query, bpf_ringbuf_reserve,
};
use core::ffi::c_void;
use ebpf_programs::abi::config::Config;
use ebpf_programs::abi::held::Held;
use ebpf_programs::abi::reason::{Counter, Stop};
use ebpf_programs::abi::record::{End, Head, MAX_WORDS, kind};

use crate::maps::{CONFIG, COUNTERS, RING, WAKE};
use crate::scratch::{HEAD_WORDS, RECORD_WORDS, Scratch};
use crate::{cpu_buffer, slot};

/// The counters of one CPU.
pub(crate) struct Counters(*mut [u64; Counter::WORDS]);

impl Counters {
    /// Returns the counters of a [slot](crate::slot).
    #[inline(always)]
    pub(crate) fn of(slot: u32) -> Option<Counters> {
        COUNTERS.get_ptr_mut(slot).map(Counters)
    }

    /// Counts one lost event, outside of any slot. Only these counters are written by several programs.
    #[inline(always)]
    pub(crate) fn lose(cpu: u32, counter: Counter) {
        let Some(counters) = COUNTERS.get_ptr_mut(slot::lost_row(cpu)) else { return };
        // SAFETY: the index is in bounds, and the addition is atomic.
        unsafe { add_atomically(&raw mut (*counters)[counter as usize], 1) };
    }

    /// Counts one event that a filter drops at a switch, outside of any slot.
    #[inline(always)]
    pub(crate) fn filter(cpu: u32) {
        Counters::lose(cpu, Counter::Events);
        Counters::lose(cpu, Counter::Filtered);
    }

    /// Adds `count` to a counter.
    #[inline(always)]
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        // SAFETY: the value belongs to this slot; user space only reads it, a word at a time.
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

/// Sends the unwound stack in `scratch`. Returns `false` if it is lost.
#[inline(always)]
pub(crate) fn walked(scratch: &mut Scratch, config: &Config, counters: &Counters) -> bool {
    let (words, taken, flag) = (scratch.walk.words, scratch.walk.taken, scratch.flag);
    let head = scratch.head();
    head.kind = kind::WALKED | flag;
    head.user = words;
    head.taken = taken;
    if words > MAX_WORDS as u32 {
        head.user = MAX_WORDS as u32;
        head.omitted = words - MAX_WORDS as u32;
        if head.stop == Stop::Root as u8 || head.stop == Stop::Coroutine as u8 {
            head.stop = Stop::TooDeep as u8;
        }
    }
    let (cpu, user) = (head.cpu, head.user);
    counters.add(Counter::Frames, taken as u64);
    let words = scratch.user_at + user;
    let urgent = scratch.urgent != 0;
    let is_sent = if cpu_buffer::put(cpu, &scratch.record, words) {
        counters.sent(Counter::Samples, words);
        true
    } else {
        send(scratch, words, config, counters)
    };
    if take_second(scratch) {
        counters.add(Counter::Events, 1);
        send(scratch, words, config, counters);
    }
    if urgent {
        wake(counters);
    }
    is_sent
}

/// Wakes user space, unless it was woken and has not begun to read since. Then it reads the records that are there now.
#[inline(always)]
pub(crate) fn wake(counters: &Counters) {
    let Some(wake) = WAKE.get_ptr_mut(0) else { return };
    // SAFETY: the values stay allocated while the program runs. A locked operation makes the record visible before the number is
    // read. Two CPUs at once wake twice.
    unsafe {
        add_atomically(&raw mut (*counters.0)[Counter::Wakeups as usize], 0);
        let drains = (&raw const (*wake).drains).read_volatile();
        if (&raw const (*wake).woken).read_volatile() == drains {
            return;
        }
        // An interrupt that requests a wake-up now leaves it to this program.
        (&raw mut (*wake).woken).write_volatile(drains);
        let ring = (&raw const RING).cast_mut().cast();
        let record = bpf_ringbuf_reserve(ring, 8, 0);
        if record.is_null() {
            // The ring is full, or its lock taken in an interrupt: the next urgent record tries again.
            return (&raw mut (*wake).woken).write_volatile(drains.wrapping_sub(1));
        }
        bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP as u64);
    }
    counters.add(Counter::Wakeups, 1);
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

/// Sends the first `words` words of a walked record through the ring, or counts it as lost. Returns `false` if it is lost.
#[inline(always)]
fn send(scratch: &mut Scratch, words: u32, config: &Config, counters: &Counters) -> bool {
    let record = scratch.record.as_mut_ptr();
    // SAFETY: the record has that many words after the mask.
    unsafe { send_record(record, words & (RECORD_WORDS as u32 - 1), Counter::Samples, config, counters) }
}

/// Sends a record of `words` words through the ring and counts it as `counter`, or as lost. Returns `false` if it is lost.
///
/// # Safety
///
/// `record` has `words` words.
#[inline(always)]
pub(crate) unsafe fn send_record(
    record: *mut u64,
    words: u32,
    counter: Counter,
    config: &Config,
    counters: &Counters,
) -> bool {
    // SAFETY: the caller guarantees it.
    let Some(wakeups) = (unsafe { put_in_ring(record.cast(), words as u64 * 8, config) }) else {
        counters.add(Counter::RingFull, 1);
        return false;
    };
    counters.sent(counter, words);
    if wakeups > 0 {
        counters.add(Counter::Wakeups, wakeups);
    }
    true
}

/// Sends the end of a sample. Returns `false` if the ring is full.
///
/// Not inlined, because the record needs room on the stack.
#[inline(never)]
pub(crate) fn end(held: &Held, event: u32, value: u64) -> bool {
    let Some(config) = CONFIG.get(0) else { return true };
    // SAFETY: the helpers have no conditions.
    let (time, cpu, tid) =
        unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid() as u32) };
    let (kind, length) = (kind::END, HEAD_WORDS as u8);
    let head =
        Head { time, pid: held.pid, tid, cpu, kind, length, event: event as u16, value, ..Head::default() };
    let record = EndRecord { head, end: End { time: held.time, cpu: held.cpu, reserved: 0 } };
    // SAFETY: the record has its own size.
    unsafe { put_in_ring((&raw const record).cast_mut().cast(), size_of::<EndRecord>() as u64, config) }
        .is_some()
}

/// The end of a sample, as it is sent.
#[repr(C)]
struct EndRecord {
    head: Head,
    end: End,
}

/// Copies a record into the ring. Returns the number of wake-ups; `None` if the ring is full.
///
/// # Safety
///
/// `record` has `bytes` bytes.
#[inline(always)]
unsafe fn put_in_ring(record: *mut c_void, bytes: u64, config: &Config) -> Option<u64> {
    let ring = (&raw const RING).cast_mut().cast();
    // SAFETY: `RING` is a ring buffer map; the rest is guaranteed by the caller.
    unsafe {
        let wake = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA as u64) >= config.wakeup_bytes as u64;
        let flags = if wake { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
        let error = bpf_ringbuf_output(ring, record, bytes, flags as u64);
        (error == 0).then_some(wake as u64)
    }
}
