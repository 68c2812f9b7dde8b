//! Raw records: registers and a copy of the stack, unwound in user space once the tables are ready.

use aya_ebpf::bindings::BPF_RB_AVAIL_DATA;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user, bpf_ringbuf_query};
use ebpf_programs::abi::config::{Config, MIN_COPY, RAW_SENT as RAW_SENT_SETS, max_copy};
use ebpf_programs::abi::reason::{Counter, Stop};
use ebpf_programs::abi::record::{Head, MAX_COPY, MAX_RAW_WORDS, MAX_STEPS, kind};
use ebpf_programs::abi::registers::Registers;
use ebpf_programs::abi::uretprobe::{MAX_INSTANCES, ReplacedReturn};
use ebpf_programs::walk::Walk;
use ebpf_programs::walk::arch::Arch as _;

use crate::arch::Native;
use crate::drive::{self, Step};
use crate::maps::{PROCESSES, RAW_RECORDS, RAW_SENT, RING};
use crate::output::{self, Counters};
use crate::scratch::{FRONT, PAGE, RECORD_WORDS, Scratch, thread_pointer, walkers};
use crate::slot;
use crate::uretprobe;

/// Words of eight bytes in a raw record; a power of two, so that an index can be masked.
const RAW_WORDS: usize = 16384;

/// Buffer for a raw record, followed by room for a page after any masked index: for two, as the verifier knows the size only by its
/// mask.
pub(crate) type RawRecord = [u64; RAW_WORDS + 2 * PAGE / 8];

/// Words of eight bytes in the registers.
const REGISTER_WORDS: u32 = (size_of::<Registers>() / 8) as u32;

/// Returns `true` if a walk that ended with `stop` may succeed later in user space.
#[inline(always)]
fn is_retriable(stop: Stop) -> bool {
    matches!(stop, Stop::UnknownProcess | Stop::Pending | Stop::Unmapped)
}

/// Returns the maximum number of bytes of stack in a raw sample of a process whose walk ended with `stop`, and claims a buffer for
/// it. Returns `None` if no raw sample is to be sent, also while the ring is nearly full, or the buffers are in use: a late user space
/// then loses callers, but no samples.
#[inline(always)]
pub(crate) fn grant(scratch: &mut Scratch, config: &Config, stop: Stop) -> Option<u32> {
    if !is_retriable(stop) {
        return None;
    }
    let (pid, now) = (scratch.head().pid, scratch.head().time);
    let share = share_of_room(config);
    if share < MIN_COPY || !take_budget(pid, stop, &scratch.walk) {
        return None;
    }
    let most = if scratch.walk.takes_raw_budget(stop) {
        MAX_COPY as u32
    } else {
        // A process that has thousands of events while its tables are built must not displace the samples of others.
        max_copy(count(pid, now), config.full_copies)
    };
    let most = if share < most { share } else { most };
    if most < MIN_COPY {
        return None;
    }
    scratch.copy.buffer = slot::claim_raw(scratch.head().cpu)?;
    Some(most)
}

/// Returns the maximum number of bytes that one raw sample takes of the room in the ring.
#[inline(always)]
fn share_of_room(config: &Config) -> u32 {
    // SAFETY: the ring is a ring.
    let waiting = unsafe { bpf_ringbuf_query((&raw const RING).cast_mut().cast(), BPF_RB_AVAIL_DATA as u64) };
    let size = config.wakeup_bytes as u64 * 4;
    (size.saturating_sub(waiting) / 32) as u32
}

/// Counts a raw sample of a process. Returns the number of those before it in the window.
#[inline(always)]
fn count(pid: u32, now: u64) -> u32 {
    let Some(set) = RAW_SENT.get_ptr_mut(pid % RAW_SENT_SETS) else { return 0 };
    // SAFETY: the value stays allocated while the program runs; a lost update grants one sample more.
    unsafe { (*set).count(pid, now) }
}

/// Takes one raw sample from the budget of a process. Returns `false` if the budget is used up.
///
/// Only samples in no mapping, and those in memory of a runtime that cannot be walked yet, are limited. Most such addresses
/// are in a mapping that user space is about to publish. For the others each raw sample would copy the stack in vain, so
/// user space sets a budget.
#[inline(always)]
fn take_budget(pid: u32, stop: Stop, walk: &Walk) -> bool {
    if !walk.takes_raw_budget(stop) {
        return true;
    }
    let Some(process) = PROCESSES.get_ptr_mut(pid) else { return true };
    // SAFETY: the value stays allocated while the program runs; a lost update grants one sample more.
    let raw_budget = unsafe { &mut (*process).raw_budget };
    let granted = *raw_budget > 0;
    if granted {
        *raw_budget -= 1;
    }
    granted
}

