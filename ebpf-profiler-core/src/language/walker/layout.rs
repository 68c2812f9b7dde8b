//! The fields of a frame that builders share.

use ebpf_programs::abi::contents::{COUNT, MAX_WORDS};
use ebpf_programs::abi::interpreter::{CHECK_WORDS, FRAME_BYTES, Frames, NO_CHECK, position, run};

use super::InvalidWalker;

/// Maximum distance of the identity of a function from its address, in bytes.
const MAX_IDENTITY_OFFSET: u32 = 1 << 16;

/// Layout of a frame, and the identity of its function.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) frames: Frames,
    pub(super) identity_words: Option<u32>,
    /// [Contents](ebpf_programs::abi::contents) that identify the function; 0 for none.
    pub(super) contents: u32,
}

impl Layout {
    /// A layout whose offsets are 0.
    pub(super) fn new() -> Layout {
        let frames = Frames { function_mask: !0, check: NO_CHECK, run: run::ONE, ..Frames::default() };
        Layout { frames, identity_words: None, contents: 0 }
    }

    pub(super) fn set_end(&mut self, run: u32, offset: u32, mask: u8, value: u8) {
        let frames = &mut self.frames;
        (frames.run, frames.end) = (run, offset);
        (frames.end_mask, frames.end_value) = (mask.into(), value.into());
    }

    /// Checks the fields of a frame in memory. Returns the layout with its size, and the number of
    /// words of the identity.
    pub(super) fn check(&self) -> Result<(Frames, u32), InvalidWalker> {
        let mut frames = self.frames;
        let position_size = match frames.position_kind {
            position::NUMBER => 4,
            position::ADDRESS => 8,
            kind => return Err(InvalidWalker::of("kind of the position", kind.into(), "unknown")),
        };
        let end_size = match frames.run {
            run::ONE => 0,
            run::WITH_MARKED | run::BEFORE_MARKED | run::BEFORE_MARKED_TO_BASE => 1,
            kind => return Err(InvalidWalker::of("kind of the run", kind.into(), "unknown")),
        };
        let fields = [
            ("offset of the caller", frames.caller, 8),
            ("offset of the function", frames.function, 8),
            ("offset of the position", frames.position, position_size),
            ("offset of the mark that ends a run", frames.end, end_size),
        ];
        frames.size = 0;
        for (name, offset, size) in fields {
            if size > 0 && !offset.is_multiple_of(size) {
                let reason = if size == 4 { "not a multiple of 4" } else { "not a multiple of 8" };
                return Err(InvalidWalker::of(name, offset.into(), reason));
            }
            let end = offset.checked_add(size).and_then(|end| end.checked_next_multiple_of(8));
            let end = end.filter(|&end| end as usize <= FRAME_BYTES);
            let end =
                end.ok_or(InvalidWalker::of(name, offset.into(), "beyond the first 256 bytes of a frame"))?;
            frames.size = frames.size.max(end);
        }
        Ok((frames, self.check_identity()?))
    }

    /// Checks the identity of the function. Returns the number of its words, 0 for a number of four
    /// bytes.
    pub(super) fn check_identity(&self) -> Result<u32, InvalidWalker> {
        let (offset, words) = (self.frames.check, self.identity_words);
        if offset == NO_CHECK {
            return Ok(0);
        }
        let invalid = |reason| Err(InvalidWalker::of("offset of the identity", offset.into(), reason));
        match words {
            _ if offset > MAX_IDENTITY_OFFSET => invalid("beyond 64 KiB"),
            _ if self.contents != 0 && !offset.is_multiple_of(8) => invalid("not a multiple of 8"),
            _ if self.contents >> COUNT.0 & COUNT.1 > MAX_WORDS => invalid("more than 16 words"),
            _ if self.contents > CHECK_WORDS => Ok(self.contents),
            None if !offset.is_multiple_of(4) => invalid("not a multiple of 4"),
            Some(_) if !offset.is_multiple_of(8) => invalid("not a multiple of 8"),
            None => Ok(0),
            Some(words @ 1..=CHECK_WORDS) => Ok(words),
            Some(words) => Err(InvalidWalker::of("words of the identity", words.into(), "not 1 to 3")),
        }
    }
}

