//! The frames of PHP.
//!
//! ```text
//!   zend_execute_data   opline 0   return_value 16   func 24   This 32, its type and call info 40   prev_execute_data 48
//!   zend_function       type 0, flags 4, name 8 …   three words, the last one is the address of the instructions …   file, lines
//!   zend_string         hash 8
//!   zend_generator      execute_data …   node: parent, children u32, child …   execute_fake: a zend_execute_data
//! ```
//!
//! A run ends with a frame that has `ZEND_CALL_TOP`, unless its function is internal: no loop runs that one. Frames
//! without a function are placeholders. One of them stands for generators that delegate (`yield from`): the running one is
//! the root of a tree, whose children lead to the one that was called, which has the placeholder:
//!
//! ```text
//!   frames   running ──previous──► placeholder ──previous──► caller
//!   tree     running ──child──► … ──child──► called
//! ```
//!
//! Code of the JIT runs in the loop's frame, and keeps the current instruction nowhere: see [`walk::php`](super::super::php).
//! See [`abi::php`](crate::abi::php) for the parameters.

use super::frames::emit;
use super::state::phase;
use crate::abi::interpreter::{FRAME_BYTES, MAX_INTERPRETER_FRAMES, fold};
use crate::abi::record::frame;
use crate::machine::Machine;
use crate::walk::Walk;

/// Number of bytes that are read of a frame, and of a generator's node.
const FRAME: u32 = 56;
const NODE: u32 = 32;

/// Offset of the previous frame in a frame.
const PREVIOUS: u64 = 48;

/// Bits of a frame's call info.
const TOP: u64 = 1 << 17;
const GENERATOR: u64 = 1 << 24;

/// Type of an internal function.
const INTERNAL: u64 = 1;

/// Flag of a function whose instructions are in opcache's memory: no other function has the same.
const IMMUTABLE: u64 = 1 << 7;

/// Offset of the hash in a string.
const HASH: u64 = 8;

/// State of PHP's walker.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::walk) struct PhpState {
    /// The address in code of the JIT at which the current run is executed; 0 for the loop.
    pub(in crate::walk) code: u64,
    /// Number of addresses that were searched for the frame of the loop.
    pub(in crate::walk) searched: u32,
    /// 1 if the function of the previous frame is internal.
    is_internal: u32,
    /// The function of the previous frame, 0 for none. Recursion finds it unchanged: the thread doesn't run during a walk.
    function: u64,
    /// Its check.
    check: u32,
    reserved: u32,
}

impl PhpState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.code = 0;
        self.searched = 0;
        self.function = 0;
    }
}

/// Words of eight bytes that are read of a function.
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
    let [offsets, registers, ..] = walk.interpreter.parameters;
    let object = machine.read_object(at, FRAME)?;
    let (opline, result, function, this, info) = (object[0], object[2], object[3], object[4], object[5]);
    let function = function & frame::ADDRESS;
    let is_generator = function != 0 && info & GENERATOR != 0;
    let is_placeholder = function == 0 && this.wrapping_add(offsets >> 48) == at;
    let mut previous = object[6];
    let mut is_top = info & TOP != 0;
    if is_generator {
        // Its result is the generator, which a placeholder may follow.
        walk.interpreter.at = result;
    }
    if is_generator || is_placeholder {
        let generator = walk.interpreter.at;
        let object = machine.read_object(generator.wrapping_add(offsets >> 16 & 0xffff), NODE)?;
        let (parent, children, child) = (object[0], object[1] as u32, object[(offsets >> 35 & 3) as usize]);
        let is_delegating = is_generator && parent != 0;
        let link = match children {
            1 if is_delegating || is_placeholder => child.wrapping_add(registers & 0xffff),
            0 if is_delegating => generator.wrapping_add((offsets >> 48) + PREVIOUS),
            // Which of several children was called is unknown.
            _ if is_delegating => return None,
            _ => 0,
        };
        if link != 0 {
            previous = machine.read_memory(link)?;
        }
        is_top &= !is_delegating;
    }
    walk.interpreter.next[slot] = previous;
    let is_first = walk.interpreter.taken == 0;
    walk.interpreter.taken += 1;
    if function == 0 {
        return Some(());
    }
    let mut position = opline;
    if is_first || function != walk.interpreter.php.function {
        let identity = (offsets & 0xff) as usize / 8;
        let object = machine.read_object(function, (offsets as u32 & 0xff) + 24)?;
        let words = [0, 1, 2].map(|index| object[(identity + index) & (WORDS - 1)]);
        let (head, name, class) = (object[0], object[1], object[2]);
        let is_internal = head & 0xff == INTERNAL;
        let mut check = fold(&words, 3);
        if !is_internal && head >> 32 & IMMUTABLE != 0 {
            check ^= fold(&[class, 0, 0], 1);
        } else if !is_internal {
            check ^= source(machine, class, name, function.wrapping_add(registers >> 32 & 0xffff))?;
        }
        if is_first {
            position = innermost(walk, opline, words);
        }
        let php = &mut walk.interpreter.php;
        (php.function, php.check, php.is_internal) = (function, check, is_internal as u32);
    }
    let PhpState { check, is_internal, .. } = walk.interpreter.php;
    if is_top && is_internal == 0 {
        walk.interpreter.phase = phase::BEHIND;
    }
    emit(walk, machine, function, check, position.wrapping_sub(function) as u32);
    Some(())
}

/// Returns the current instruction of the innermost frame. The loop keeps it in a register, and saves it only before it calls
/// something that needs it. The value at the leaf is still the loop's if it is an instruction of the function.
#[inline(always)]
fn innermost(walk: &Walk, opline: u64, [_, counts, instructions]: [u64; 3]) -> u64 {
    if walk.interpreter.php.code != 0 {
        // Code of the JIT saves it rarely, and has it in no register: a position before the first instruction has no line.
        return instructions.wrapping_sub(1);
    }
    let registers = walk.interpreter.parameters[1];
    let register = (registers >> 16 & 0xff) as u32;
    let inner = walk.registers.values[(register.wrapping_sub(1) & 31) as usize];
    let distance = inner.wrapping_sub(instructions);
    let count = counts >> (registers >> 24 & 63) & 0xffff_ffff;
    let is_inner = register != 0 && distance < count << 5 && distance & 31 == 0;
    if is_inner { inner } else { opline }
}

/// Returns the identity of a function's source: its class, the hashes of its name and file, its first and last line. `file`
/// is the address of the pointer to the file, which the lines follow.
#[inline(always)]
fn source<M: Machine>(machine: &mut M, class: u64, name: u64, file: u64) -> Option<u32> {
    let object = machine.read_object(file, 16)?;
    let (file, lines) = (object[0], object[1]);
    let name = if name == 0 { 0 } else { machine.read_memory(name.wrapping_add(HASH))? };
    let file = machine.read_memory(file.wrapping_add(HASH))?;
    Some(fold(&[name ^ class.rotate_left(32), file, lines], 3))
}

const _: () = assert!(WORDS.is_power_of_two());
