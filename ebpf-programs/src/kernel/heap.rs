//! Memory that is allocated and not freed yet.
//!
//! ```text
//!   uprobe at malloc       sampled ──► walk, held record      OPENINGS[thread, stack pointer] = its time and CPU
//!   uretprobe              HELD[process, result] = OPENINGS[…]
//!   uprobe at free         HELD[process, argument] ──► end record
//!   realloc                HELD[process, argument] is taken out at the call, and ends at the return, unless it fails
//! ```
//!
//! Memory is taken out of the map before the allocator frees it: later another thread may have got the same address.

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_probe_read_user};
use aya_ebpf::programs::ProbeContext;
use ebpf_programs::abi::cookie::operand;
use ebpf_programs::abi::held::{Held, Key, Opening, cookie};
use ebpf_programs::abi::span;

use crate::arch::{PUSHED_BY_CALL, word};
use crate::context::Context;
use crate::event::{cookie, read};
use crate::maps::OPENINGS;
use crate::{budget, held, sample};

/// Begins an allocation. Returns `true` if it is sampled.
#[inline(always)]
pub(crate) fn allocate(context: &ProbeContext) -> bool {
    let start = budget::start();
    let cookie = cookie(context);
    let (event, role) = (cookie as u16, cookie >> cookie::ROLE_SHIFT & cookie::ROLE);
    let (first, size) = (context.word(word::FIRST), size(context, cookie));
    let mut opening = Opening { size, ..Opening::default() };
    if role == cookie::MOVES && first != 0 {
        opening.moved = held::remove(&key(event, first));
        opening.moved_from = first;
    }
    if role == cookie::WRITES {
        opening.out = first;
    }
    if size != 0 {
        match budget::weigh(event, size) {
            Some(value) => opening.value = value,
            None => budget::count_skipped(event, start),
        }
    }
    let opened = called_key(event, context);
    // SAFETY: the value is copied.
    if let Some(Opening { sample, moved, moved_from, .. }) = unsafe { OPENINGS.get(&opened) }.copied() {
        // Another of the functions jumped to this one, or never returned.
        let _ = OPENINGS.remove(&opened);
        if sample.time != 0 {
            held::end(&Held { pid: pid(), ..sample }, event as u32, 0);
        }
        if opening.moved.time == 0 {
            (opening.moved, opening.moved_from) = (moved, moved_from);
        }
    }
    if opening.value != 0 || opening.moved.time != 0 {
        // Fails for lack of memory only: then the memory counts until its process ends.
        let _ = OPENINGS.insert(opened, opening, 0);
    }
    opening.value != 0
}

/// Takes the sample of an allocation that [`allocate`] chose.
#[inline(always)]
pub(crate) fn walk(context: &ProbeContext) {
    let start = budget::start();
    let event = cookie(context) as u16;
    let Some(opening) = OPENINGS.get_ptr_mut(called_key(event, context)) else { return };
    // SAFETY: the value stays allocated while the program runs.
    let value = unsafe { (*opening).value };
    if let Some((time, cpu)) = sample::take_held(context, event, value) {
        // Looked up again, because registers are few.
        if let Some(opening) = OPENINGS.get_ptr_mut(called_key(event, context)) {
            // SAFETY: the value stays allocated while the program runs.
            unsafe {
                (*opening).sample.cpu = cpu;
                (*opening).sample.time = time;
            }
        }
    }
    budget::count_sample(event, start, value);
}

/// Ends the call of a function that allocates.
#[inline(always)]
pub(crate) fn allocated(context: &ProbeContext) {
    let event = cookie(context) as u16;
    let opened = opening_key(event, context.word(word::SP));
    // SAFETY: the value is copied.
    let Some(Opening { sample, moved, moved_from, out, size, .. }) =
        unsafe { OPENINGS.get(&opened) }.copied()
    else {
        return;
    };
    let _ = OPENINGS.remove(&opened);
    let address = address(context.word(word::RESULT), out);
    if moved.time != 0 {
        if address == 0 && size != 0 {
            // It failed, and the memory is still there.
            held::hold(&key(event, moved_from), &moved);
        } else {
            held::end(&moved, event as u32, 0);
        }
    }
    if sample.time != 0 {
        let key = key(event, address);
        let sample = Held { pid: key.owner, ..sample };
        if address == 0 {
            held::end(&sample, event as u32, 0);
        } else {
            held::hold(&key, &sample);
        }
    }
}

/// Handles the call of a function that frees its first argument.
#[inline(always)]
pub(crate) fn free(context: &ProbeContext) {
    let address = context.word(word::FIRST);
    if address != 0 {
        held::release(&key(cookie(context) as u16, address), 0);
    }
}

/// Returns the number of bytes that a call asks for, by its [cookie](cookie()).
#[inline(always)]
fn size(context: &ProbeContext, cookie: u64) -> u64 {
    let word = |shift: u32| cookie >> shift & operand::WORD;
    let size = read(context, word(operand::BASE_SHIFT) as usize * 8);
    let index = word(operand::INDEX_SHIFT);
    if index == operand::NONE { size } else { size.wrapping_mul(read(context, index as usize * 8)) }
}

/// Returns the address of the allocated memory; 0 if there is none.
#[inline(always)]
fn address(result: u64, out: u64) -> u64 {
    if out == 0 {
        return result;
    }
    let mut address = 0u64;
    if result as u32 == 0 {
        // SAFETY: `address` has eight bytes; the helper fails without a fault.
        unsafe { bpf_probe_read_user((&raw mut address).cast(), 8, out as *const _) };
    }
    address
}

#[inline(always)]
fn key(event: u16, address: u64) -> Key {
    Key { owner: pid(), event: event as u32, address }
}

#[inline(always)]
fn pid() -> u32 {
    // SAFETY: the helper has no conditions.
    (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32
}

/// Returns the key of a call that begins. Its return pops the return address, where a call pushes it.
#[inline(always)]
fn called_key(event: u16, context: &ProbeContext) -> span::Key {
    opening_key(event, context.word(word::SP) + PUSHED_BY_CALL)
}

#[inline(always)]
fn opening_key(event: u16, place: u64) -> span::Key {
    // SAFETY: the helper has no conditions.
    let tid = unsafe { bpf_get_current_pid_tgid() } as u32;
    span::Key { tid, event: event as u32, place }
}
