//! Interpreter descriptions: the layout of interpreter frames in one process.
//!
//! An interpreter runs scripts in an *interpreter loop*, a native function. Each time that a walk reaches that function it
//! takes a *run* of interpreter frames from a linked list in memory, and continues with the native caller:
//!
//! ```text
//!   native stack              list of frames
//!   memcpy
//!   loop ───────────────────► top: inner ──► middle    one run: the loop executes both
//!   call_method                                │
//!   loop ───────────────────►                outer     the next run
//!   main
//! ```
//!
//! The [descriptions](Description) of a process's interpreters are consecutive in the [arena](super::arena). User space
//! writes them, the kernel side reads them. They are all that the kernel side needs for a language whose frames are a linked
//! list. Offsets are in bytes.
//!
//! A runtime whose frames are no linked list has another [`walker`], with [`PARAMETERS`] words whose meaning is the walker's: that
//! of [arrays](super::array) or of [compiled code](super::compiled), which any runtime can describe, or one for this runtime alone. Such a
//! walker takes the frames of a loop, as that of lists does, or it unwinds the native frames in the address ranges that the
//! runtime [owns](super::mapping::kind::RUNTIME).

/// Maximum number of interpreters in a process.
pub const MAX: usize = 4;

/// Maximum number of address ranges of an interpreter loop.
pub const LOOPS: usize = 4;

/// Maximum number of hops from a thread to its innermost frame.
pub const HOPS: usize = 8;

/// Maximum number of list entries, threads and interpreters together, that a search visits.
pub const MAX_THREADS: u32 = 256;

/// Maximum number of bytes that are read of a frame, or of another object.
pub const FRAME_BYTES: usize = 256;

/// Maximum number of interpreter frames in one walk; a corrupt list may be circular.
pub const MAX_INTERPRETER_FRAMES: u32 = 4096;

/// Number of parameters of a [`walker`] other than [`walker::LIST`].
pub const PARAMETERS: usize = 32;

/// Numbers of walkers.
pub mod walker {
    /// Takes frames of a linked list.
    pub const LIST: u32 = 0;
    /// Unwinds frames of HotSpot's interpreter and compiled code.
    pub const HOTSPOT: u32 = 1;
    /// Unwinds frames of V8's interpreter and compiled code.
    pub const V8: u32 = 2;
    /// Takes control frames of Ruby.
    pub const RUBY: u32 = 3;
    /// Takes contexts of Perl.
    pub const PERL: u32 = 4;
    /// Takes frames of LuaJIT's interpreter and traces.
    pub const LUAJIT: u32 = 5;
    /// Takes frames of PHP.
    pub const PHP: u32 = 6;
    /// Takes frames of an array that the [description](super::super::array) describes.
    pub const ARRAY: u32 = 7;
    /// Unwinds frames of compiled code that the [description](super::super::compiled) describes.
    pub const COMPILED: u32 = 8;
    /// Unwinds frames of BEAM's compiled code.
    pub const BEAM: u32 = 9;
    /// Unwinds frames of .NET's compiled and precompiled code.
    pub const DOTNET: u32 = 10;
    /// Copies [labels](super::super::labels) of threads; not of frames.
    pub const LABELS: u32 = 31;
    /// Walkers that describe any runtime, a bit for each number.
    pub const GENERIC: u32 = 1 << LIST | 1 << ARRAY | 1 << COMPILED;
}

/// Description of one runtime in a process, as it is in the arena.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Loops, path to the innermost frame, and the layout of its frames: for [`walker::LIST`] and [`walker::ARRAY`] all of it, for
    /// [`walker::COMPILED`] mask and check of a function.
    pub interpreter: Interpreter,
    /// One of [`walker`].
    pub walker: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
    /// Parameters of the walker, 0 for [`walker::LIST`].
    pub parameters: [u64; PARAMETERS],
}

