//! Walkers of the kernel side and their parameters, as a runtime describes them.
//!
//! A [`FrameWalker`] is a kind of walker and a block of parameters. One list of [fields](Field) is its only encoding:
//! as [bytes](FrameWalker::to_bytes), as text (`Display` and `FromStr`), and, by [`FrameWalker::abi`], as the struct that
//! the kernel side reads.
//!
//! ```text
//!   bytes   version u16, count u16, then for each field: number u16, value u64      little-endian
//!   text    kind=2 start=1 hop=ffffffffffffff80 hop=18 frame_caller=8 …             values in hexadecimal
//! ```
//!
//! Fields with their default value are left out. Hops, ranges and parameters occur once per item, in order.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use ebpf_programs::abi::interpreter::{
    CHECK_WORDS, Description, FRAME_BYTES, Frames, HOPS, Interpreter, LOOPS, NO_CHECK, Others, PARAMETERS,
    Path, from, position, run, walker,
};

/// Version of the encoding. Fields may be added without a new one; a reader rejects fields that it doesn't know.
const VERSION: u16 = 1;

/// Maximum distance of the identity of a function from its address, in bytes.
const MAX_IDENTITY_OFFSET: u32 = 1 << 16;

/// Maximum number of address ranges of an interpreter loop.
pub const MAX_RANGES: usize = LOOPS;

/// The walker that takes a runtime's frames in the kernel, with its parameters.
///
/// A runtime whose frames form a linked list describes them with [`FrameWalker::list`]. Parameters are checked once, in
/// [`ListWalker::build`].
///
/// # Examples
///
/// A runtime with a thread-local pointer to its innermost frame, `struct frame { frame *caller; function *function; int
/// line; }`, one frame per call of the interpreter loop:
///
/// ```
/// use ebpf_profiler_core::language::{FramePath, FrameWalker};
///
/// let walker = FrameWalker::list(FramePath::from_thread_pointer(&[-8]))
///     .caller(0)
///     .function(8)
///     .position_number(16)
///     .build()?;
/// assert_eq!(FrameWalker::from_bytes(&walker.to_bytes())?, walker);
/// assert_eq!(walker.to_string().parse::<FrameWalker>()?, walker);
/// # Ok::<(), ebpf_profiler_core::language::InvalidWalker>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameWalker(Description);

/// An error in the parameters of a walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidWalker {
    reason: &'static str,
}

/// The path from a thread to the innermost frame of its list: `[[[base + offsets[0]] + offsets[1]] + …]`.
///
/// Each offset is one dereference; the last result is the address of the frame, 0 for a thread without frames. A path has
/// at most eight offsets, the address or head included.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::language::FramePath;
///
/// // A thread-local variable holds the thread state, whose word at 24 is the innermost frame.
/// let threads = FramePath::from_thread_pointer(&[-16, 24]);
/// // A program with one thread: a global variable holds the innermost frame.
/// let global = FramePath::from_address(0x55d0_1000, &[]);
/// assert_ne!(threads, global);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePath {
    path: Path,
    /// Number of offsets that were given, which may exceed [`HOPS`].
    count: usize,
}

/// Builder of a [`FrameWalker`] for frames in a linked list; see [`FrameWalker::list`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ListWalker {
    path: FramePath,
    frames: Frames,
    identity_words: Option<u32>,
    others: Others,
}

/// The lists of thread states of all interpreters in a process, for threads that run several interpreters.
///
/// ```text
///   [head] ──► interpreter ──next──► interpreter ──next──► 0
///                   │ entries             │ entries
///                   ▼                     ▼
///                 entry ──link──► …     entry ──link──► entry ──link──► 0
/// ```
///
/// An entry belongs to one thread, whose thread pointer it holds. All offsets default to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLists(Others);

impl FrameWalker {
    /// Begins the description of frames in a linked list, whose innermost frame is at the end of `path`.
    pub fn list(path: FramePath) -> ListWalker {
        let frames = Frames { function_mask: !0, check: NO_CHECK, run: run::ONE, ..Frames::default() };
        ListWalker { path, frames, identity_words: None, others: Others::default() }
    }

