//! One sample, from the event to the record.

use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_get_stack, bpf_ktime_get_ns,
};
use ebpf_programs::abi::config::{FRAME_NANOS, STEPS_PER_LOOK};
use ebpf_programs::abi::mapping::filter;
use ebpf_programs::abi::reason::{Counter, Stop};
use ebpf_programs::abi::record::{Head, MAX_KERNEL_FRAMES, MAX_STEPS, kind};

use crate::arch::{self, Native};
use crate::context::Context;
use crate::drive::{self, Step};
use crate::maps::{CONFIG, PROCESSES, SCRATCH};
use crate::output::{self, Counters};
use crate::scratch::{ALL, HEAD_WORDS, Scratch, walkers};
use crate::{budget, filter as filters, labels, life, raw, slot, time_limit, user_registers};

/// Takes one sample of kind number `event` with a value, or none because of the [budget].
#[inline(always)]
pub(crate) fn take<C: Context>(context: &C, event: u16, value: u64) {
    take_with::<C, ALL>(context, event, value);
}

/// As [`take`], without the code of other walkers than those in `SET`, a bit for each.
#[inline(always)]
pub(crate) fn take_with<C: Context, const SET: u32>(context: &C, event: u16, value: u64) {
    let start = budget::start();
    let Some(value) = budget::weigh(event, value) else {
        return budget::count_skipped(event, start);
    };
    take_both::<C, SET>(context, event, value, 0);
    budget::count_sample(event, start, value);
}

/// Takes one sample of kind number `event` with the value `first`, and one of the next kind with the value `second` and the same
/// stack if that is not 0.
#[inline(always)]
pub(crate) fn take_two<C: Context>(context: &C, event: u16, first: u64, second: u64) {
    take_both::<C, ALL>(context, event, first, second);
}

/// As [`take_two`], with the walkers of [`take_with`].
#[inline(always)]
fn take_both<C: Context, const SET: u32>(context: &C, event: u16, first: u64, second: u64) {
    // SAFETY: the helper has no conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    match slot::claim(cpu) {
        Some(slot) => {
            take_in::<C, SET>(slot, cpu, context, event, [first, second], 0);
            slot::release(slot);
        }
        None => Counters::lose(cpu, slot::loss(cpu)),
    }
}

/// Takes one sample that is [held](ebpf_programs::abi::held) until its end, whatever the [budget]. Returns time and CPU of its
/// record; `None` if there is none.
#[inline(always)]
pub(crate) fn take_held<C: Context>(context: &C, event: u16, value: u64) -> Option<(u64, u32)> {
    // SAFETY: the helper has no conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(slot) = slot::claim(cpu) else {
        Counters::lose(cpu, slot::loss(cpu));
        return None;
    };
    let is_sent = take_in::<C, ALL>(slot, cpu, context, event, [value, 0], kind::HELD);
    let scratch = SCRATCH.get_ptr_mut(slot);
    // SAFETY: the value belongs to this slot, which is claimed.
    let time = scratch.map_or(0, |scratch| unsafe { (*scratch).head().time });
    slot::release(slot);
    is_sent.then_some((time, cpu))
}