impl Description {
    /// Returns the bytes of the struct as in the arena: all fields in order, in native byte order, words of eight bytes low
    /// half first.
    pub fn to_bytes(&self) -> [u8; size_of::<Description>()] {
        let Description { interpreter, walker, reserved, parameters } = self;
        let mut bytes = [0; size_of::<Description>()];
        let (head, tail) = bytes.split_at_mut(size_of::<Interpreter>());
        head.copy_from_slice(&interpreter.to_bytes());
        let halves = parameters.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
        for (to, from) in
            tail.as_chunks_mut().0.iter_mut().zip([*walker, *reserved].into_iter().chain(halves))
        {
            *to = u32::to_ne_bytes(from);
        }
        bytes
    }
}

/// Description of the loop and the frames of one interpreter in a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interpreter {
    /// Address ranges of the interpreter loop in the process: start, and end (exclusive). Empty ranges are unused.
    pub loops: [[u64; 2]; LOOPS],
    /// Path from a thread to its innermost frame.
    pub top: Path,
    /// Layout of a frame.
    pub frames: Frames,
    /// Search for further frame lists of a thread.
    pub others: Others,
    /// Number of words of eight bytes, starting at [`check`](Frames::check), that are [folded](fold) into a function's
    /// check; at most [`CHECK_WORDS`]. If 0, the check is the four bytes at `check`. If more, it is that of
    /// [contents](super::contents), which begin at `check`.
    pub check_words: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
}

impl Interpreter {
    /// Returns the bytes of the struct as in the arena: all fields in order, in native byte order.
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

/// A chain of pointers: `[[[base + offsets[0]] + offsets[1]] + …]`, with [`hops`](Path::hops) reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// One of [`from`].
    pub from: u32,
    /// Number of offsets, at most [`HOPS`].
    pub hops: u32,
    /// In a list of threads: offset of the address of the next entry. For [`from::CURRENT`], the number of offsets of the
    /// alternative path.
    pub next: u32,
    /// In a list of threads: offset of the thread pointer of the entry's thread.
    pub thread: u32,
    /// Offset that is added before each read.
    pub offsets: [i64; HOPS],
}

/// Values for [`Path::from`]: the address from which a path starts (thread pointer, stack pointer, absolute address, or a
/// thread's list entry), or the reason for having no path.
pub mod from {
    /// No path: the interpreter is recognized, its frames are not available.
    pub const NOWHERE: u32 = 0;
    /// The thread pointer.
    pub const THREAD: u32 = 1;
    /// Address 0; the first offset is an absolute address.
    pub const ZERO: u32 = 2;
    /// The entry of the current thread in a list; the first offset is the address of the pointer to the first entry.
    pub const LIST: u32 = 3;
    /// The current entry, if it is that of the current thread; the first offset is the address of the pointer to it.
    ///
    /// Otherwise the next offsets, [`next`](super::Path::next) of them, lead from the thread pointer to an entry. The
    /// remaining offsets continue from either. If `next` is 0, the thread's entry is searched for among
    /// [all](super::Others).
    pub const CURRENT: u32 = 4;
    /// Unknown; wake user space when the loop is next sampled.
    pub const UNKNOWN: u32 = 5;
    /// The stack pointer of the loop's frame, read at each loop. The interpreter's walker follows the path.
    pub const STACK: u32 = 6;
}