    /// A runtime whose frames cannot be walked; its native frames stand for themselves.
    pub(crate) const UNAVAILABLE: FrameWalker = FrameWalker::without_frames(from::NOWHERE);

    /// A runtime that isn't ready; user space is woken when its loop is sampled.
    pub(crate) const UNKNOWN: FrameWalker = FrameWalker::without_frames(from::UNKNOWN);

    const fn without_frames(from: u32) -> FrameWalker {
        let path = Path { from, hops: 0, next: 0, thread: 0, offsets: [0; HOPS] };
        let frames = Frames {
            function_mask: 0,
            size: 0,
            caller: 0,
            function: 0,
            position: 0,
            position_kind: position::NUMBER,
            check: 0,
            run: run::ONE,
            end: 0,
            end_mask: 0,
            end_value: 0,
        };
        let others = Others { head: 0, next: 0, entries: 0, link: 0, thread: 0, hop: 0, reserved: 0 };
        let loops = [[0; 2]; LOOPS];
        let interpreter = Interpreter { loops, top: path, frames, others, check_words: 0, reserved: 0 };
        let parameters = [0; PARAMETERS];
        FrameWalker(Description { interpreter, walker: walker::LIST, reserved: 0, parameters })
    }

    /// Returns a walker that the kernel side has for one runtime, by its number, with the parameters that it reads. `path`
    /// leads to the innermost frame, for frames beside the native stack.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] for the number of lists, more than 32 parameters, or an invalid path.
    #[doc(hidden)]
    pub fn with_parameters(
        number: u32,
        path: Option<FramePath>,
        parameters: &[u64],
    ) -> Result<FrameWalker, InvalidWalker> {
        let mut walker = FrameWalker::UNAVAILABLE;
        if let Some(path) = path {
            walker.0.interpreter.top = path.check()?;
        }
        let room = walker.0.parameters.get_mut(..parameters.len());
        room.ok_or(InvalidWalker { reason: "more than 32 parameters" })?.copy_from_slice(parameters);
        if number == walker::LIST {
            return Err(InvalidWalker { reason: "parameters of a walker of lists" });
        }
        walker.0.walker = number;
        Ok(walker)
    }

    /// Replaces the address ranges of the interpreter loop; ranges beyond [`MAX_RANGES`] are dropped.
    ///
    /// The profiler sets them from [`Runtime::loops`](super::Runtime::loops), so an implementation of `attach` doesn't.
    pub fn with_ranges(mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> FrameWalker {
        self.0.interpreter.loops = [[0; 2]; LOOPS];
        for (slot, range) in self.0.interpreter.loops.iter_mut().zip(ranges) {
            *slot = [range.start, range.end];
        }
        self
    }

    /// Returns this walker with the ranges of another one.
    pub(crate) fn with_ranges_of(mut self, other: &FrameWalker) -> FrameWalker {
        self.0.interpreter.loops = other.0.interpreter.loops;
        self
    }

    /// Returns the address ranges of the interpreter loop.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.interpreter.loops.iter().filter(|range| **range != [0; 2]).map(|&[start, end]| start..end)
    }

    /// Returns the check of the function at `address`, read by `word`: the value that
    /// [`Attached::function`](super::Attached::function) receives.
    ///
    /// # Errors
    ///
    /// Returns the error of `word`.
    pub fn check<E>(&self, address: u64, mut word: impl FnMut(u64) -> Result<u64, E>) -> Result<u32, E> {
        let interpreter = &self.0.interpreter;
        let check = interpreter.frames.check;
        if check == NO_CHECK {
            return Ok(0);
        }
        let at = address.wrapping_add(check.into());
        if interpreter.check_words == 0 {
            // The aligned word holds all four bytes.
            let shift = (at & 4) * 8;
            return Ok((word(at & !7)? >> shift) as u32 & CHECK_BITS);
        }
        let mut words = [0; CHECK_WORDS as usize];
        for (index, slot) in (0..u64::from(interpreter.check_words)).zip(&mut words) {
            *slot = word(at.wrapping_add(8 * index))?;
        }
        Ok(fold(&words, interpreter.check_words))
    }

