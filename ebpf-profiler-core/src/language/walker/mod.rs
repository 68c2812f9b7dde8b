//! Walkers of the kernel side and their parameters, as a runtime describes them.
//!
//! ```text
//!   path       from a thread to its innermost frame
//!   layout     fields of a frame
//!   list       frames in a linked list
//!   array      frames in an array
//!   compiled   frames of compiled code on the native stack
//!   check      contents of a function that identify it
//!   encoding   walkers as bytes and text
//! ```

mod path;

mod layout;

mod list;

mod array;

mod compiled;

mod encoding;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;

use ebpf_programs::abi::contents::TEXTS;
use ebpf_programs::abi::interpreter::{
    CHECK_WORDS, Description, Frames, HOPS, Interpreter, LOOPS, NO_CHECK, Others, PARAMETERS, Path, from,
    position, run, walker,
};
use ebpf_programs::walk::identity::{LastText, texts};

pub use array::ArrayWalker;
pub use compiled::CompiledWalker;
pub use list::{ListWalker, ThreadLists};
pub use path::FramePath;

use super::{Memory, Unreadable, Words};

/// Maximum number of address ranges of an interpreter loop.
pub const MAX_RANGES: usize = LOOPS;

/// The walker that takes a runtime's frames in the kernel, with its parameters.
///
/// | a runtime's frames | walker |
/// | --- | --- |
/// | a linked list in memory | [`FrameWalker::list`] |
/// | elements of an array in memory | [`FrameWalker::array`] |
/// | on the native stack, in code that it compiles | [`FrameWalker::compiled`] |
///
/// Parameters are checked once, in `build`.
///
/// # Examples
///
/// A runtime with a thread-local pointer to its innermost frame, `struct frame { frame *caller;
/// function *function; int line; }`, one frame per call of the interpreter loop:
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
    parameter: &'static str,
    value: Option<i64>,
    reason: &'static str,
}

impl FrameWalker {
    /// Begins the description of frames in a linked list, whose innermost frame is at the end of
    /// `path`.
    pub fn list(path: FramePath) -> ListWalker {
        ListWalker::new(path)
    }

    /// Begins the description of frames in an array, each of `size` bytes. `path` leads to the
    /// innermost frame.
    ///
    /// # Examples
    ///
    /// A virtual machine whose address is in a global variable, `struct vm { frame *frames; frame
    /// *top; }`, where `top` is the first free element, with `struct frame { function
    /// *function; int line; }`:
    ///
    /// ```
    /// use ebpf_profiler_core::language::{FramePath, FrameWalker};
    ///
    /// let walker = FrameWalker::array(FramePath::from_address(0x55d0_1000, &[8]), 16)
    ///     .path_to_free()
    ///     .outermost(-8)
    ///     .function(0)
    ///     .position_number(8)
    ///     .build()?;
    /// # Ok::<(), ebpf_profiler_core::language::InvalidWalker>(())
    /// ```
    pub fn array(path: FramePath, size: u32) -> ArrayWalker {
        ArrayWalker::new(path, size)
    }

    /// Begins the description of frames of compiled code, which links them by the frame pointer.
    /// The code is in [ranges](super::CodeRanges) that the runtime owns.
    ///
    /// # Examples
    ///
    /// Code that begins with `push rbp; mov rbp, rsp; push rdi`, where `rdi` holds the address of
    /// the function:
    ///
    /// ```
    /// use ebpf_profiler_core::language::FrameWalker;
    ///
    /// let walker = FrameWalker::compiled()
    ///     .function_in_frame(-8)
    ///     .prologue(5)
    ///     .function_at_entry(5)
    ///     .identity_number(12)
    ///     .build()?;
    /// let error = FrameWalker::compiled().function_in_frame(-4).build().unwrap_err();
    /// assert_eq!(error.to_string(), "distance of the function -4: not a multiple of 8");
    /// # Ok::<(), ebpf_profiler_core::language::InvalidWalker>(())
    /// ```
    pub fn compiled() -> CompiledWalker {
        CompiledWalker::new()
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

    /// Returns a walker that the kernel side has for one runtime, by its number, with the
    /// parameters that it reads. `path` leads to the innermost frame, for frames beside the
    /// native stack.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] for the number of a described walker, more than 32 parameters, or an
    /// invalid path.
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
        let too_many = InvalidWalker::of("parameters", parameters.len() as u64, "more than 32");
        room.ok_or(too_many)?.copy_from_slice(parameters);
        if number >= u32::BITS || walker::GENERIC >> number & 1 != 0 {
            return Err(InvalidWalker::of("walker", number.into(), "not one of a runtime"));
        }
        walker.0.walker = number;
        Ok(walker)
    }

