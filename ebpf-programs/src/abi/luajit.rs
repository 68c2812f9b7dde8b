//! LuaJIT: layout of its objects, and words of its frames as their walker emits them.
//!
//! ```text
//!   stack of a state   … | function | link | slot 0 | slot 1 | …       frame: the address of its link
//!
//!   link & 7   caller's frame                                               position in the caller
//!   0, 4       operand A of the instruction before the link, a pc, + 2 slots lower   the link
//!   1, 5       the rest of the link, in bytes; the frame is the last one of its loop  -
//!   2          the same; a metamethod                                       two words below the link
//!   3          the same; a copy of the caller's frame, with a variable number of arguments   that of the copy
//!   6, 7       the same; called by `pcall`                                  -
//!
//!   shape      address       check                                       position
//!   LUA        prototype     fold of its words at 64, 72 and 80          index of the instruction, or NO_POSITION
//!   NATIVE     function      fold of the address of its C function       0
//! ```
//!
//! Offsets are in bytes, of builds with 64-bit references (GC64) on x86_64.

/// Shapes of frames.
pub mod shape {
    /// A function in Lua.
    pub const LUA: u64 = 0;
    /// A function in C, or in the assembler code of the interpreter.
    pub const NATIVE: u64 = 1;
}

/// The position of a frame whose instruction is unknown.
pub const NO_POSITION: u32 = u32::MAX;

/// Kinds of objects that can be collected: the byte at [`KIND`](kind::OFFSET) in each of them.
pub mod kind {
    /// Offset of the byte.
    pub const OFFSET: u32 = 9;
    /// A state: a coroutine, or the main program.
    pub const STATE: u8 = 6;
    /// The object of the frame is the prototype of a function that is written in Lua.
    pub const PROTOTYPE: u8 = 7;
    /// A function.
    pub const FUNCTION: u8 = 8;
}

/// Values in slots.
pub mod value {
    /// Lowest bit of the tag.
    pub const TAG_SHIFT: u32 = 47;
    /// Tag of functions.
    pub const FUNCTION: u64 = 0x1_fff7;
    /// Tag of states, in the function's slot of frames that call no function.
    pub const STATE: u64 = 0x1_fff9;
    /// Mask of the address.
    pub const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;
}

/// Offsets in the frame of the interpreter's code on the native stack, from the stack pointer.
pub mod native_frame {
    /// Number of wanted results; if negative, the distance from the end of the used stack to its start.
    pub const RESULTS: u64 = 8;
    /// The address of the state.
    pub const STATE: u64 = 16;
    /// The address of the next instruction when a function in C was called.
    pub const PC: u64 = 24;
    /// The state's innermost frame before this one; flags in the lowest two bits.
    pub const BEFORE: u64 = 32;
    /// The caller's frame pointer.
    pub const SAVED_FP: u64 = 64;
    /// The return address.
    pub const RETURN: u64 = 72;
    /// Size, with the return address.
    pub const SIZE: u64 = 80;
}

/// Offsets in a state.
pub mod state {
    /// Slot 0 of the innermost frame.
    pub const BASE: usize = 32;
    /// End of the stack.
    pub const MAX_STACK: usize = 48;
    /// Start of the stack.
    pub const STACK: usize = 56;
    /// The innermost frame of the interpreter's code on the native stack; flags in the lowest two bits.
    pub const NATIVE_FRAME: usize = 80;
    /// Data that all states of an interpreter share.
    pub const GLOBAL: usize = 16;
    /// Number of bytes that are read.
    pub const READ: u32 = 88;
}

/// Indices of the walker's parameters: offsets in the data that all states of an interpreter share, for traces; 0 if unknown.
pub mod parameter {
    /// Slot 0 of the frame in which the running trace began.
    pub const TRACE_BASE: usize = 0;
    /// Number of the running trace, four bytes; negative in the interpreter.
    pub const TRACE_NUMBER: usize = 1;
    /// Address of the array of traces.
    pub const TRACES: usize = 2;
    /// Number of parameters.
    pub const COUNT: usize = 3;
}

/// Offset in a trace: the address of the instruction at which it begins.
pub const TRACE_START: u64 = 72;

/// Offsets in a function.
pub mod function {
    /// Number of the function if it is built in, 0 if it is in Lua, 1 if it is in C.
    pub const NUMBER: u32 = 10;
    /// The instructions, behind the prototype.
    pub const INSTRUCTIONS: usize = 32;
    /// The C function.
    pub const NATIVE: usize = 40;
    /// Number of bytes that are read.
    pub const READ: u32 = 48;
}

/// Offsets in a prototype.
pub mod prototype {
    /// Offset of the number of instructions, an integer of four bytes.
    pub const COUNT: usize = 12;
    /// Start of the words that make the check.
    pub const IDENTITY: usize = 64;
    /// Number of bytes that are read.
    pub const READ: u32 = 88;
    /// Size.
    pub const SIZE: u64 = 104;
}

/// Size of an instruction, in bytes.
pub const INSTRUCTION: u64 = 4;