/// Methods of a builder with a field `layout` for frames that the interpreter keeps in memory.
macro_rules! memory_fields {
    ($builder:ident) => {
        impl $builder {
            /// Sets the offset of the function's address in a frame; default 0. A multiple of 8.
            pub fn function(mut self, offset: u32) -> $builder {
                self.layout.frames.function = offset;
                self
            }

            /// Sets the offset of a four-byte number in a frame as its position, such as a line or a
            /// bytecode index. This is the default, at offset 0. A multiple of 4.
            pub fn position_number(mut self, offset: u32) -> $builder {
                let frames = &mut self.layout.frames;
                (frames.position, frames.position_kind) = (offset, position::NUMBER);
                self
            }

            /// Sets the offset of an address in a frame as its position; the position is its distance from
            /// the function's address. A multiple of 8.
            pub fn position_address(mut self, offset: u32) -> $builder {
                let frames = &mut self.layout.frames;
                (frames.position, frames.position_kind) = (offset, position::ADDRESS);
                self
            }

            /// Ends the run of frames of one interpreter loop with a frame whose byte at `offset`, masked
            /// with `mask`, is at least `value`. By default a run is one frame.
            pub fn run_ends_with(mut self, offset: u32, mask: u8, value: u8) -> $builder {
                self.layout.set_end(run::WITH_MARKED, offset, mask, value);
                self
            }

            /// Ends the run of frames of one interpreter loop before a frame whose byte at `offset`, masked
            /// with `mask`, is at least `value`. The marked frame belongs to the loop itself and
            /// produces no output frame.
            pub fn run_ends_before(mut self, offset: u32, mask: u8, value: u8) -> $builder {
                self.layout.set_end(run::BEFORE_MARKED, offset, mask, value);
                self
            }

            /// Ends runs as [`run_ends_before`](Self::run_ends_before) does, in lists whose outermost frame
            /// is a marked one that belongs to no loop.
            pub fn run_ends_before_to_base(mut self, offset: u32, mask: u8, value: u8) -> $builder {
                self.layout.set_end(run::BEFORE_MARKED_TO_BASE, offset, mask, value);
                self
            }
        }
    };
}

/// Methods of a builder with a field `layout` for the word that names a function.
macro_rules! function_fields {
    ($builder:ident) => {
        impl $builder {
            /// Sets the bits of the function's word that are its address, for words with tag bits; default
            /// all.
            pub fn function_mask(mut self, mask: u64) -> $builder {
                self.layout.frames.function_mask = mask;
                self
            }

            /// Sets the offset of a four-byte number in a function that no other function at the same
            /// address has, such as a serial number. Frames carry its low 24 bits as the check. By
            /// default there is no check. A multiple of 4.
            pub fn identity_number(mut self, offset: u32) -> $builder {
                (self.layout.frames.check, self.layout.identity_words) = (offset, None);
                self
            }

            /// Sets the offset of 1 to 3 words in a function that no other function at the same address
            /// has. Frames carry a 24-bit hash of them as the check. A multiple of 8.
            pub fn identity_words(mut self, offset: u32, count: u32) -> $builder {
                (self.layout.frames.check, self.layout.identity_words) = (offset, Some(count));
                self
            }

            /// Sets the offset of words in a function, and the [contents](ebpf_programs::abi::contents)
            /// that identify it.
            #[doc(hidden)]
            pub fn identity_contents(mut self, offset: u32, contents: u32) -> $builder {
                (self.layout.frames.check, self.layout.contents) = (offset, contents);
                self
            }
        }
    };
}

pub(super) use {function_fields, memory_fields};
