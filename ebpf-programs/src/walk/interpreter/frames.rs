//! The frames of one list or array.

use super::array;
use super::state::phase;
use crate::abi::interpreter::{
    CHECK_WORDS, FRAME_BYTES, MAX_INTERPRETER_FRAMES, NO_CHECK, fold, position, run, walker,
};
use crate::abi::record::frame;
use crate::machine::Machine;
use crate::walk::Walk;
use crate::walk::identity::texts;

/// Words of eight bytes that are read of a frame.
const WORDS: usize = FRAME_BYTES / 8;

/// Takes the next frame. Returns `None` if it is unreadable, or beyond the limit.
#[inline(always)]
pub(super) fn take<M: Machine>(walk: &mut Walk, machine: &mut M, slot: usize) -> Option<()> {
    let at = walk.interpreter.next[slot];
    if at == 0 {
        walk.interpreter.phase = phase::BEHIND;
        return Some(());
    }
    if walk.interpreter.taken >= MAX_INTERPRETER_FRAMES {
        return None;
    }
    let frames = walk.interpreter.loaded.frames;
    let object = machine.read_object(at, frames.size)?;
    let part = |offset: u32| object[(offset / 8) as usize & (WORDS - 1)];
    let byte = part(frames.end) >> (frames.end % 8 * 8) & 0xff;
    let marked = frames.run != run::ONE && byte as u32 & frames.end_mask >= frames.end_value;
    let is_array = walk.interpreter.walker == walker::ARRAY && M::has_walker(walker::ARRAY);
    let caller = if is_array { array::caller(&walk.interpreter, at, slot) } else { part(frames.caller) };
    let function = part(frames.function) & frames.function_mask & frame::ADDRESS;
    let place = part(frames.position);
    walk.interpreter.next[slot] = caller;
    if frames.run == run::ONE || marked {
        walk.interpreter.phase = phase::BEHIND;
    }
    if marked && frames.run >= run::BEFORE_MARKED {
        let is_base = frames.run == run::BEFORE_MARKED_TO_BASE && caller == 0;
        if is_base && walk.interpreter.loaded.others.head != 0 {
            // The list is over, so the loop runs frames of another one.
            walk.interpreter.search_others();
        }
        return Some(());
    }
    let place = match frames.position_kind {
        position::ADDRESS => place.wrapping_sub(function) as u32,
        _ => (place >> (frames.position % 8 * 8)) as u32,
    };
    let check = check_of(walk, machine, function)?;
    emit(walk, machine, function, check, place);
    walk.interpreter.taken += 1;
    Some(())
}

/// Returns the check of a function, which one walk reads once for a row of frames. Returns `None` if it is unreadable.
#[inline(always)]
pub(in crate::walk) fn check_of<M: Machine>(walk: &mut Walk, machine: &mut M, function: u64) -> Option<u32> {
    if walk.interpreter.loaded.frames.check == NO_CHECK {
        return Some(0);
    }
    if let Some(check) = walk.checked.get(function) {
        return Some(check as u32);
    }
    let check = read_check(walk, machine, function)?;
    walk.checked.keep(function, check as u64);
    Some(check)
}

/// Reads the check of a function.
#[inline(always)]
fn read_check<M: Machine>(walk: &mut Walk, machine: &mut M, function: u64) -> Option<u32> {
    let start = function.wrapping_add(walk.interpreter.loaded.frames.check as u64);
    match walk.interpreter.loaded.check_words {
        contents if contents > CHECK_WORDS => {
            texts::check(machine, start, contents, u32::MAX, &mut walk.checked.text)
        }
        // Not eight bytes, which may not be mapped.
        0 => Some(machine.read_object(start, 4)?[0] as u32),
        words => {
            // Masked, because the verifier of 6.1 derives no bound otherwise.
            let words = words & CHECK_WORDS;
            let object = machine.read_object(start, words * 8)?;
            Some(fold(&[object[0], object[1], object[2]], words))
        }
    }
}

/// Emits an interpreter frame.
#[inline(always)]
pub(super) fn emit<M: Machine>(walk: &mut Walk, machine: &mut M, function: u64, check: u32, place: u32) {
    let interpreter = (walk.interpreter.slot() as u64) << frame::INTERPRETER_SHIFT;
    let detail = frame::DETAIL | (check as u64 & frame::CHECK) << 32 | place as u64;
    machine.push_interpreter_frame(frame::INTERPRETED | interpreter | function, detail);
    walk.taken += 1;
    walk.words += 2;
}
