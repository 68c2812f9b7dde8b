//! Frames of compiled code on the native stack.

use ebpf_programs::abi::compiled::{MAX_PROLOGUE, function, parameter, position};
use ebpf_programs::abi::interpreter::{Description, Interpreter, PARAMETERS, walker};

use super::layout::{Layout, function_fields};
use super::{FrameWalker, InvalidWalker};

/// Maximum distance of a word from the frame pointer, in bytes.
const MAX_DISTANCE: i64 = 1 << 16;

/// Sizes of blocks of code.
const BLOCKS: std::ops::RangeInclusive<u64> = 64..=1 << 30;

/// Builder of a [`FrameWalker`] for compiled code that links its frames by the frame pointer; see
/// [`FrameWalker::compiled`].
///
/// ```text
///   push rbp                ┐
///   mov rbp, rsp            ├ the prologue; at the leaf, no word of the frame is read within it
///   push rdi                ┘ the word that names the function: function_in_frame(-8)
///   …
///   leave
///   ret
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct CompiledWalker {
    pub(super) layout: Layout,
    pub(super) parameters: [u64; PARAMETERS],
}

function_fields!(CompiledWalker);

impl CompiledWalker {
    pub(super) fn new() -> CompiledWalker {
        CompiledWalker { layout: Layout::new(), parameters: [0; PARAMETERS] }
    }

    fn with(mut self, values: impl IntoIterator<Item = (usize, u64)>) -> CompiledWalker {
        values.into_iter().for_each(|(index, value)| self.parameters[index] = value);
        self
    }

    /// The function's address is a word of its frame, at this distance from the frame pointer: a
    /// multiple of 8. A frame with 0 there belongs to no function, and is shown as native code.
    ///
    /// The code stores the word in its [prologue](CompiledWalker::prologue), whose size is needed.
    pub fn function_in_frame(self, distance: i32) -> CompiledWalker {
        let distance = i64::from(distance) as u64;
        self.with([(parameter::FUNCTION, function::IN_FRAME), (parameter::FUNCTION_AT, distance)])
    }

    /// Code is in blocks of `size` bytes, a power of two to which they are aligned, each with one
    /// function. Its address is the word at `offset` in the block.
    pub fn function_in_block(self, size: u32, offset: u32) -> CompiledWalker {
        self.with([
            (parameter::FUNCTION, function::IN_BLOCK),
            (parameter::FUNCTION_AT, offset.into()),
            (parameter::BLOCK, size.into()),
        ])
    }

    /// No word names the function: its address is that of the code.
    /// [`Attached::function`](crate::language::Attached::function) is called for each address
    /// of a frame, and finds the function among those of the runtime. An
    /// [identity](CompiledWalker::identity_words) is made of bytes of the code.
    pub fn function_by_code(self) -> CompiledWalker {
        self.with([(parameter::FUNCTION, function::CODE)])
    }

    /// Sets the number of bytes from the start of `push rbp` to the end of the instruction that
    /// stores the last word that is read of a frame: 4 to 32. For words in frames.
    pub fn prologue(self, size: u32) -> CompiledWalker {
        self.with([(parameter::PROLOGUE, size.into())])
    }

    /// Sets the DWARF number of the register that holds the function's address during the prologue:
    /// 5 is `rdi`. For [functions in frames](CompiledWalker::function_in_frame); otherwise a
    /// leaf in its prologue is shown as native code.
    pub fn function_at_entry(self, register: u8) -> CompiledWalker {
        self.with([(parameter::ENTRY, u64::from(register) + 1)])
    }

    /// The position is a four-byte number in the frame at this distance from the frame pointer, a
    /// multiple of 4. It is 0 in the prologue.
    pub fn position_number(self, distance: i32) -> CompiledWalker {
        let distance = i64::from(distance) as u64;
        self.with([(parameter::POSITION, position::IN_FRAME), (parameter::POSITION_AT, distance)])
    }

    /// The position is the distance of the code from its start, whose address is the word at
    /// `offset` in the function: a multiple of 8. A frame that called another one has the
    /// address of the last byte of the call instruction.
    ///
    /// By default the position is the distance of the code from the address of the function, low 32
    /// bits.
    pub fn position_code(self, offset: u32) -> CompiledWalker {
        self.with([(parameter::POSITION, position::FROM_START), (parameter::POSITION_AT, offset.into())])
    }

