//! V8: parameters of its walker, shapes of its frames, and checks of its objects.
//!
//! ```text
//!   frame pointer + 8   return address
//!                   0   the caller's frame pointer
//!                 - 8   context, or the type of a frame that isn't JavaScript's: an even number
//!                 -16   JSFunction ──► SharedFunctionInfo, Code
//!                 -24   number of arguments
//!                 -32   BytecodeArray                         interpreted and baseline frames; before 8.7 at -24
//!                 -40   bytecode offset, shifted by 32        interpreted frames
//! ```
//!
//! Pointers to objects are tagged: the lowest bit is 1.

/// Indices of the walker's parameters. Addresses are those in the process.
pub mod parameter {
    /// Start of the embedded builtins.
    pub const BUILTINS: usize = 0;
    /// Size of the embedded builtins, in bytes.
    pub const BUILTINS_SIZE: usize = 1;
    /// Distance of the bytecode handlers, the last of the builtins, from their start.
    pub const HANDLERS: usize = 2;
    /// Distance of `InterpreterEntryTrampoline` from the start of the builtins.
    pub const ENTRY: usize = 3;
    /// Size of `InterpreterEntryTrampoline`, in bytes.
    pub const ENTRY_SIZE: usize = 4;
    /// Distance of the instruction that pushes the frame pointer from the start of `InterpreterEntryTrampoline`.
    pub const ENTRY_FRAME: usize = 5;
    /// Distance of `BaselineOutOfLinePrologue` from the start of the builtins.
    pub const PROLOGUE: usize = 6;
    /// Size of `BaselineOutOfLinePrologue`, in bytes; 0 for none.
    pub const PROLOGUE_SIZE: usize = 7;
    /// Distance of its push of the frame pointer.
    pub const PROLOGUE_FRAME: usize = 8;
    /// Distance of `BaselineLeaveFrame` from the start of the builtins.
    pub const LEAVE: usize = 9;
    /// Size of `BaselineLeaveFrame`, in bytes; 0 for none.
    pub const LEAVE_SIZE: usize = 10;
    /// Packed [offsets](crate::walk::identity::v8::Numbers) that lead to the numbers of scripts and of compilations.
    pub const NUMBERS: usize = 11;
    /// Number of the word from the frame pointer down, from 1 at -8, that holds the bytecode offset.
    pub const OFFSET_WORD: usize = 12;
    /// Offset of the `SharedFunctionInfo` in a `JSFunction`: 24 or 32.
    pub const SHARED: usize = 13;
    /// Offset of the `Code` in a `JSFunction`, from 24 to 48; 0 for none.
    pub const CODE: usize = 14;
    /// Offset of the instructions in a `Code` object that contains them; 0 if it points to them.
    pub const INSTRUCTIONS: usize = 15;
    /// Offset of the size of the instructions in `Code`, from 40 to 60.
    pub const SIZE: usize = 16;
    /// Offset of the flags in `Code`, from 40 to 60.
    pub const FLAGS: usize = 17;
    /// Mask of the kind in these flags.
    pub const KIND_MASK: usize = 18;
    /// Number of bits below the kind.
    pub const KIND_SHIFT: usize = 19;
    /// The kind of baseline code; beyond the mask for none.
    pub const BASELINE: usize = 20;
    // 21 is free.
    /// Mask of the bits of the word behind the script of a `SharedFunctionInfo` that hold its position.
    pub const POSITION_MASK: usize = 22;
    /// Offset of the data of a `SharedFunctionInfo`, which is the baseline code if there is one, or [refers](DATA_CODE) to it.
    pub const DATA: usize = 23;
    /// Address of the process's table of entry points, through which functions refer to code; 0 for none.
    pub const DISPATCH: usize = 24;
    /// Distance of the builtins that continue an interpreted frame from the start of the builtins.
    pub const RESUME: usize = 25;
    /// Size of these builtins, in bytes; 0 for none.
    pub const RESUME_SIZE: usize = 26;
    /// The same for those that baseline code shares with them.
    pub const RESUME_EITHER: usize = 27;
    /// Size of these builtins, in bytes; 0 for none.
    pub const RESUME_EITHER_SIZE: usize = 28;
    /// Offset of the heap in what the header of a page points to, if each isolate has a table of entry points; 0 for none.
    pub const HEAP: usize = 29;
    /// Offset, from the heap, of the word with the address of the table of entry points.
    pub const HEAP_DISPATCH: usize = 30;
    /// Offset of the baseline code in the data of a `SharedFunctionInfo`; 0 if the data is the code itself.
    pub const DATA_CODE: usize = 31;
    /// Number of parameters.
    pub const COUNT: usize = 32;
}

/// Shapes of frames.
pub mod shape {
    /// Interpreted: address of a `SharedFunctionInfo`, bytecode offset as in the frame.
    pub const INTERPRETED: u8 = 0;
    /// Baseline code: address of a `SharedFunctionInfo`, offset in its code.
    pub const BASELINE: u8 = 1;
    /// Code of an optimizing compiler: address of a `Code` object, offset in it.
    pub const OPTIMIZED: u8 = 2;
    /// Code that the function's objects don't refer to: an address in it. Position 0; the check is an
    /// [`address_check`](super::address_check).
    pub const ADDRESS: u8 = 3;
}

/// Returns the check of an address in code: a hash of the 16 bytes around it, from 8 before it. The lower half depends on the
/// check of its `SharedFunctionInfo`, 0 if that is unknown.
#[inline(always)]
pub const fn address_check(function: u32, around: &[u64; 2]) -> u32 {
    fold(around[0], around[1]) ^ function & !BYTES
}

/// Bits of an [`address_check`] that depend on the bytes alone.
pub const BYTES: u32 = 0xfff000;

#[inline(always)]
const fn fold(first: u64, second: u64) -> u32 {
    ((first ^ second.rotate_left(31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
}
