//! Decodes the description of an interpreter from the arena.

use crate::abi::arena::{BLOCK_WORDS, Block};
use crate::abi::interpreter::{Description, Frames, HOPS, Interpreter, LOOPS, PARAMETERS};
use crate::abi::mapping::Process;
use crate::walk::arena::UNIT_WORDS;

/// Words of four bytes in a description.
const WORDS: u32 = (size_of::<Description>() / 4) as u32;

/// Words of four bytes before the number of the walker.
const WALKER: u32 = (size_of::<Interpreter>() / 4) as u32;

/// Returns the word of the arena at which the description of interpreter `number` of a process begins, from 1.
#[inline(always)]
pub(super) fn place(process: &Process, number: u32) -> u32 {
    process.interpreters.wrapping_mul(UNIT_WORDS).wrapping_add(number.wrapping_sub(1).wrapping_mul(WORDS))
}

/// A description as words of the arena.
pub(super) type Words = [u32; WORDS as usize];

/// Returns the words of the description at word `at` of the arena, which lies in `block`.
///
/// One bound for all of them: with a mask for each word, the compiler keeps the addresses of all on the stack.
#[inline(always)]
pub(super) fn words(block: &Block, at: u32) -> Option<&Words> {
    block.get(at as usize & (BLOCK_WORDS - 1)..)?.first_chunk()
}

/// Returns the number of the walker.
#[inline(always)]
pub(super) fn walker(words: &Words) -> u32 {
    words[WALKER as usize]
}

/// Copies the parameters.
#[inline(always)]
pub(super) fn load_parameters(parameters: &mut [u64; PARAMETERS], words: &Words) {
    let mut index = 0;
    while index < PARAMETERS {
        parameters[index] = wide(words, WALKER as usize + 2 + index * 2);
        index += 1;
    }
}

/// Copies the description.
#[inline(always)]
pub(super) fn load(interpreter: &mut Interpreter, words: &Words) {
    let mut index = 0;
    while index < LOOPS {
        let at = index * 4;
        interpreter.loops[index] = [wide(words, at), wide(words, at + 2)];
        index += 1;
    }
    let at = LOOPS * 4;
    // Field by field: a whole value would be built on the stack, which is short.
    let top = &mut interpreter.top;
    top.from = words[at];
    top.hops = words[at + 1];
    top.next = words[at + 2];
    top.thread = words[at + 3];
    let mut index = 0;
    while index < HOPS {
        top.offsets[index] = wide(words, at + 4 + index * 2) as i64;
        index += 1;
    }
    let at = at + 4 + HOPS * 2;
    interpreter.frames = Frames {
        function_mask: wide(words, at),
        size: words[at + 2],
        caller: words[at + 3],
        function: words[at + 4],
        position: words[at + 5],
        position_kind: words[at + 6],
        check: words[at + 7],
        run: words[at + 8],
        end: words[at + 9],
        end_mask: words[at + 10],
        end_value: words[at + 11],
    };
    let at = at + 12;
    let others = &mut interpreter.others;
    others.head = wide(words, at);
    others.next = words[at + 2];
    others.entries = words[at + 3];
    others.link = words[at + 4];
    others.thread = words[at + 5];
    others.hop = words[at + 6];
    interpreter.check_words = words[at + 8];
}

/// Returns the number of 64 bits at an index, low half first.
#[inline(always)]
fn wide(words: &Words, at: usize) -> u64 {
    words[at] as u64 | (words[at + 1] as u64) << 32
}

#[test]
fn loads_what_user_space_writes() {
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
    let words = words(&block, 16).unwrap();
    let mut loaded = Description { walker: walker(words), ..Description::default() };
    load(&mut loaded.interpreter, words);
    load_parameters(&mut loaded.parameters, words);
    assert_eq!(loaded, description);
}