/// Takes one sample with the state of a slot. Returns `true` if it was sent.
#[inline(always)]
fn take_in<C: Context, const SET: u32>(
    slot: u32,
    cpu: u32,
    context: &C,
    event: u16,
    [value, second]: [u64; 2],
    flag: u8,
) -> bool {
    // SAFETY: the helper has no conditions.
    let ids = unsafe { bpf_get_current_pid_tgid() };
    let pid = (ids >> 32) as u32;
    let (Some(counters), Some(config)) = (Counters::of(slot), CONFIG.get(0)) else { return false };
    counters.add(Counter::Events, 1);
    if filters::drops(context, cpu) {
        counters.add(Counter::Filtered, 1);
        return false;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(slot) else { return false };
    // SAFETY: the value belongs to this slot, which is claimed.
    let scratch = unsafe { &mut *scratch };
    #[cfg(feature = "kernel_5_10")]
    {
        scratch.slot = slot;
    }
    // Read before any table offset: rules cached under this generation are from tables that are published by now.
    // SAFETY: the settings outlive the sample, and user space writes them word by word.
    let tables = unsafe { (&raw const config.table_generation).read_volatile() };
    arch::order_reads(&mut scratch.walk_end);
    // SAFETY: the value is copied; a torn one has the number of a state of another process.
    let known = unsafe { PROCESSES.get(pid) }.copied();
    scratch.begin(known.unwrap_or_default(), tables);
    if pid == config.excluded_pid || scratch.walk.process.filter != filter::KEEP {
        counters.add(Counter::Filtered, 1);
        return false;
    }
    if known.is_none() && life::is_unwanted(pid) {
        counters.add(Counter::Filtered, 1);
        return false;
    }
    let kernel = if context.hit_user_code() { 0 } else { kernel_stack(context, scratch) };
    scratch.user_at = HEAD_WORDS + kernel;
    let epoch = scratch.walk.process.epoch;
    head(scratch.head(), ids, cpu, kernel, epoch);
    (scratch.head().event, scratch.head().value) = (event, value);
    (scratch.second, scratch.flag) = (second, flag);
    let stop = if !user_registers::fill(context, &mut scratch.walk.registers, &mut scratch.saved) {
        Stop::NoUserStack
    } else if known.is_none() {
        Stop::UnknownProcess
    } else {
        labels::read(scratch);
        scratch.walk_end = time_limit::end(config, pid, scratch.head().time);
        walk::<SET>(scratch)
    };
    if let Stop::TooSlow = stop {
        time_limit::note(pid, scratch.head().time);
    }
    scratch.head().stop = stop as u8;
    match raw::grant(scratch, config, stop) {
        Some(most) => {
            // Refilled, because the walk has changed them.
            user_registers::fill(context, &mut scratch.walk.registers, &mut scratch.saved);
            raw::send::<SET>(scratch, config, &counters, most)
        }
        None => output::walked(scratch, config, &counters),
    }
}

/// Writes the head of the record.
#[inline(always)]
fn head(head: &mut Head, ids: u64, cpu: u32, kernel: u32, epoch: u32) {
    let (pid, tid) = ((ids >> 32) as u32, ids as u32);
    // SAFETY: the helper has no conditions.
    let time = unsafe { bpf_ktime_get_ns() };
    let length = HEAD_WORDS as u8;
    *head = Head { time, pid, tid, cpu, kernel: kernel as u8, length, epoch, ..Head::default() };
    // SAFETY: the helper writes at most the 16 bytes that it is given.
    unsafe { bpf_get_current_comm((&raw mut head.comm).cast(), 16) };
}

/// Copies the kernel stack into the record, after the head. Returns its number of frames.
#[inline(always)]
fn kernel_stack<C: Context>(context: &C, scratch: &mut Scratch) -> u32 {
    let at = (&raw mut scratch.record[HEAD_WORDS as usize]).cast();
    let flags = context.skipped_frames() as u64 & 0xff;
    // SAFETY: the record has room for that many frames after its head.
    let bytes = unsafe { bpf_get_stack(context.pointer(), at, (MAX_KERNEL_FRAMES * 8) as u32, flags) };
    if bytes < 0 { 0 } else { (bytes as u32 / 8) & 127 }
}

/// Walks the user stack from the registers in `scratch`. Returns the stop reason.
#[inline(always)]
fn walk<const SET: u32>(scratch: &mut Scratch) -> Stop {
    scratch.stop = Stop::TooLong as u32;
    // The kernel removes an unused function at once, but unused parts of a function one by one, which takes longer. A global function is
    // verified even if it is unused.
    if SET == ALL && walkers() == 0 && cfg!(not(feature = "kernel_5_10")) {
        drive::drive::<Frames<0>>(scratch);
    } else {
        drive::drive::<Frames<SET>>(scratch);
    }
    Stop::from_number(scratch.stop as u8).unwrap_or(Stop::BadTable)
}

/// Steps of the walk.
struct Frames<const SET: u32>;

impl<const SET: u32> Step for Frames<SET> {
    const COUNT: u32 = MAX_STEPS;

    /// Takes one step and a run of plain frames.
    #[inline(always)]
    fn step(scratch: &mut Scratch, index: u32) -> bool {
        let allowed = scratch.walk.taken as u64 * FRAME_NANOS;
        // SAFETY: the helper has no conditions.
        if index % STEPS_PER_LOOK == STEPS_PER_LOOK - 1
            && unsafe { bpf_ktime_get_ns() } > scratch.walk_end + allowed
        {
            scratch.stop = Stop::TooSlow as u32;
            return false;
        }
        let machine = (&raw mut *scratch).cast::<Scratch<SET>>();
        // SAFETY: the walk reads and writes its own fields, the machine all others; both are plain memory of one
        // map value that belongs to this CPU.
        let stop = scratch.walk.step::<Native, _>(unsafe { &mut *machine });
        match stop {
            // SAFETY: as above.
            None => scratch.walk.run::<Native, _>(unsafe { &mut *machine }),
            Some(stop) => scratch.stop = stop as u32,
        }
        stop.is_none()
    }

    #[cfg(feature = "kernel_5_10")]
    #[inline(always)]
    fn turn(slot: u32, index: u32) -> u32 {
        match SET {
            0 => global::turn_native(slot, index),
            crate::scratch::LISTS => global::turn_lists(slot, index),
            _ => global::turn_all(slot, index),
        }
    }
}

#[cfg(feature = "kernel_5_10")]
mod global {
    use super::Frames;
    use crate::drive::global;
    use crate::scratch::{ALL, LISTS};

    global!(Frames<0>, step_native, turn_native);
    global!(Frames<LISTS>, step_lists, turn_lists);
    global!(Frames<ALL>, step_all, turn_all);
}