    /// Replaces the address ranges of the interpreter loop; ranges beyond [`MAX_RANGES`] are
    /// dropped.
    ///
    /// The profiler sets them from [`Runtime::loops`](super::Runtime::loops), so an implementation
    /// of `attach` doesn't.
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
        if interpreter.check_words > CHECK_WORDS {
            let (word, error) = (RefCell::new(word), Cell::new(None));
            let memory = |address: u64, buffer: &mut [u8]| {
                for (index, bytes) in (0..).zip(buffer.chunks_mut(8)) {
                    let word = (word.borrow_mut())(address.wrapping_add(8 * index));
                    let word = word.map_err(|it| error.set(Some(it))).map_err(|()| Unreadable)?;
                    bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
                }
                Ok(())
            };
            let check = self.check_of_contents(at, u32::MAX, &memory);
            return match (check, error.into_inner()) {
                (Err(Unreadable), Some(error)) => Err(error),
                (check, _) => Ok(check.unwrap_or(0)),
            };
        }
        if interpreter.check_words == 0 {
            // The aligned word holds all four bytes, unless the function isn't aligned itself.
            let (at, shift) = if at & 3 == 0 { (at & !7, (at & 4) * 8) } else { (at, 0) };
            return Ok((word(at)? >> shift) as u32 & CHECK_BITS);
        }
        let mut words = [0; CHECK_WORDS as usize];
        for (index, slot) in (0..u64::from(interpreter.check_words)).zip(&mut words) {
            *slot = word(at.wrapping_add(8 * index))?;
        }
        Ok(fold(&words, interpreter.check_words))
    }

    /// Returns `true` if the function at `address` has the check that a frame carries, whatever
    /// hashes of its texts were computed since.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] unless the function is mapped.
    #[doc(hidden)]
    pub fn has(&self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Unreadable> {
        let interpreter = &self.0.interpreter;
        let check = check & CHECK_BITS;
        if interpreter.check_words <= CHECK_WORDS {
            return Ok(self.check(address, |at| memory.u64(at))? == check);
        }
        let at = address.wrapping_add(interpreter.frames.check.into());
        for hashed in (0..1 << TEXTS).rev() {
            if self.check_of_contents(at, hashed, memory)? == check {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the check of a function with [contents](ebpf_programs::abi::contents) from `start`
    /// on. `hashed` are the texts whose hashes are used, a bit for each.
    fn check_of_contents(&self, start: u64, hashed: u32, memory: &dyn Memory) -> Result<u32, Unreadable> {
        let (contents, last) = (self.0.interpreter.check_words, &mut LastText::default());
        let check = texts::check(&mut Words::new(memory), start, contents, hashed, last);
        Ok(check.ok_or(Unreadable)? & CHECK_BITS)
    }

    /// Returns `true` if the walker is one of those that describe any runtime.
    pub(crate) fn is_described(&self) -> bool {
        walker::GENERIC >> (self.0.walker & 31) & 1 != 0
    }

    /// Returns `true` if the walker is described, and its frames carry a check of their function.
    pub(crate) fn has_check(&self) -> bool {
        self.is_described() && self.0.interpreter.frames.check != NO_CHECK
    }

    /// Returns the struct that the kernel side reads.
    #[doc(hidden)]
    pub fn abi(&self) -> &Description {
        &self.0
    }
}

impl InvalidWalker {
    const fn new(parameter: &'static str, reason: &'static str) -> InvalidWalker {
        InvalidWalker { parameter, value: None, reason }
    }

    const fn of(parameter: &'static str, value: u64, reason: &'static str) -> InvalidWalker {
        InvalidWalker { parameter, value: Some(value as i64), reason }
    }

    /// Returns the rejected parameter.
    pub fn parameter(&self) -> &'static str {
        self.parameter
    }

    /// Returns its limit, or the reason for which it was rejected.
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

/// `parameter value: reason`
impl fmt::Display for InvalidWalker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parameter)?;
        if let Some(value) = self.value {
            write!(f, " {value}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for InvalidWalker {}

/// Bits of a check that a frame carries.
const CHECK_BITS: u32 = 0xff_ffff;

/// Hashes up to three words as the kernel side does.
fn fold(words: &[u64; CHECK_WORDS as usize], count: u32) -> u32 {
    ebpf_programs::abi::interpreter::fold(words, count) & CHECK_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

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