    /// Returns the struct that the kernel side reads.
    #[doc(hidden)]
    pub fn abi(&self) -> &Description {
        &self.0
    }

    /// Encodes the walker with its ranges.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = self.fields();
        let mut bytes = Vec::with_capacity(4 + 10 * fields.len());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((fields.len() as u16).to_le_bytes());
        for (field, value) in fields {
            bytes.extend((field as u16).to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Decodes a walker with its ranges, and checks its parameters.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if the bytes have another version, are truncated, or hold parameters that
    /// [`ListWalker::build`] rejects.
    pub fn from_bytes(bytes: &[u8]) -> Result<FrameWalker, InvalidWalker> {
        let (head, rest) = bytes.split_first_chunk::<4>().ok_or(TRUNCATED)?;
        let [version, count] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        if version != VERSION {
            return Err(InvalidWalker { reason: "a walker in an unknown version of the encoding" });
        }
        let (entries, rest) = rest.as_chunks::<10>();
        if entries.len() != usize::from(count) || !rest.is_empty() {
            return Err(TRUNCATED);
        }
        let fields = entries.iter().map(|entry| {
            let (number, value) = entry.split_first_chunk::<2>().ok_or(TRUNCATED)?;
            let number = u16::from_le_bytes(*number);
            let field = Field::ALL.iter().find(|(field, _)| *field as u16 == number);
            let value = value.first_chunk().copied().map(u64::from_le_bytes);
            Ok((field.ok_or(UNKNOWN_FIELD)?.0, value.ok_or(TRUNCATED)?))
        });
        FrameWalker::from_fields(fields)
    }

    /// Returns all fields that don't have their default value.
    fn fields(&self) -> Vec<(Field, u64)> {
        let Description { interpreter, walker, parameters, .. } = &self.0;
        let Interpreter { top, frames, others, check_words, .. } = interpreter;
        let mut fields = Vec::new();
        let mut add = |field, value: u64| fields.push((field, value));
        add(Field::Kind, self.kind().into());
        for range in self.ranges() {
            add(Field::RangeStart, range.start);
            add(Field::RangeEnd, range.end);
        }
        if self.kind() == kind::WITH_PARAMETERS {
            add(Field::Walker, (*walker).into());
            let count = parameters.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
            parameters[..count].iter().for_each(|&word| add(Field::Parameter, word));
        }
        if top.from == from::NOWHERE || top.from == from::UNKNOWN {
            return fields;
        }
        add(Field::Start, top.from.into());
        for &offset in &top.offsets[..top.hops as usize] {
            add(Field::Hop, offset as u64);
        }
        let numbers = [
            (Field::StartNext, top.next),
            (Field::StartThread, top.thread),
            (Field::FrameCaller, frames.caller),
            (Field::FrameFunction, frames.function),
            (Field::FramePosition, frames.position),
            (Field::PositionKind, frames.position_kind),
            (Field::IdentityWords, *check_words),
            (Field::Run, frames.run),
            (Field::RunEnd, frames.end),
            (Field::RunEndMask, frames.end_mask),
            (Field::RunEndValue, frames.end_value),
            (Field::ListsNext, others.next),
            (Field::ListsEntries, others.entries),
            (Field::ListsLink, others.link),
            (Field::ListsThread, others.thread),
            (Field::ListsHop, others.hop),
        ];
        for (field, value) in numbers.into_iter().filter(|(_, value)| *value != 0) {
            add(field, value.into());
        }
        if self.kind() == kind::LIST && frames.function_mask != !0 {
            add(Field::FunctionMask, frames.function_mask);
        }
        if self.kind() == kind::LIST && frames.check != NO_CHECK {
            add(Field::Identity, frames.check.into());
        }
        if others.head != 0 {
            add(Field::ListsHead, others.head);
        }
        fields
    }

    fn kind(&self) -> u16 {
        match self.0.interpreter.top.from {
            _ if self.0.walker != walker::LIST => kind::WITH_PARAMETERS,
            from::NOWHERE => kind::UNAVAILABLE,
            from::UNKNOWN => kind::UNKNOWN,
            _ => kind::LIST,
        }
    }

    fn from_fields(
        fields: impl IntoIterator<Item = Result<(Field, u64), InvalidWalker>>,
    ) -> Result<FrameWalker, InvalidWalker> {
        let mut kind = None;
        let mut list = FrameWalker::list(FramePath::new(from::THREAD, &[]));
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut walker, mut parameters) = (walker::LIST, Vec::new());
        for field in fields {
            let (field, value) = field?;
            let number =
                u32::try_from(value).map_err(|_| InvalidWalker { reason: "a field beyond four bytes" });
            let ListWalker { path, frames, others, .. } = &mut list;
            match field {
                Field::Kind => kind = Some(value),
                Field::RangeStart => ranges.push(value..value),
                Field::RangeEnd => {
                    let last = ranges.last_mut();
                    last.ok_or(InvalidWalker { reason: "a range without a start" })?.end = value;
                }
                Field::Start => path.path.from = number?,
                Field::Hop => path.push(value as i64),
                Field::StartNext => path.path.next = number?,
                Field::StartThread => path.path.thread = number?,
                Field::FrameCaller => frames.caller = number?,
                Field::FrameFunction => frames.function = number?,
                Field::FunctionMask => frames.function_mask = value,
                Field::FramePosition => frames.position = number?,
                Field::PositionKind => frames.position_kind = number?,
                Field::Identity => frames.check = number?,
                Field::IdentityWords => list.identity_words = Some(number?),
                Field::Run => frames.run = number?,
                Field::RunEnd => frames.end = number?,
                Field::RunEndMask => frames.end_mask = number?,
                Field::RunEndValue => frames.end_value = number?,
                Field::ListsHead => others.head = value,
                Field::ListsNext => others.next = number?,
                Field::ListsEntries => others.entries = number?,
                Field::ListsLink => others.link = number?,
                Field::ListsThread => others.thread = number?,
                Field::ListsHop => others.hop = number?,
                Field::Walker => walker = number?,
                Field::Parameter => parameters.push(value),
            }
        }
        if ranges.len() > MAX_RANGES {
            return Err(InvalidWalker { reason: "more than four ranges" });
        }
        let walker = match kind.and_then(|kind| u16::try_from(kind).ok()) {
            Some(kind::UNAVAILABLE) => FrameWalker::UNAVAILABLE,
            Some(kind::UNKNOWN) => FrameWalker::UNKNOWN,
            Some(kind::LIST) => list.build()?,
            Some(kind::WITH_PARAMETERS) => {
                let path = (list.path.count > 0).then_some(list.path);
                FrameWalker::with_parameters(walker, path, &parameters)?
            }
            _ => return Err(InvalidWalker { reason: "a walker of an unknown kind" }),
        };
        Ok(walker.with_ranges(ranges))
    }
}

impl fmt::Display for FrameWalker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, value)) in self.fields().into_iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            let name = Field::ALL.iter().find(|(other, _)| *other == field).map_or("", |(_, name)| name);
            write!(f, "{space}{name}={value:x}")?;
        }
        Ok(())
    }
}

