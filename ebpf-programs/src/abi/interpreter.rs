//! Where the frames of an interpreter lie, in one process.
//!
//! An interpreter runs scripts in a *loop*, a function of its own. Each time that a walk meets that function it takes
//! a *run* of the interpreter's frames from a list in memory, and goes on with the native caller:
//!
//! ```text
//!   native stack              list of frames
//!   memcpy
//!   loop ───────────────────► top: inner ──► middle    one run: the loop ran both
//!   call_method                                │
//!   loop ───────────────────►                outer     the next run
//!   main
//! ```
//!
//! The descriptions of a process's interpreters lie in the [arena](super::arena), one behind the other. The kernel
//! side knows nothing else of a language: what is said here is enough for any whose frames are a linked list.

/// Interpreters at most in one process.
pub const MAX: usize = 4;

/// Ranges of code at most that one loop consists of.
pub const LOOPS: usize = 4;

/// Hops at most from a thread to its innermost frame.
pub const HOPS: usize = 8;

/// Threads at most in a list that is searched for one, or threads and interpreters in several.
pub const MAX_THREADS: u32 = 256;

/// Bytes of a frame at most that are looked at.
pub const FRAME_BYTES: usize = 128;

/// Frames of interpreters at most in one walk: a list may lead in a circle.
pub const MAX_INTERPRETER_FRAMES: u32 = 4096;

/// One interpreter in a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interpreter {
    /// The code of its loop: first address, and first address behind. Empty ranges are none.
    pub loops: [[u64; 2]; LOOPS],
    /// How to get from a thread to its innermost frame.
    pub top: Path,
    /// How a frame is laid out.
    pub frames: Frames,
    /// Where a thread's other lists of frames are.
    pub others: Others,
    /// How many words of eight bytes, from [`check`](Frames::check) on, tell a function from another one, all of them
    /// [folded](fold); [`CHECK_WORDS`] at most. Where it is 0, four bytes do.
    pub check_words: u32,
    /// Nothing.
    pub reserved: u32,
}

impl Interpreter {
    /// Returns the bytes of the struct as they lie in the arena: all fields in order, in the byte order of the machine.
    pub fn to_bytes(&self) -> [u8; size_of::<Interpreter>()] {
        let Interpreter { loops, top, frames, others, check_words, reserved } = self;
        let mut bytes = [0; size_of::<Interpreter>()];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        loops.as_flattened().iter().for_each(|word| put(&word.to_ne_bytes()));
        [top.from, top.hops, top.next, top.thread].iter().for_each(|word| put(&word.to_ne_bytes()));
        top.offsets.iter().for_each(|offset| put(&offset.to_ne_bytes()));
        put(&frames.function_mask.to_ne_bytes());
        let words = [
            frames.size,
            frames.caller,
            frames.function,
            frames.position,
            frames.position_kind,
            frames.check,
            frames.run,
            frames.end,
            frames.end_mask,
            frames.end_value,
        ];
        words.iter().for_each(|word| put(&word.to_ne_bytes()));
        put(&others.head.to_ne_bytes());
        let words = [others.next, others.entries, others.link, others.thread, others.hop, others.reserved];
        words.iter().chain([check_words, reserved]).for_each(|word| put(&word.to_ne_bytes()));
        bytes
    }
}

/// A way through memory: `[[[base + offsets[0]] + offsets[1]] + …]`, so many times.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// One of [`from`].
    pub from: u32,
    /// How many offsets there are, [`HOPS`] at most.
    pub hops: u32,
    /// In a list of threads: where in an entry the address of the next one is (see also [`from::CURRENT`]) …
    pub next: u32,
    /// … and where the thread pointer of the thread that it is for.
    pub thread: u32,
    /// What is added before each hop.
    pub offsets: [i64; HOPS],
}

