//! LuaJIT: layout of its objects, and words of its frames as their walker emits them.
//!
//! ```text
//!   stack of a state   … | function | link | slot 0 | slot 1 | …       frame: the address of the slot before slot 0
//!
//!   link & 7   caller's frame                                               position in the caller
//!   0, 4       operand A of the instruction before the link, a pc, slots    the link
//!              and those of function and link lower
//!   1, 5       the rest of the link, in bytes; the frame is the last one of its loop  -
//!   2          the same; a metamethod                                       before function and link
//!   3          the same; a copy of the caller's frame, with a variable number of arguments   that of the copy
//!   6, 7       the same; called by `pcall`                                  -
//!
//!   shape      address       check                                       position
//!   LUA        prototype     hash of its contents                         index of the instruction, or NO_POSITION
//!   NATIVE     function      fold of the address of its C function       0
//! ```
//!
//! Builds for x86_64 differ in the size of their references to objects:
//!
//! ```text
//!   WIDE      8 bytes    function and link are two slots       LuaJIT 2.1 since 2019
//!   COMPACT   4 bytes    two halves of one slot                2.0, and 2.1 before
//! ```
//!
//! Offsets are in bytes.

/// Shapes of frames.
pub mod shape {
    /// A function in Lua.
    pub const LUA: u64 = 0;
    /// A function in C, or in the assembler code of the interpreter.
    pub const NATIVE: u64 = 1;
}

/// The position of a frame whose instruction is unknown.
pub const NO_POSITION: u32 = u32::MAX;

/// Kinds of objects that can be collected: a byte in each of them.
pub mod kind {
    /// A string.
    pub const STRING: u8 = 4;
    /// A state: a coroutine, or the main program.
    pub const STATE: u8 = 6;
    /// The object of the frame is the prototype of a function that is written in Lua.
    pub const PROTOTYPE: u8 = 7;
    /// A function.
    pub const FUNCTION: u8 = 8;
}

/// Values in slots of a [`WIDE`] build.
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

/// Offsets in the frame of the interpreter's code on the native stack, from the stack pointer, in all builds.
pub mod native_frame {
    /// The state's innermost frame before this one; flags in the lowest two bits.
    pub const BEFORE: u64 = 32;
    /// The caller's frame pointer.
    pub const SAVED_FP: u64 = 64;
    /// The return address.
    pub const RETURN: u64 = 72;
    /// Size, with the return address.
    pub const SIZE: u64 = 80;
}

/// Indices of the walker's parameters.
pub mod parameter {
    /// Offset in the data that all states of an interpreter share: slot 0 of the frame in which the running trace began; 0 if this
    /// and the next two are unknown.
    pub const TRACE_BASE: usize = 0;
    /// Offset in that data: number of the running trace, four bytes; negative in the interpreter.
    pub const TRACE_NUMBER: usize = 1;
    /// Offset in that data: address of the array of traces.
    pub const TRACES: usize = 2;
    /// 1 for a [`COMPACT`](super::COMPACT) build, 0 for a [`WIDE`](super::WIDE) one.
    pub const IS_COMPACT: usize = 3;
    /// Number of parameters.
    pub const COUNT: usize = 4;
}

/// Size of an instruction, in bytes.
pub const INSTRUCTION: u64 = 4;

/// Offsets of a kind of builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of a reference to an object.
    pub reference: usize,
    /// Size of function and link of a frame.
    pub head: u64,
    /// The [`kind`] of an object that can be collected.
    pub kind: usize,
    /// Offsets in the frame of the interpreter's code on the native stack.
    pub native_frame: NativeFrame,
    /// Offsets in a state.
    pub state: State,
    /// Offsets in a function.
    pub function: Function,
    /// Offsets in a prototype.
    pub prototype: Prototype,
    /// Offset in a trace: the address of the instruction at which it begins.
    pub trace_start: u64,
}

/// Offsets in the frame of the interpreter's code on the native stack, from the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Number of wanted results; if negative, the distance from the end of the used stack to its start.
    pub results: u64,
    /// The address of the state.
    pub state: u64,
    /// The address of the next instruction when a function in C was called.
    pub pc: u64,
}

/// Offsets in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Data that all states of an interpreter share.
    pub global: usize,
    /// Slot 0 of the innermost frame, a pointer.
    pub base: usize,
    /// End of the stack.
    pub end: usize,
    /// Start of the stack.
    pub start: usize,
    /// The innermost frame of the interpreter's code on the native stack, a pointer; flags in the lowest two bits.
    pub native_frame: usize,
    /// Number of bytes that are read.
    pub read: u32,
}

/// Offsets in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Number of the function if it is built in, 0 if it is in Lua, 1 if it is in C; a byte.
    pub number: usize,
    /// The instructions, behind the prototype.
    pub instructions: usize,
    /// The C function, a pointer.
    pub native: usize,
    /// Number of bytes that are read.
    pub read: u32,
}

/// Offsets in a prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Number of instructions, four bytes.
    pub count: usize,
    /// Constants.
    pub constants: usize,
    /// Number of constants that are objects, four bytes.
    pub constant_count: usize,
    /// Size of all parts, four bytes.
    pub size: usize,
    /// Number of upvalues, a byte.
    pub upvalue_count: usize,
    /// Name of the chunk.
    pub chunk: usize,
    /// First line, four bytes.
    pub first_line: usize,
    /// Number of lines, four bytes.
    pub line_count: usize,
    /// Line table.
    pub lines: usize,
    /// Names of upvalues.
    pub upvalues: usize,
    /// Names of local variables.
    pub variables: usize,
    /// Size of the struct, behind which the instructions are.
    pub end: u64,
}

/// Offsets of builds with references of 8 bytes (GC64).
pub const WIDE: Layout = Layout {
    reference: 8,
    head: 16,
    kind: 9,
    native_frame: NativeFrame { results: 8, state: 16, pc: 24 },
    state: State { global: 16, base: 32, end: 48, start: 56, native_frame: 80, read: 88 },
    function: Function { number: 10, instructions: 32, native: 40, read: 48 },
    prototype: Prototype {
        count: 12,
        constants: 32,
        constant_count: 48,
        size: 56,
        upvalue_count: 60,
        chunk: 64,
        first_line: 72,
        line_count: 76,
        lines: 80,
        upvalues: 88,
        variables: 96,
        end: 104,
    },
    trace_start: 72,
};

/// Offsets of builds with references of 4 bytes.
pub const COMPACT: Layout = Layout {
    reference: 4,
    head: 8,
    kind: 5,
    native_frame: NativeFrame { results: 16, state: 24, pc: 28 },
    state: State { global: 8, base: 16, end: 32, start: 36, native_frame: 48, read: 56 },
    function: Function { number: 6, instructions: 16, native: 24, read: 32 },
    prototype: Prototype {
        count: 8,
        constants: 16,
        constant_count: 24,
        size: 32,
        upvalue_count: 36,
        chunk: 40,
        first_line: 44,
        line_count: 48,
        lines: 52,
        upvalues: 56,
        variables: 60,
        end: 64,
    },
    trace_start: 52,
};