impl FromStr for FrameWalker {
    type Err = InvalidWalker;

    fn from_str(text: &str) -> Result<FrameWalker, InvalidWalker> {
        FrameWalker::from_fields(text.split_whitespace().map(|word| {
            let (name, value) = word.split_once('=').ok_or(UNKNOWN_FIELD)?;
            let (field, _) = Field::ALL.iter().find(|(_, other)| *other == name).ok_or(UNKNOWN_FIELD)?;
            let value = u64::from_str_radix(value, 16);
            Ok((
                *field,
                value.map_err(|_| InvalidWalker { reason: "a value that is no hexadecimal number" })?,
            ))
        }))
    }
}

impl FramePath {
    /// Path from the thread pointer (the base of `fs` on x86_64, `tpidr_el0` on arm64).
    pub fn from_thread_pointer(offsets: &[i64]) -> FramePath {
        FramePath::new(from::THREAD, offsets)
    }

    /// Path from the stack pointer of the loop's frame on the native stack. It is taken anew for each such frame.
    #[doc(hidden)]
    pub fn from_stack_pointer(offsets: &[i64]) -> FramePath {
        FramePath::new(from::STACK, offsets)
    }

    /// Path from the word at an absolute address of the process, for data that all threads share.
    pub fn from_address(address: u64, offsets: &[i64]) -> FramePath {
        FramePath::after(from::ZERO, address, offsets)
    }

