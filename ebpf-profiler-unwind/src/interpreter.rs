//! The description of an interpreter as numbers, as it stands in the arena and in cases.

use ebpf_programs::abi::interpreter::{Frames, Interpreter, Others, Path};

/// How many numbers there are.
pub(crate) const WORDS: usize = size_of::<Interpreter>() / 8;

/// How many a case has at least.
pub(crate) const LEAST: usize = WORDS - size_of::<Others>() / 8 - 1;

/// All fields in their order, those of four bytes two in a word, the first of them low.
pub(crate) fn words(interpreter: &Interpreter) -> [u64; WORDS] {
    let Interpreter { loops, top, frames, others, check_words, reserved } = interpreter;
    let halves = [top.from, top.hops, top.next, top.thread];
    let rest = [
        [frames.size, frames.caller],
        [frames.function, frames.position],
        [frames.position_kind, frames.check],
        [frames.run, frames.end],
        [frames.end_mask, frames.end_value],
    ];
    let words = loops.as_flattened().iter().copied();
    let words = words.chain(halves.chunks(2).map(|pair| join(pair[0], pair[1])));
    let words = words.chain(top.offsets.map(|offset| offset as u64)).chain([frames.function_mask]);
    let words = words.chain(rest.map(|[low, high]| join(low, high)));
    let rest = [
        [others.next, others.entries],
        [others.link, others.thread],
        [others.hop, others.reserved],
        [*check_words, *reserved],
    ];
    let mut words = words.chain([others.head]).chain(rest.map(|[low, high]| join(low, high)));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

/// The numbers that a case has: it is silent of what it needn't say.
pub(crate) fn said(words: &[u64; WORDS]) -> &[u64] {
    let (first, others) = words.split_at(LEAST);
    if others.iter().all(|word| *word == 0) { first } else { words }
}

/// The interpreter that these numbers describe.
pub(crate) fn of_words(words: &[u64; WORDS]) -> Interpreter {
    let mut words = words.iter().copied();
    let mut next = || words.next().unwrap_or(0);
    let mut interpreter = Interpreter::default();
    interpreter.loops.as_flattened_mut().iter_mut().for_each(|word| *word = next());
    let [[from, hops], [follow, thread]] = [split(next()), split(next())];
    let offsets = std::array::from_fn(|_| next() as i64);
    interpreter.top = Path { from, hops, next: follow, thread, offsets };
    let function_mask = next();
    let [size, caller] = split(next());
    let [function, position] = split(next());
    let [position_kind, check] = split(next());
    let [run, end] = split(next());
    let [end_mask, end_value] = split(next());
    interpreter.frames = Frames {
        function_mask,
        size,
        caller,
        function,
        position,
        position_kind,
        check,
        run,
        end,
        end_mask,
        end_value,
    };
    let head = next();
    let [[follow, entries], [link, thread], [hop, reserved]] = [split(next()), split(next()), split(next())];
    interpreter.others = Others { head, next: follow, entries, link, thread, hop, reserved };
    [interpreter.check_words, interpreter.reserved] = split(next());
    interpreter
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[test]
fn numbers_and_back() {
    let numbers = std::array::from_fn(|number| (number as u64 + 1) * 0x0123_4567_89ab_cdef);
    assert_eq!(words(&of_words(&numbers)), numbers);
}
