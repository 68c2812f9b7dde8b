//! Decodes the description of an interpreter from the arena.

use crate::abi::arena::Block;
use crate::abi::interpreter::{Description, Frames, HOPS, Interpreter, LOOPS, PARAMETERS};
use crate::abi::mapping::Process;
use crate::walk::arena::{UNIT_WORDS, read_u64, word};

/// Words of four bytes in a description.
const WORDS: u32 = (size_of::<Description>() / 4) as u32;

/// Words of four bytes before the number of the walker.
const WALKER: u32 = (size_of::<Interpreter>() / 4) as u32;

/// Returns the word of the arena at which the description of interpreter `number` of a process begins, from 1.
#[inline(always)]
pub(super) fn place(process: &Process, number: u32) -> u32 {
    process.interpreters.wrapping_mul(UNIT_WORDS).wrapping_add(number.wrapping_sub(1).wrapping_mul(WORDS))
}

/// Returns the number of the walker of the description at word `at` of the arena, which lies in `block`.
#[inline(always)]
pub(super) fn walker(block: &Block, at: u32) -> u32 {
    word(block, at + WALKER)
}

/// Copies the parameters of the description at word `at` of the arena, which lies in `block`.
#[inline(always)]
pub(super) fn load_parameters(parameters: &mut [u64; PARAMETERS], block: &Block, at: u32) {
    let mut index = 0;
    while index < PARAMETERS {
        parameters[index] = read_u64(block, at + WALKER + 2 + index as u32 * 2);
        index += 1;
    }
}

/// Copies the description at word `at` of the arena, which lies in `block`.
#[inline(always)]
pub(super) fn load(interpreter: &mut Interpreter, block: &Block, at: u32) {
    let mut index = 0;
    while index < LOOPS {
        let at = at + index as u32 * 4;
        interpreter.loops[index] = [read_u64(block, at), read_u64(block, at + 2)];
        index += 1;
    }
    let at = at + LOOPS as u32 * 4;
    // Field by field: a whole value would be built on the stack, which is short.
    let top = &mut interpreter.top;
    top.from = word(block, at);
    top.hops = word(block, at + 1);
    top.next = word(block, at + 2);
    top.thread = word(block, at + 3);
    let mut index = 0;
    while index < HOPS {
        top.offsets[index] = read_u64(block, at + 4 + index as u32 * 2) as i64;
        index += 1;
    }
    let at = at + 4 + HOPS as u32 * 2;
    interpreter.frames = Frames {
        function_mask: read_u64(block, at),
        size: word(block, at + 2),
        caller: word(block, at + 3),
        function: word(block, at + 4),
        position: word(block, at + 5),
        position_kind: word(block, at + 6),
        check: word(block, at + 7),
        run: word(block, at + 8),
        end: word(block, at + 9),
        end_mask: word(block, at + 10),
        end_value: word(block, at + 11),
    };
    let at = at + 12;
    let others = &mut interpreter.others;
    others.head = read_u64(block, at);
    others.next = word(block, at + 2);
    others.entries = word(block, at + 3);
    others.link = word(block, at + 4);
    others.thread = word(block, at + 5);
    others.hop = word(block, at + 6);
    interpreter.check_words = word(block, at + 8);
}

#[test]
fn loads_what_user_space_writes() {
    use crate::abi::arena::BLOCK_WORDS;
    use crate::abi::interpreter::{Others, Path};
    let mut number = 0u32;
    let mut next = || {
        number += 0x0123_4567;
        number
    };
    let mut wide = {
        let mut wide = 0u64;
        move || {
            wide += 0x0123_4567_89ab_cdef;
            wide
        }
    };
    let loops = core::array::from_fn(|_| [wide(), wide()]);
    let offsets = core::array::from_fn(|_| wide() as i64);
    let top = Path { from: next(), hops: next(), next: next(), thread: next(), offsets };
    let frames = Frames {
        function_mask: wide(),
        size: next(),
        caller: next(),
        function: next(),
        position: next(),
        position_kind: next(),
        check: next(),
        run: next(),
        end: next(),
        end_mask: next(),
        end_value: next(),
    };
    // The last field is reserved, and not loaded.
    let others = Others {
        head: wide(),
        next: next(),
        entries: next(),
        link: next(),
        thread: next(),
        hop: next(),
        reserved: 0,
    };
    let interpreter = Interpreter { loops, top, frames, others, check_words: next(), reserved: 0 };
    let parameters = core::array::from_fn(|_| wide());
    let description = Description { interpreter, walker: next(), reserved: 0, parameters };
    let mut block = [0; BLOCK_WORDS];
    for (to, from) in block[16..].iter_mut().zip(description.to_bytes().as_chunks().0) {
        *to = u32::from_ne_bytes(*from);
    }
    let mut loaded = Description { walker: walker(&block, 16), ..Description::default() };
    load(&mut loaded.interpreter, &block, 16);
    load_parameters(&mut loaded.parameters, &block, 16);
    assert_eq!(loaded, description);
}