    /// Path from the entry of the thread in a list of threads, whose first entry is at `[head]`.
    ///
    /// An entry holds the address of the next one at offset `next` and the thread pointer of its thread at offset
    /// `thread`. At most 256 entries are searched.
    pub fn from_thread_list(head: u64, next: u32, thread: u32, offsets: &[i64]) -> FramePath {
        let mut path = FramePath::after(from::LIST, head, offsets);
        (path.path.next, path.path.thread) = (next, thread);
        path
    }

    /// Path from the entry in use, at `[head]`, if it is that of the thread; else from the entry at the end of `fallback`,
    /// a path from the thread pointer.
    ///
    /// An entry holds the thread pointer of its thread at offset `thread`. With an empty `fallback` the entry is searched
    /// for in the [lists of all interpreters](ListWalker::thread_lists).
    pub fn from_entry_in_use(head: u64, thread: u32, fallback: &[i64], offsets: &[i64]) -> FramePath {
        let mut path = FramePath::after(from::CURRENT, head, fallback);
        (path.path.next, path.path.thread) = (fallback.len() as u32, thread);
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    fn new(from: u32, offsets: &[i64]) -> FramePath {
        let mut path = FramePath { path: Path { from, ..Path::default() }, count: 0 };
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    fn after(from: u32, address: u64, offsets: &[i64]) -> FramePath {
        let mut path = FramePath::new(from, &[address as i64]);
        offsets.iter().for_each(|&offset| path.push(offset));
        path
    }

    fn push(&mut self, offset: i64) {
        if let Some(slot) = self.path.offsets.get_mut(self.count) {
            *slot = offset;
            self.path.hops += 1;
        }
        self.count = self.count.saturating_add(1);
    }

    fn check(&self) -> Result<Path, InvalidWalker> {
        let Path { from, hops, next, .. } = self.path;
        if self.count > HOPS {
            return Err(InvalidWalker { reason: "a path of more than eight offsets" });
        }
        if hops == 0 {
            return Err(InvalidWalker { reason: "a path without an offset" });
        }
        match from {
            from::THREAD | from::ZERO | from::LIST | from::STACK => Ok(self.path),
            from::CURRENT if next < hops => Ok(self.path),
            _ => Err(InvalidWalker { reason: "a path with an unknown start" }),
        }
    }
}

impl ListWalker {
    /// Sets the offset of the caller's frame address in a frame; default 0. A multiple of 8.
    pub fn caller(mut self, offset: u32) -> ListWalker {
        self.frames.caller = offset;
        self
    }

    /// Sets the offset of the function's address in a frame; default 0. A multiple of 8.
    pub fn function(mut self, offset: u32) -> ListWalker {
        self.frames.function = offset;
        self
    }

    /// Sets the bits of the function's word that are its address, for words with tag bits; default all.
    pub fn function_mask(mut self, mask: u64) -> ListWalker {
        self.frames.function_mask = mask;
        self
    }

    /// Sets the offset of a four-byte number in a frame as its position, such as a line or a bytecode index. This is the
    /// default, at offset 0. A multiple of 4.
    pub fn position_number(mut self, offset: u32) -> ListWalker {
        (self.frames.position, self.frames.position_kind) = (offset, position::NUMBER);
        self
    }

    /// Sets the offset of an address in a frame as its position; the position is its distance from the function's address.
    /// A multiple of 8.
    pub fn position_address(mut self, offset: u32) -> ListWalker {
        (self.frames.position, self.frames.position_kind) = (offset, position::ADDRESS);
        self
    }

    /// Sets the offset of a four-byte number in a function that no other function at the same address has, such as a serial
    /// number. Frames carry its low 24 bits as the check. By default there is no check. A multiple of 4.
    pub fn identity_number(mut self, offset: u32) -> ListWalker {
        (self.frames.check, self.identity_words) = (offset, None);
        self
    }

    /// Sets the offset of 1 to 3 words in a function that no other function at the same address has. Frames carry a 24-bit
    /// hash of them as the check. A multiple of 8.
    pub fn identity_words(mut self, offset: u32, count: u32) -> ListWalker {
        (self.frames.check, self.identity_words) = (offset, Some(count));
        self
    }

    /// Ends the run of frames of one interpreter loop with a frame whose byte at `offset`, masked with `mask`, is at least
    /// `value`. By default a run is one frame.
    pub fn run_ends_with(mut self, offset: u32, mask: u8, value: u8) -> ListWalker {
        self.set_end(run::WITH_MARKED, offset, mask, value);
        self
    }

    /// Ends the run of frames of one interpreter loop before a frame whose byte at `offset`, masked with `mask`, is at least
    /// `value`. The marked frame belongs to the loop itself and produces no output frame.
    pub fn run_ends_before(mut self, offset: u32, mask: u8, value: u8) -> ListWalker {
        self.set_end(run::BEFORE_MARKED, offset, mask, value);
        self
    }

    fn set_end(&mut self, run: u32, offset: u32, mask: u8, value: u8) {
        let frames = &mut self.frames;
        (frames.run, frames.end) = (run, offset);
        (frames.end_mask, frames.end_value) = (mask.into(), value.into());
    }

    /// Sets the lists of thread states of all interpreters. When a list of frames ends and the stack still has loops, the
    /// walk continues with another entry of the thread.
    ///
    /// The first `hops_to_entry` offsets of the path lead to an entry, the others from there to the innermost frame.
    pub fn thread_lists(mut self, lists: ThreadLists, hops_to_entry: usize) -> ListWalker {
        self.others = Others { hop: u32::try_from(hops_to_entry).unwrap_or(u32::MAX), ..lists.0 };
        self
    }

    /// Checks the parameters and returns the walker.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if the path is empty or has more than eight offsets, a field is not aligned or lies beyond the
    /// first 128 bytes of a frame, or the identity or the lists are out of bounds.
    pub fn build(self) -> Result<FrameWalker, InvalidWalker> {
        let top = self.path.check()?;
        let mut frames = self.frames;
        let position_size = match frames.position_kind {
            position::NUMBER => 4,
            position::ADDRESS => 8,
            _ => return Err(InvalidWalker { reason: "a position of an unknown kind" }),
        };
        let end_size = match frames.run {
            run::ONE => 0,
            run::WITH_MARKED | run::BEFORE_MARKED => 1,
            _ => return Err(InvalidWalker { reason: "a run of an unknown kind" }),
        };
        let fields = [
            (frames.caller, 8),
            (frames.function, 8),
            (frames.position, position_size),
            (frames.end, end_size),
        ];
        frames.size = 0;
        for (offset, size) in fields {
            if size > 0 && !offset.is_multiple_of(size) {
                return Err(InvalidWalker { reason: "a field of a frame that isn't aligned" });
            }
            let end = offset.checked_add(size).and_then(|end| end.checked_next_multiple_of(8));
            frames.size = frames.size.max(end.unwrap_or(u32::MAX));
        }
        if frames.size as usize > FRAME_BYTES {
            return Err(InvalidWalker { reason: "a field beyond the first 128 bytes of a frame" });
        }
        let check_words = self.check_identity()?;
        let others = self.others;
        if others.head != 0 && !(1..top.hops).contains(&others.hop) {
            return Err(InvalidWalker { reason: "lists of threads whose entries the path doesn't lead to" });
        }
        let loops = [[0; 2]; LOOPS];
        let interpreter = Interpreter { loops, top, frames, others, check_words, reserved: 0 };
        Ok(FrameWalker(Description { interpreter, ..FrameWalker::UNAVAILABLE.0 }))
    }

    fn check_identity(&self) -> Result<u32, InvalidWalker> {
        let (offset, words) = (self.frames.check, self.identity_words);
        if offset == NO_CHECK {
            return Ok(0);
        }
        if offset > MAX_IDENTITY_OFFSET || !offset.is_multiple_of(if words.is_some() { 8 } else { 4 }) {
            return Err(InvalidWalker { reason: "an identity that isn't aligned or beyond 64 KiB" });
        }
        match words {
            None => Ok(0),
            Some(words @ 1..=CHECK_WORDS) => Ok(words),
            Some(_) => Err(InvalidWalker { reason: "an identity of 0 or more than three words" }),
        }
    }
}

impl ThreadLists {
    /// Lists of the interpreters whose first one is at `[head]`.
    pub fn new(head: u64) -> ThreadLists {
        ThreadLists(Others { head, ..Others::default() })
    }

    /// Sets the offset, within an interpreter, of the pointer to the next interpreter.
    #[must_use]
    pub fn next(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { next: offset, ..self.0 })
    }

    /// Sets the offset, within an interpreter, of the pointer to its first entry.
    #[must_use]
    pub fn entries(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { entries: offset, ..self.0 })
    }