/// Layout of an interpreter frame in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Mask of the address in the word at `function`.
    pub function_mask: u64,
    /// Number of bytes to read of a frame, at most [`FRAME_BYTES`]. Must cover all fields that the offsets in this struct
    /// address, except `check`, which is in the function.
    pub size: u32,
    /// Offset of the address of the caller's frame, a multiple of 8.
    pub caller: u32,
    /// Offset of the address of the function, a multiple of 8.
    pub function: u32,
    /// Offset of the position in the function, a multiple of its size.
    pub position: u32,
    /// Encoding of the position, one of [`position`].
    pub position_kind: u32,
    /// Offset in the function of the check, which distinguishes it from a later function at the same address;
    /// [`NO_CHECK`] for none.
    pub check: u32,
    /// Rule for the end of a run, the frames that one call of the interpreter loop executes; one of [`run`]. The fields `end`,
    /// `end_mask` and `end_value` are ignored for [`run::ONE`].
    pub run: u32,
    /// Offset of the byte that marks the end of a run.
    pub end: u32,
    /// Mask for that byte.
    pub end_mask: u32,
    /// The frame is marked if the masked byte is at least this value.
    pub end_value: u32,
}

/// Search for the further frame lists of a thread, in a runtime with several interpreters.
///
/// A thread may run code of one interpreter that calls into another one. No pointer leads from the frames of the second to
/// those of the first. But all interpreters are in a list, and each has a list of entries, one per thread:
///
/// ```text
///   [head] ──► interpreter ──next──► interpreter ──next──► 0
///                   │ entries             │ entries
///                   ▼                     ▼
///                 entry ──link──► …     entry ──link──► entry ──link──► 0
/// ```
///
/// When a list of frames has ended and the walk reaches a further loop, the next list is that of the current thread's entry
/// that has frames and was not used yet. If several entries match, their order is unknown and none is used.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Address of the pointer to the first interpreter; 0 if there is no such list.
    pub head: u64,
    /// In an interpreter: offset of the address of the next one.
    pub next: u32,
    /// In an interpreter: offset of the address of its first entry.
    pub entries: u32,
    /// In an entry: offset of the address of the next one.
    pub link: u32,
    /// In an entry: offset of the thread pointer of its thread.
    pub thread: u32,
    /// Number of the [path's](Path) offsets that lead to an entry; the remaining ones lead from there to the innermost frame.
    pub hop: u32,
    /// Reserved; must be zero.
    pub reserved: u32,
}

/// Maximum number of entries whose frames a walk takes; a power of two.
pub const MAX_ENTRIES: usize = 4;

/// Maximum number of words in a check; one less than a power of two, so that it is also a mask.
pub const CHECK_WORDS: u32 = 3;

/// Folds the first `count` words of a function into a check; a [record](super::record) holds its low 24 bits.
#[inline(always)]
pub const fn fold(words: &[u64; CHECK_WORDS as usize], count: u32) -> u32 {
    (hash(words, count) >> 40) as u32
}

/// Hashes the first `count` words of a function; a check is the high 24 bits.
#[inline(always)]
pub const fn hash(words: &[u64; CHECK_WORDS as usize], count: u32) -> u64 {
    let mut sum = 0u64;
    let mut index = 0;
    while index < CHECK_WORDS {
        if index < count {
            sum = (sum ^ words[index as usize]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        index += 1;
    }
    sum
}

/// The function has no check.
pub const NO_CHECK: u32 = u32::MAX;

/// Kinds of positions in a function.
pub mod position {
    /// A number of four bytes.
    pub const NUMBER: u32 = 0;
    /// An instruction address in a word of eight bytes; the position is its distance from the function's address.
    pub const ADDRESS: u32 = 1;
}

/// Extent of one run of interpreter frames.
pub mod run {
    /// One frame.
    pub const ONE: u32 = 0;
    /// All frames up to a marked one, inclusive.
    pub const WITH_MARKED: u32 = 1;
    /// All frames up to a marked one, exclusive: that one belongs to the loop itself and produces no frame.
    pub const BEFORE_MARKED: u32 = 2;
    /// The same, in a list whose outermost frame is a marked one that belongs to no loop.
    pub const BEFORE_MARKED_TO_BASE: u32 = 3;
}

const _: () = {
    assert!(size_of::<Interpreter>() == 232);
    assert!(size_of::<Description>() == 496);
    assert!(FRAME_BYTES.is_power_of_two());
};
