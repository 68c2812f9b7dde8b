//! Words of Ruby frames, as their walker emits them.
//!
//! ```text
//!   address    identity 8 bits at 48 | address of an object, a multiple of 8 | one of `kind`, 3 bits
//!   check      24 bits
//!   position   low 32 bits of the pc; 0 in a C function
//!
//!   kind       object                 check                                              identity
//!   PLAIN      instruction sequence   its contents                                       low byte of the contents
//!   METHOD     instruction sequence   its contents ^ address of the method entry / 8     the same
//!   DEFINED    instruction sequence   the same                                           the same
//!   FUNCTION   method entry           fold of three words of the method entry            0
//!   COLLECTION none                   0                                                  0
//! ```
//!
//! The [contents](crate::walk::identity::ruby) are a hash of the body, with its first line and its path. A block of a method is a frame of kind [`METHOD`](kind::METHOD): the method entry is that of the method.

/// Kinds of frames.
pub mod kind {
    /// Code outside of methods: a script, the body of a class, `eval`, and blocks in these.
    pub const PLAIN: u64 = 0;
    /// A method in Ruby, or a block in one.
    pub const METHOD: u64 = 1;
    /// The block that is the body of a method (`define_method`).
    pub const DEFINED: u64 = 2;
    /// A method in C.
    pub const FUNCTION: u64 = 3;
    /// The garbage collector.
    pub const COLLECTION: u64 = 4;
}

/// Mask of a [`kind`] in an address.
pub const KIND: u64 = 7;

/// Lowest bit of the identity in an address.
pub const IDENTITY_SHIFT: u32 = 48;

/// Flags in the first word of a frame's environment, in all versions from 2.5 on.
pub mod flag {
    /// The frame is the last one of a run of the interpreter loop.
    pub const FINISH: u64 = 0x20;
    /// The frame runs the body of a method that is a block.
    pub const DEFINED: u64 = 0x40;
    /// The environment has no parent.
    pub const LOCAL: u64 = 0x02;
    /// Mask of the type.
    pub const TYPE: u64 = 0x7fff_0001;
    /// A method in Ruby.
    pub const METHOD: u64 = 0x1111_0001;
    /// A method in C.
    pub const FUNCTION: u64 = 0x5555_0001;
    /// A block in C.
    pub const C_BLOCK: u64 = 0x6666_0001;
    /// The frame below all others.
    pub const DUMMY: u64 = 0x7999_0001;
}

/// Offsets in a control frame, in all versions from 2.5 on.
pub mod control_frame {
    /// The address of the next instruction; 0 in C functions.
    pub const PC: usize = 0;
    /// The instruction sequence.
    pub const SEQUENCE: usize = 16;
    /// The environment.
    pub const ENVIRONMENT: usize = 32;
    /// Number of bytes that are read. The last word of a control frame is not 0 once compiled code runs it, from 3.1 on.
    pub const READ: u32 = 64;
}

/// Offset of the body in an instruction sequence.
pub const BODY: u64 = 16;

/// Offsets in the body of an instruction sequence.
pub mod body {
    /// Type and number of words of instructions.
    pub const SIZE: usize = 0;
    /// The address of the instructions.
    pub const INSTRUCTIONS: usize = 8;
    /// The path of the file: a string, or an array that begins with one.
    pub const PATH: usize = 64;
    /// The label.
    pub const LABEL: usize = 80;
    /// The first line.
    pub const FIRST_LINE: usize = 88;
    /// Number of bytes that are read.
    pub const READ: u32 = 96;
}

/// Offsets in a method entry.
pub mod method_entry {
    /// The definition.
    pub const DEFINITION: usize = 16;
    /// The name by which the method was called.
    pub const CALLED: usize = 24;
    /// The class that has the method.
    pub const OWNER: usize = 32;
    /// Number of bytes that are read.
    pub const READ: u32 = 40;
}

/// Mask of the type in the flags of an object.
pub const TYPE: u64 = 0x1f;

/// Type of strings.
pub const STRING: u64 = 5;

/// Type of arrays.
pub const ARRAY: u64 = 7;

/// Flag of a string whose text isn't within its object, and of an array whose elements are.
pub const APART: u64 = 1 << 13;

/// Types of internal objects (`imemo`), in bits 12 to 15 of their flags, whose low five bits are [`OBJECT`](imemo::OBJECT).
pub mod imemo {
    /// Lowest bit of the type.
    pub const SHIFT: u32 = 12;
    /// Mask of the type, after the shift.
    pub const TYPE: u64 = 15;
    /// The low five bits of the flags of all internal objects.
    pub const OBJECT: u64 = 0x1a;
    /// The special variables of a method, which lead to its method entry.
    pub const VARIABLES: u64 = 2;
    /// A method entry.
    pub const METHOD_ENTRY: u64 = 6;
}

/// Index of the parameter that is the size of a control frame, in bytes.
pub const PARAMETER_FRAME_SIZE: usize = 0;

/// Number of the first of four parameters that are the address ranges of the loop's caller: start and end (exclusive) of each.
/// They are ranges of the loop, too.
pub const PARAMETER_CALLERS: usize = 1;

/// Number of the first of two parameters that are the address range of the runtime's file, in which all functions lie that
/// enter compiled code: start and end (exclusive).
pub const PARAMETER_TEXT: usize = 5;

/// Offset of the innermost control frame in an execution context, in all versions.
pub const CONTEXT_FRAME: u64 = 16;

/// Number of the parameter that is the address of the word with the flag of a running garbage collection, and of the one
/// that is the flag's mask; 0 if unknown.
pub const PARAMETER_COLLECTION: usize = 7;

/// Index of the parameter that is the offset of the text in a string that holds it.
pub const PARAMETER_STRING: usize = 9;
