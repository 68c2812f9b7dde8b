//! Objects of LuaJIT, read in the layout of their build.

use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::luajit::{COMPACT, Layout, WIDE, kind, value};
use crate::machine::Machine;

/// Words of an object.
type Words = [u64; FRAME_BYTES / 8];

/// A state.
pub(super) struct State {
    /// `false` for another object.
    pub(super) is_state: bool,
    pub(super) global: u64,
    pub(super) base: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) native_frame: u64,
}

impl State {
    #[inline(always)]
    pub(super) fn read<M: Machine>(machine: &mut M, address: u64, is_compact: bool) -> Option<State> {
        if is_compact {
            Some(State::of(machine.read_object(address, COMPACT.state.read)?, &COMPACT))
        } else {
            Some(State::of(machine.read_object(address, WIDE.state.read)?, &WIDE))
        }
    }

    #[inline(always)]
    fn of(words: &Words, layout: &Layout) -> State {
        let at = layout.state;
        State {
            is_state: byte(words, layout.kind) == kind::STATE,
            global: reference(words, at.global, layout),
            base: words[at.base / 8],
            start: reference(words, at.start, layout),
            end: reference(words, at.end, layout),
            native_frame: words[at.native_frame / 8],
        }
    }
}

/// The words of a frame, and those below it, which belong to a metamethod.
pub(super) struct Frame {
    pub(super) continuation: u64,
    pub(super) saved_pc: u64,
    /// The function, with a tag in a build with references of 8 bytes.
    pub(super) called: u64,
    pub(super) link: u64,
}

impl Frame {
    #[inline(always)]
    pub(super) fn read<M: Machine>(machine: &mut M, at: u64, is_compact: bool) -> Option<Frame> {
        if is_compact {
            let words = machine.read_object(at.wrapping_sub(8), 16)?;
            let [continuation, saved_pc] = halves(words[0]);
            let [called, link] = halves(words[1]);
            Some(Frame { continuation, saved_pc, called, link })
        } else {
            let words = machine.read_object(at.wrapping_sub(24), 32)?;
            Some(Frame { continuation: words[0], saved_pc: words[1], called: words[2], link: words[3] })
        }
    }
}

/// A function.
pub(super) struct Function {
    /// One of [`kind`].
    pub(super) kind: u8,
    pub(super) number: u8,
    pub(super) instructions: u64,
    pub(super) native: u64,
}

impl Function {
    #[inline(always)]
    pub(super) fn read<M: Machine>(machine: &mut M, address: u64, is_compact: bool) -> Option<Function> {
        if is_compact {
            Some(Function::of(machine.read_object(address, COMPACT.function.read)?, &COMPACT))
        } else {
            Some(Function::of(machine.read_object(address, WIDE.function.read)?, &WIDE))
        }
    }

    #[inline(always)]
    fn of(words: &Words, layout: &Layout) -> Function {
        let at = layout.function;
        Function {
            kind: byte(words, layout.kind),
            number: byte(words, at.number),
            instructions: reference(words, at.instructions, layout),
            native: words[at.native / 8],
        }
    }

    /// Returns the address of the prototype.
    #[inline(always)]
    pub(super) fn prototype(&self, is_compact: bool) -> u64 {
        let size = if is_compact { COMPACT.prototype.end } else { WIDE.prototype.end };
        self.instructions.wrapping_sub(size)
    }
}

/// Returns the reference at an address.
#[inline(always)]
pub(super) fn read_reference<M: Machine>(machine: &mut M, at: u64, is_compact: bool) -> Option<u64> {
    let word = machine.read_memory(at)?;
    Some(if is_compact { halves(word)[0] } else { word })
}

/// Returns `true` if a word is that of a function in a frame whose slot 0 is at an address.
#[inline(always)]
pub(super) fn is_called<M: Machine>(machine: &mut M, base: u64, is_compact: bool) -> bool {
    if is_compact {
        let called = read_reference(machine, base.wrapping_sub(COMPACT.head), true).unwrap_or(0);
        let head = machine.read_memory(called).unwrap_or(0);
        (head >> (8 * COMPACT.kind)) as u8 == kind::FUNCTION
    } else {
        let called = machine.read_memory(base.wrapping_sub(WIDE.head)).unwrap_or(0);
        called >> value::TAG_SHIFT == value::FUNCTION
    }
}

/// Returns the low and the high half of a word.
#[inline(always)]
pub(super) fn halves(word: u64) -> [u64; 2] {
    [word & 0xffff_ffff, word >> 32]
}

#[inline(always)]
fn reference(words: &Words, at: usize, layout: &Layout) -> u64 {
    if layout.reference == 8 { words[at / 8] } else { half(words, at) }
}

#[inline(always)]
fn half(words: &Words, at: usize) -> u64 {
    halves(words[at / 8])[at / 4 % 2]
}

#[inline(always)]
fn byte(words: &Words, at: usize) -> u8 {
    (words[at / 8] >> (8 * (at % 8))) as u8
}