    /// Checks the parameters and returns the walker.
    ///
    /// # Errors
    ///
    /// [`InvalidWalker`] if nothing names the function, words are in frames but the size of the
    /// prologue is not set, or a number is out of bounds or not aligned.
    pub fn build(self) -> Result<FrameWalker, InvalidWalker> {
        self.check_function()?;
        let [kind, at, prologue, entry] =
            [parameter::POSITION, parameter::POSITION_AT, parameter::PROLOGUE, parameter::ENTRY]
                .map(|index| self.parameters[index]);
        match kind {
            position::CODE => {}
            position::FROM_START => check_distance("offset of the code", at.wrapping_add(16), 8)?,
            position::IN_FRAME => check_distance("distance of the position", at, 4)?,
            kind => return Err(InvalidWalker::of("kind of the position", kind, "unknown")),
        }
        let is_in_frame = self.parameters[parameter::FUNCTION] == function::IN_FRAME;
        if entry > 32 {
            return Err(InvalidWalker::of("register of the function", entry - 1, "not 0 to 31"));
        }
        if entry != 0 && !is_in_frame {
            return Err(InvalidWalker::new("register of the function", "only for functions in frames"));
        }
        if (is_in_frame || kind == position::IN_FRAME) && !(4..=MAX_PROLOGUE).contains(&prologue) {
            return Err(InvalidWalker::of("size of the prologue", prologue, "not 4 to 32 bytes"));
        }
        if self.parameters[parameter::COUNT..].iter().any(|&word| word != 0) {
            return Err(InvalidWalker::new("parameters of compiled code", "more than are known"));
        }
        let none = FrameWalker::UNAVAILABLE.0;
        let check_words = self.layout.check_identity()?;
        let interpreter = Interpreter { frames: self.layout.frames, check_words, ..none.interpreter };
        let parameters = self.parameters;
        Ok(FrameWalker(Description { interpreter, walker: walker::COMPILED, parameters, ..none }))
    }

    fn check_function(&self) -> Result<(), InvalidWalker> {
        let [kind, at, size] = [parameter::FUNCTION, parameter::FUNCTION_AT, parameter::BLOCK]
            .map(|index| self.parameters[index]);
        match kind {
            0 => Err(InvalidWalker::new(
                "function",
                "not set: call `function_in_frame`, `function_in_block` or `function_by_code`",
            )),
            function::IN_FRAME => check_distance("distance of the function", at, 8),
            function::IN_BLOCK if !size.is_power_of_two() || !BLOCKS.contains(&size) => {
                Err(InvalidWalker::of("size of a block", size, "not a power of two from 64 bytes to 1 GiB"))
            }
            function::IN_BLOCK if at > size - 8 => {
                Err(InvalidWalker::of("offset of the function", at, "beyond the block"))
            }
            function::IN_BLOCK | function::CODE => Ok(()),
            kind => Err(InvalidWalker::of("kind of the function", kind, "unknown")),
        }
    }
}

/// Checks the distance of a word of `size` bytes from the frame pointer.
fn check_distance(name: &'static str, distance: u64, size: i64) -> Result<(), InvalidWalker> {
    let invalid = |reason| Err(InvalidWalker::of(name, distance, reason));
    match distance as i64 {
        0..16 => invalid("the frame's link is there"),
        distance if distance % size != 0 && size == 4 => invalid("not a multiple of 4"),
        distance if distance % size != 0 => invalid("not a multiple of 8"),
        distance if distance.abs() > MAX_DISTANCE => invalid("beyond 64 KiB"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_names_what_is_wrong() {
        let compiled = FrameWalker::compiled;
        let in_frame = || compiled().function_in_frame(-8).prologue(5);
        let error = |it: CompiledWalker| it.build().unwrap_err().to_string();
        assert!(in_frame().build().is_ok() && compiled().function_by_code().build().is_ok());
        assert!(error(compiled()).starts_with("function: not set"));
        for (invalid, message) in [
            (in_frame().prologue(0), "size of the prologue 0: not 4 to 32 bytes"),
            (in_frame().prologue(33), "size of the prologue 33: not 4 to 32 bytes"),
            (in_frame().function_in_frame(-4), "distance of the function -4: not a multiple of 8"),
            (in_frame().function_in_frame(8), "distance of the function 8: the frame's link is there"),
            (in_frame().function_in_frame(1 << 17), "distance of the function 131072: beyond 64 KiB"),
            (in_frame().function_at_entry(32), "register of the function 32: not 0 to 31"),
            (in_frame().position_number(-6), "distance of the position -6: not a multiple of 4"),
            (in_frame().identity_words(0, 4), "words of the identity 4: not 1 to 3"),
            (compiled().function_by_code().position_number(-16), "size of the prologue 0: not 4 to 32 bytes"),
            (
                compiled().function_by_code().function_at_entry(5),
                "register of the function: only for functions in frames",
            ),
            (
                compiled().function_in_block(100, 0),
                "size of a block 100: not a power of two from 64 bytes to 1 GiB",
            ),
            (compiled().function_in_block(4096, 4092), "offset of the function 4092: beyond the block"),
        ] {
            assert_eq!(error(invalid), message);
        }
    }
}