    /// Sets the offset, within an entry, of the pointer to the next entry.
    #[must_use]
    pub fn link(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { link: offset, ..self.0 })
    }

    /// Sets the offset of the thread pointer in an entry.
    #[must_use]
    pub fn thread(self, offset: u32) -> ThreadLists {
        ThreadLists(Others { thread: offset, ..self.0 })
    }
}

impl InvalidWalker {
    /// Returns the rejected parameter and its limit.
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for InvalidWalker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.reason)
    }
}

impl std::error::Error for InvalidWalker {}

const TRUNCATED: InvalidWalker = InvalidWalker { reason: "a walker whose fields are truncated" };

const UNKNOWN_FIELD: InvalidWalker = InvalidWalker { reason: "a walker with an unknown field" };

/// Bits of a check that a frame carries.
const CHECK_BITS: u32 = 0xff_ffff;

/// Hashes up to three words as the kernel side does.
fn fold(words: &[u64; CHECK_WORDS as usize], count: u32) -> u32 {
    ebpf_programs::abi::interpreter::fold(words, count) & CHECK_BITS
}

/// Kinds of walkers.
mod kind {
    pub(super) const UNAVAILABLE: u16 = 0;
    pub(super) const UNKNOWN: u16 = 1;
    pub(super) const LIST: u16 = 2;
    pub(super) const WITH_PARAMETERS: u16 = 3;
}