/// Sends a raw record with at most `most` bytes of stack through the buffer that was claimed, and releases that. The walk's
/// registers must have been refilled, because the walk has changed them. Returns `false` if the record is lost.
#[inline(always)]
pub(crate) fn send<const SET: u32>(
    scratch: &mut Scratch,
    config: &Config,
    counters: &Counters,
    most: u32,
) -> bool {
    let at = scratch.user_at & FRONT as u32;
    let registers = (&raw mut scratch.record[at as usize]).cast::<Registers>();
    // SAFETY: behind at most 511 words the record has room for registers.
    unsafe {
        *registers = scratch.walk.registers;
        (*registers).thread = thread_pointer().unwrap_or(0);
        (*registers).pc = original_pc((*registers).pc);
    }
    let from = scratch.walk.registers.values[Native::SP];
    let user = interpreter_frames::<SET>(scratch, at + REGISTER_WORDS);
    let at = at + REGISTER_WORDS + user;
    let (limit, buffer) = (limit(at, most), scratch.copy.buffer);
    scratch.copy = Copy { from, at, buffer, limit, reached: 0, copied: 0, trampoline: 0, instance: 0 };
    drive::drive::<Pages>(scratch);
    restore_returns(scratch);
    let (Copy { at, copied, .. }, flag) = (&scratch.copy, scratch.flag);
    let (at, copied) = (*at, *copied);
    let head = scratch.head();
    head.kind = kind::RAW | flag;
    head.user = user;
    head.copied = (copied / 8) as u16;
    let is_sent = send_copied(scratch, at + copied / 8, config, counters);
    slot::release_raw(buffer);
    is_sent
}

/// Sends a record of `words` words whose stack is in its buffer. Returns `false` if it is lost.
#[inline(always)]
fn send_copied(scratch: &mut Scratch, words: u32, config: &Config, counters: &Counters) -> bool {
    let Some(record) = RAW_RECORDS.get_ptr_mut(scratch.copy.buffer) else { return false };
    let (record, words) = (record.cast::<u64>(), words & (RAW_WORDS as u32 - 1));
    let before = (scratch.copy.at & (RECORD_WORDS as u32 - 1)) * 8;
    // SAFETY: the buffer is claimed, and has as many words as either mask allows; a head has any bits.
    unsafe {
        bpf_probe_read_kernel(record.cast(), before, scratch.record.as_ptr().cast());
        let is_sent = output::send_record(record, words, Counter::Raw, config, counters);
        if output::take_second(scratch) {
            *record.cast::<Head>() = *scratch.head();
            counters.add(Counter::Events, 1);
            output::send_record(record, words, Counter::Raw, config, counters);
        }
        output::wake(counters);
        is_sent
    }
}

/// Returns the address of the instruction at `pc`, or of the one whose copy it is.
#[inline(always)]
fn original_pc(pc: u64) -> u64 {
    match uretprobe::page() {
        Some(page) if page == pc & !(PAGE as u64 - 1) => uretprobe::original_instruction(pc).unwrap_or(pc),
        _ => pc,
    }
}

/// Writes the original return addresses over those that uretprobes have replaced in the copied stack.
#[inline(always)]
fn restore_returns(scratch: &mut Scratch) {
    let Some(page) = uretprobe::page() else { return };
    scratch.copy.trampoline = page;
    scratch.copy.instance = uretprobe::first().unwrap_or(0);
    if scratch.copy.instance != 0 {
        drive::drive::<Returns>(scratch);
    }
}

/// Return addresses that uretprobes have replaced.
struct Returns;

impl Step for Returns {
    const COUNT: u32 = MAX_INSTANCES;

    /// Visits one instance.
    #[inline(always)]
    fn step(scratch: &mut Scratch, _: u32) -> bool {
        let Some(ReplacedReturn { stack, address, next }) = uretprobe::instance(scratch.copy.instance) else {
            return false;
        };
        let offset = stack.wrapping_sub(scratch.copy.from);
        if offset & 7 == 0 && offset < scratch.copy.copied as u64 {
            let trampoline = scratch.copy.trampoline;
            let Some(record) = RAW_RECORDS.get_ptr_mut(scratch.copy.buffer) else { return false };
            let at = (scratch.copy.at + (offset / 8) as u32) as usize & (RAW_WORDS - 1);
            // SAFETY: the buffer is claimed.
            let word = unsafe { &mut (*record)[at] };
            // Several uretprobes of one call have an instance each, and a jump out of calls leaves theirs.
            if *word == trampoline {
                *word = address;
            }
        }
        scratch.copy.instance = next;
        next != 0
    }

    #[cfg(feature = "kernel_5_10")]
    #[inline(always)]
    fn turn(slot: u32, index: u32) -> u32 {
        global::turn_returns(slot, index)
    }
}

