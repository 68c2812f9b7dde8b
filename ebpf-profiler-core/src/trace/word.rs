//! Words of frames, as walkers emit them.
//!
//! ```text
//!             63     62      61   60           59     58   57             56 … 48   47 … 0
//!   native    exact  guessed bare              -      loop                address
//!   call      -      guessed -    interpreted  -      interpreter (57…56) shape     address
//!   detail                                     detail      named by caller  check (55…32), position
//! ```

use ebpf_programs::abi::interpreter::MAX;
use ebpf_programs::abi::record::frame;

use super::Found;

/// A [word](ebpf_programs::abi::record) of a walk: a native frame, or one of the two words of an
/// interpreter frame, its call and its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameWord(pub(crate) u64);

impl FrameWord {
    /// Returns the word of a leaf, whose next instruction is at `pc`.
    pub(crate) fn leaf(pc: u64) -> FrameWord {
        FrameWord(pc & frame::ADDRESS).exact()
    }

    fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    /// Returns `true` for a native frame.
    pub(crate) fn is_native(self) -> bool {
        !self.has(frame::INTERPRETED | frame::DETAIL)
    }

    /// Returns `true` for the first word of an interpreter frame.
    pub(crate) fn is_call(self) -> bool {
        self.has(frame::INTERPRETED)
    }

    /// Returns `true` for the second word of an interpreter frame.
    pub(crate) fn is_detail(self) -> bool {
        self.has(frame::DETAIL)
    }

    /// Returns the address of the code, or the function, of a native frame or a call.
    pub(crate) fn address(self) -> u64 {
        self.0 & frame::ADDRESS
    }

    /// Returns the address of a call without the shape of its frame.
    pub(crate) fn code_address(self) -> u64 {
        self.0 & ((1 << frame::SHAPE_SHIFT) - 1)
    }

    /// Returns `true` if a native frame has the address of its next instruction, not of a call.
    pub(crate) fn is_exact(self) -> bool {
        self.has(frame::EXACT)
    }

    /// Returns the word, marked as having the address of its next instruction.
    pub(crate) fn exact(self) -> FrameWord {
        FrameWord(self.0 | frame::EXACT)
    }

    /// Returns `true` if the frame was found without unwind data.
    pub(crate) fn is_guessed(self) -> bool {
        self.has(frame::GUESSED)
    }

    /// Returns `true` if a native frame is one of an interpreter loop.
    pub(crate) fn is_loop(self) -> bool {
        self.has(frame::LOOP)
    }

    /// Returns how a native frame was found.
    pub(crate) fn found(self) -> Found {
        match self {
            word if word.is_guessed() => Found::Guessed,
            word if word.is_exact() => Found::Uncalled,
            _ => Found::Exactly,
        }
    }

    /// Returns the index of the interpreter of a call.
    pub(crate) fn interpreter(self) -> usize {
        (self.0 >> frame::INTERPRETER_SHIFT) as usize & (MAX - 1)
    }

    /// Returns the check of a detail: bits that tell its function from another one at the address.
    pub(crate) fn check(self) -> u32 {
        (self.0 >> 32 & frame::CHECK) as u32
    }

    /// Returns the position of a detail in its function.
    pub(crate) fn position(self) -> u32 {
        self.0 as u32
    }

    /// Returns `true` for a detail whose function is named by the call in the next frame.
    pub(crate) fn is_named_by_caller(self) -> bool {
        self.has(frame::NAMED_BY_CALLER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_frames_have_an_address_and_how_it_was_found() {
        let leaf = FrameWord::leaf(0xff00_0000_0000_1234);
        assert_eq!((leaf.address(), leaf.found(), leaf.is_native()), (0x1234, Found::Uncalled, true));
        let called = FrameWord(0x1234);
        assert_eq!((called.found(), called.exact()), (Found::Exactly, leaf));
        let guessed = FrameWord(frame::GUESSED | frame::LOOP | 0x1234);
        assert_eq!((guessed.found(), guessed.is_loop()), (Found::Guessed, true));
    }

    #[test]
    fn interpreter_frames_have_two_words() {
        let call =
            FrameWord(frame::INTERPRETED | 3 << frame::INTERPRETER_SHIFT | 7 << frame::SHAPE_SHIFT | 0x1234);
        assert!(call.is_call() && !call.is_detail() && !call.is_native());
        assert_eq!((call.interpreter(), call.code_address()), (3, 0x1234));
        assert_eq!(call.address(), 7 << frame::SHAPE_SHIFT | 0x1234);
        let detail = FrameWord(frame::DETAIL | frame::NAMED_BY_CALLER | 0xab_cdef << 32 | 42);
        assert!(
            detail.is_detail() && !detail.is_call() && !detail.is_native() && detail.is_named_by_caller()
        );
        assert_eq!((detail.check(), detail.position()), (0xab_cdef, 42));
    }
}