/// Fields of the encoding, by number. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Field {
    Kind = 1,
    RangeStart = 2,
    RangeEnd = 3,
    Start = 16,
    Hop = 17,
    StartNext = 18,
    StartThread = 19,
    FrameCaller = 20,
    FrameFunction = 21,
    FunctionMask = 22,
    FramePosition = 23,
    PositionKind = 24,
    Identity = 25,
    IdentityWords = 26,
    Run = 27,
    RunEnd = 28,
    RunEndMask = 29,
    RunEndValue = 30,
    ListsHead = 31,
    ListsNext = 32,
    ListsEntries = 33,
    ListsLink = 34,
    ListsThread = 35,
    ListsHop = 36,
    Walker = 48,
    Parameter = 49,
}

impl Field {
    /// All fields with their names in text.
    const ALL: [(Field, &'static str); 26] = [
        (Field::Kind, "kind"),
        (Field::RangeStart, "range_start"),
        (Field::RangeEnd, "range_end"),
        (Field::Start, "start"),
        (Field::Hop, "hop"),
        (Field::StartNext, "start_next"),
        (Field::StartThread, "start_thread"),
        (Field::FrameCaller, "frame_caller"),
        (Field::FrameFunction, "frame_function"),
        (Field::FunctionMask, "function_mask"),
        (Field::FramePosition, "frame_position"),
        (Field::PositionKind, "position_kind"),
        (Field::Identity, "identity"),
        (Field::IdentityWords, "identity_words"),
        (Field::Run, "run"),
        (Field::RunEnd, "run_end"),
        (Field::RunEndMask, "run_end_mask"),
        (Field::RunEndValue, "run_end_value"),
        (Field::ListsHead, "lists_head"),
        (Field::ListsNext, "lists_next"),
        (Field::ListsEntries, "lists_entries"),
        (Field::ListsLink, "lists_link"),
        (Field::ListsThread, "lists_thread"),
        (Field::ListsHop, "lists_hop"),
        (Field::Walker, "walker"),
        (Field::Parameter, "parameter"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> FrameWalker {
        FrameWalker::list(FramePath::from_entry_in_use(0x1000, 144, &[16, -8], &[24]))
            .caller(48)
            .function(32)
            .function_mask(!7)
            .position_address(56)
            .identity_words(112, 3)
            .run_ends_before(70, 0xff, 3)
            .thread_lists(ThreadLists::new(0x2000).next(8).entries(72).link(16).thread(136), 3)
            .build()
            .unwrap()
            .with_ranges([0x40_0000..0x40_1000, 0x50_0000..0x50_0100])
    }

    fn minimal() -> FrameWalker {
        FrameWalker::list(FramePath::from_address(0x1000, &[])).function(8).build().unwrap()
    }

    #[test]
    fn bytes_and_text_round_trip() {
        let own = FrameWalker::with_parameters(walker::V8, None, &[7, 0, u64::MAX]).unwrap();
        let path = FramePath::from_thread_pointer(&[-8, 16]);
        let beside = FrameWalker::with_parameters(walker::RUBY, Some(path), &[1; PARAMETERS]).unwrap();
        for walker in [full(), minimal(), own, beside, FrameWalker::UNAVAILABLE, FrameWalker::UNKNOWN] {
            assert_eq!(FrameWalker::from_bytes(&walker.to_bytes()), Ok(walker));
            assert_eq!(walker.to_string().parse(), Ok(walker), "{walker}");
        }
        assert_eq!(minimal().to_string(), "kind=2 start=2 hop=1000 frame_function=8");
    }

    #[test]
    fn rejects_truncated_bytes_other_versions_and_unknown_fields() {
        let bytes = full().to_bytes();
        for len in 0..bytes.len() {
            assert!(FrameWalker::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            FrameWalker::from_bytes(&bytes)
        };
        assert!(changed(0, 2).is_err());
        assert_eq!(changed(4, 99), Err(UNKNOWN_FIELD));
        // An unknown kind of walker.
        assert!(changed(6, 9).is_err());
        assert!(FrameWalker::with_parameters(walker::LIST, None, &[]).is_err());
        assert!(FrameWalker::with_parameters(walker::V8, None, &[0; PARAMETERS + 1]).is_err());
        for text in ["", "kind", "kind=2", "kind=x", "kind=2 start=1", "kind=0 tail=1", "kind=0 range_end=1"]
        {
            assert!(text.parse::<FrameWalker>().is_err(), "{text}");
        }
    }

    #[test]
    fn build_rejects_what_the_kernel_side_cannot_read() {
        let list = || FrameWalker::list(FramePath::from_thread_pointer(&[8]));
        assert!(list().build().is_ok());
        assert!(list().caller(120).build().is_ok());
        for bad in [
            FrameWalker::list(FramePath::from_thread_pointer(&[])),
            FrameWalker::list(FramePath::from_thread_pointer(&[0; 9])),
            FrameWalker::list(FramePath::from_entry_in_use(8, 0, &[0; 8], &[8])),
            list().caller(4),
            list().caller(128),
            list().function(u32::MAX),
            list().position_number(2),
            list().position_address(4),
            list().run_ends_with(128, 1, 1),
            list().identity_number(2),
            list().identity_number(1 << 20),
            list().identity_words(8, 0),
            list().identity_words(8, 4),
            list().thread_lists(ThreadLists::new(8), 0),
            list().thread_lists(ThreadLists::new(8), 1),
        ] {
            assert!(bad.clone().build().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn check_is_number_or_hash_of_words() {
        let word = |address: u64| Ok::<_, ()>(address << 32 | 0xff00_0000 | address);
        let with = |list: ListWalker| list.build().unwrap().check(0x1000, word).unwrap();
        let list = || FrameWalker::list(FramePath::from_thread_pointer(&[8]));
        assert_eq!(with(list()), 0);
        assert_eq!(with(list().identity_number(8)), 0x1008);
        assert_eq!(with(list().identity_number(12)), 0x1008);
        let words = [0x1008, 0x1010, 0].map(|address| if address > 0 { word(address).unwrap() } else { 0 });
        assert_eq!(with(list().identity_words(8, 2)), fold(&words, 2));
    }
}