/// Writes the interpreter frames of the process into the record at word `at`. Returns their number of words.
#[inline(always)]
fn interpreter_frames<const SET: u32>(scratch: &mut Scratch, at: u32) -> u32 {
    scratch.user_at = at;
    if SET != 0 && walkers() != 0 && scratch.walk.begin_interpreter_frames() {
        drive::drive::<InterpreterFrames<SET>>(scratch);
    }
    // Masked for the verifier; the value exceeds the limit by one frame at most.
    scratch.walk.words & (2 * MAX_RAW_WORDS - 1)
}

/// Interpreter frames of the process.
struct InterpreterFrames<const SET: u32>;

impl<const SET: u32> Step for InterpreterFrames<SET> {
    const COUNT: u32 = MAX_STEPS;

    /// Takes at most one frame.
    #[inline(always)]
    fn step(scratch: &mut Scratch, _: u32) -> bool {
        let machine = (&raw mut *scratch).cast::<Scratch<SET>>();
        // SAFETY: the walk reads and writes its own fields, the machine all others; both are plain memory of one map value
        // that belongs to this CPU.
        !scratch.walk.step_interpreter_frames(unsafe { &mut *machine })
    }

    #[cfg(feature = "kernel_5_10")]
    #[inline(always)]
    fn turn(slot: u32, index: u32) -> u32 {
        match SET {
            crate::scratch::LISTS => global::turn_list_frames(slot, index),
            _ => global::turn_all_frames(slot, index),
        }
    }
}

/// Returns the maximum number of bytes of stack to copy: `most`, but no more than fit into the record from word `at` on.
#[inline(always)]
fn limit(at: u32, most: u32) -> u32 {
    // Interpreter frames already occupy up to a quarter of it.
    let left = (RAW_WORDS as u32 - 1).saturating_sub(at) * 8;
    if most > left { left } else { most }
}

/// Progress of the copy of the stack.
#[repr(C)]
pub(crate) struct Copy {
    from: u64,
    at: u32,
    /// Index of the buffer.
    buffer: u32,
    /// Number of bytes that were tried.
    reached: u32,
    /// Number of bytes up to the end of the last readable page.
    copied: u32,
    limit: u32,
    /// Address that uretprobes write over return addresses; 0 for none.
    trampoline: u64,
    /// Address of the next [instance](ebpf_programs::abi::uretprobe); 0 at the end.
    instance: u64,
}

/// Maximum size of unreadable memory between two parts of a stack: pages of a large frame that its function hasn't touched.
const MAX_HOLE: u32 = 24 * PAGE as u32;

/// Pages of the stack.
struct Pages;

impl Step for Pages {
    const COUNT: u32 = (MAX_COPY / PAGE + 1) as u32;

    /// Copies the rest of one page. A page that cannot be read is all zeros.
    #[inline(always)]
    fn step(scratch: &mut Scratch, _: u32) -> bool {
        let reached = scratch.copy.reached;
        let from = scratch.copy.from + reached as u64;
        let left = scratch.copy.limit.saturating_sub(reached);
        let page = PAGE as u32 - (from as u32 & (PAGE as u32 - 1));
        let size = if page < left { page } else { left } & !7;
        if size == 0 {
            return false;
        }
        let at = (scratch.copy.at + reached / 8) as usize & (RAW_WORDS - 1);
        let Some(record) = RAW_RECORDS.get_ptr_mut(scratch.copy.buffer) else { return false };
        // SAFETY: the buffer is claimed.
        let to = unsafe { (&raw mut (*record)[at]).cast() };
        scratch.copy.reached = reached + size;
        // SAFETY: the record has room for a page after every masked index; a failing read does not fault, and writes zeros.
        if unsafe { bpf_probe_read_user(to, size & 0x1fff, from as *const _) } == 0 {
            scratch.copy.copied = reached + size;
            return true;
        }
        reached != 0 && scratch.copy.reached - scratch.copy.copied <= MAX_HOLE
    }

    #[cfg(feature = "kernel_5_10")]
    #[inline(always)]
    fn turn(slot: u32, index: u32) -> u32 {
        global::turn_pages(slot, index)
    }
}

#[cfg(feature = "kernel_5_10")]
mod global {
    use super::{InterpreterFrames, Pages, Returns};
    use crate::drive::global;
    use crate::scratch::{ALL, LISTS};

    global!(InterpreterFrames<LISTS>, step_list_frames, turn_list_frames);
    global!(InterpreterFrames<ALL>, step_all_frames, turn_all_frames);
    global!(Pages, step_pages, turn_pages);
    global!(Returns, step_returns, turn_returns);
}