/// Where a [`Path`] begins.
pub mod from {
    /// Nowhere: the interpreter was seen, its frames can't be had.
    pub const NOWHERE: u32 = 0;
    /// At the thread pointer.
    pub const THREAD: u32 = 1;
    /// At address 0: the first offset is an address.
    pub const ZERO: u32 = 2;
    /// At the entry of this thread in a list; the first offset is the address at which the list begins.
    pub const LIST: u32 = 3;
    /// At the entry that is in use, if it is this thread's; the first offset is the address at which its address is.
    /// The next offsets, as many as [`next`](super::Path::next) says, are the way otherwise, from the thread pointer to
    /// an entry; the others lead on from either. Where there are none of the first, the thread's entry is looked for among
    /// [all](super::Others).
    pub const CURRENT: u32 = 4;
    /// Unknown; wake user space when the loop is next sampled.
    pub const UNKNOWN: u32 = 5;
}

/// How a frame is laid out in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The bits of the word at `function` that are an address.
    pub function_mask: u64,
    /// How many bytes of a frame are read, [`FRAME_BYTES`] at most: all of the following lie in them.
    pub size: u32,
    /// Where the address of the caller's frame is, aligned.
    pub caller: u32,
    /// Where the address of the function is, aligned.
    pub function: u32,
    /// Where the position in the function is, aligned.
    pub position: u32,
    /// One of [`position`].
    pub position_kind: u32,
    /// Where in the function the bytes are that tell it from another one that comes to lie at its address;
    /// [`NO_CHECK`] for none.
    pub check: u32,
    /// One of [`run`].
    pub run: u32,
    /// The byte of a frame that says whether a run ends with it.
    pub end: u32,
    /// It ends where these bits of that byte …
    pub end_mask: u32,
    /// … are at least this.
    pub end_value: u32,
}

/// Where a thread's other lists of frames are, in a runtime that may run several interpreters.
///
/// A thread may work for one interpreter, and in a call for another: then nothing leads from the frames of the second to
/// those of the first. All interpreters are in a list, and each has a list of entries, one for each thread:
///
/// ```text
///   [head] ──► interpreter ──next──► interpreter ──next──► 0
///                   │ entries             │ entries
///                   ▼                     ▼
///                 entry ──link──► …     entry ──link──► entry ──link──► 0
/// ```
///
/// Where a list of frames is at its end and there are loops still, the entry of this thread that has frames and wasn't
/// taken yet is the next one. If there are several, nothing tells which it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The address at which the address of the first interpreter is; 0 where there are no others.
    pub head: u64,
    /// In an interpreter: where the address of the next one is …
    pub next: u32,
    /// … and that of its first entry.
    pub entries: u32,
    /// In an entry: where the address of the next one is …
    pub link: u32,
    /// … and the thread pointer of the thread that it is for.
    pub thread: u32,
    /// How many of the path's offsets lead to an entry; the rest lead from there to the innermost frame.
    pub hop: u32,
    /// Nothing.
    pub reserved: u32,
}

/// Entries at most that a walk takes frames from; a power of two.
pub const MAX_ENTRIES: usize = 4;

/// Words at most that tell a function from another one; one less than a power of two, a mask.
pub const CHECK_WORDS: u32 = 3;

/// What words of a function come to, of which a [record](super::record) has the low 24 bits.
#[inline(always)]
pub const fn fold(words: &[u64; CHECK_WORDS as usize], count: u32) -> u32 {
    let mut sum = 0u64;
    let mut index = 0;
    while index < CHECK_WORDS {
        if index < count {
            sum = (sum ^ words[index as usize]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        index += 1;
    }
    (sum >> 40) as u32
}

/// There is nothing in a function to tell it by.
pub const NO_CHECK: u32 = u32::MAX;

/// What says where in its function a frame is.
pub mod position {
    /// Four bytes.
    pub const NUMBER: u32 = 0;
    /// An address: its distance from the function's is the position.
    pub const ADDRESS: u32 = 1;
}

/// Which frames belong to one run of the loop.
pub mod run {
    /// One.
    pub const ONE: u32 = 0;
    /// All up to and with one that is marked.
    pub const WITH_MARKED: u32 = 1;
    /// All up to one that is marked; that one belongs to the loop itself and is no call.
    pub const BEFORE_MARKED: u32 = 2;
}

const _: () = {
    assert!(size_of::<Interpreter>() == 232);
    assert!(FRAME_BYTES.is_power_of_two());
};
