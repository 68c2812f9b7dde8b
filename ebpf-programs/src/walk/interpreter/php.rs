//! The frames of PHP.
//!
//! ```text
//!   zend_execute_data   opline 0   return_value 16   func 24   This 32, its type and call info 40   prev_execute_data 48
//!   zend_function       type 0, flags 4, name 8, class 16 …   two words of counts, address of the instructions …   file, lines
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
use crate::abi::interpreter::{FRAME_BYTES, MAX_INTERPRETER_FRAMES, hash};
use crate::abi::php::{INSTRUCTION, identity};
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

/// Size of an instruction, in bytes.
const INSTRUCTION_BYTES: u64 = 32;

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
    /// Its hash.
    hash: u64,
    /// Its first instruction.
    instructions: u64,
    /// The file of the last function of a script, and the hash of the file's name; 0 for none.
    file: u64,
    hash_of_file: u64,
    /// The number of instructions of the function.
    count: u32,
    reserved: u32,
}

impl PhpState {
    /// Resets the state of a previous walk.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.code = 0;
        self.searched = 0;
        self.function = 0;
        (self.file, self.hash_of_file) = (0, 0);
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
    if is_first || function != walk.interpreter.php.function {
        identify(walk, machine, function)?;
    }
    let opline = if is_first { innermost(walk, opline) } else { opline };
    let PhpState { hash, is_internal, instructions, count, .. } = walk.interpreter.php;
    if is_top && is_internal == 0 {
        walk.interpreter.phase = phase::BEHIND;
    }
    let (check, bits) = identity(hash);
    let number = opline.wrapping_sub(instructions) / INSTRUCTION_BYTES;
    let is_known = number < count as u64 && number < INSTRUCTION as u64;
    emit(walk, machine, function, check, bits | if is_known { number as u32 } else { INSTRUCTION });
    Some(())
}

/// Hashes a function: an internal one by its C function and module; others by their counts and source, those in opcache's
/// memory by the address of their instructions. Returns `None` if it is unreadable.
#[inline(always)]
fn identify<M: Machine>(walk: &mut Walk, machine: &mut M, function: u64) -> Option<()> {
    let [offsets, registers, ..] = walk.interpreter.parameters;
    let (at, file_at) = (offsets as u32 & 0xff, (registers >> 32) as u32 & 0xffff);
    let parts = |object: &[u64; WORDS]| {
        let word = |at: u32| object[(at / 8) as usize & (WORDS - 1)];
        let counts = [word(at), word(at + 8), word(at + 16)];
        (object[0], [object[1], object[2]], counts, [word(file_at), word(file_at + 8)])
    };
    let read = machine.read_object(function, file_at + 16).map(parts);
    // An internal function is shorter, and may be the last one of a mapping.
    let read = if read.is_some() { read } else { machine.read_object(function, at + 24).map(parts) };
    let (head, [name, class], words, [file, lines]) = read?;
    let is_internal = head & 0xff == INTERNAL;
    let hash = if is_internal {
        hash(&words, 3)
    } else if head >> 32 & IMMUTABLE != 0 {
        hash(&words, 3) ^ hash(&[class, 0, 0], 1)
    } else {
        let name = if name == 0 { 0 } else { machine.read_memory(name.wrapping_add(HASH))? };
        let file = hash_of_file(walk, machine, file)?;
        hash(&words, 2) ^ hash(&[name ^ class.rotate_left(32), file, lines], 3)
    };
    let php = &mut walk.interpreter.php;
    (php.function, php.hash, php.is_internal) = (function, hash, is_internal as u32);
    php.instructions = words[2];
    php.count = (words[1] >> (registers >> 24 & 63)) as u32;
    Some(())
}

/// Returns the hash of the name of a file: functions that call one another often share it.
#[inline(always)]
fn hash_of_file<M: Machine>(walk: &mut Walk, machine: &mut M, file: u64) -> Option<u64> {
    if file != walk.interpreter.php.file {
        walk.interpreter.php.hash_of_file = machine.read_memory(file.wrapping_add(HASH))?;
        walk.interpreter.php.file = file;
    }
    Some(walk.interpreter.php.hash_of_file)
}

/// Returns the current instruction of the innermost frame. The loop keeps it in a register, and saves it only before it calls
/// something that needs it. The value at the leaf is still the loop's if it is an instruction of the function.
#[inline(always)]
fn innermost(walk: &Walk, opline: u64) -> u64 {
    let PhpState { code, instructions, count, .. } = walk.interpreter.php;
    if code != 0 {
        // Code of the JIT saves it rarely, and has it in no register: a position before the first instruction has no line.
        return instructions.wrapping_sub(1);
    }
    let register = (walk.interpreter.parameters[1] >> 16 & 0xff) as u32;
    let inner = walk.registers.values[(register.wrapping_sub(1) & 31) as usize];
    let distance = inner.wrapping_sub(instructions);
    let is_inner = register != 0
        && distance < count as u64 * INSTRUCTION_BYTES
        && distance.is_multiple_of(INSTRUCTION_BYTES);
    if is_inner { inner } else { opline }
}

const _: () = assert!(WORDS.is_power_of_two());
