//! Parameters of the walker of HotSpot's frames, by index, and the shapes of its frames.
//!
//! Offsets are in bytes. A blob is read in two parts; `first` and `second` are offsets in them.

/// Indices of parameters.
pub mod parameter {
    /// Start of the interpreter's code.
    pub const INTERPRETER_START: usize = 0;
    /// End of the interpreter's code.
    pub const INTERPRETER_END: usize = 1;
    /// Return address of calls from native code to Java.
    pub const CALL_STUB: usize = 2;
    /// 8 bits each: size of the header of a heap block, binary logarithm of the size of a segment,
    /// [flags](super::flag); then 16 bits each from bit 32 on: size of `ConstMethod`, offset of `Method::_constMethod`.
    pub const SIZES: usize = 3;
    /// 16 bits each: offset and size of the first part of a blob, offset and size of the second.
    pub const PARTS: usize = 4;
    /// 16 bits each: first offset of `_frame_size`, of the start of the code, of `_frame_complete_offset`.
    pub const FRAME: usize = 5;
    /// 16 bits each: offset of the deoptimization handler, of that for method handles ([`NONE`](super::NONE) for none; second
    /// if [`flag::HANDLERS_IN_SECOND`](super::flag::HANDLERS_IN_SECOND)), second offset of `_orig_pc_offset`, of `_compile_id`.
    pub const DEOPTIMIZATION: usize = 6;
    /// Return address of the outermost frame of a virtual thread whose callers are not on the stack; 0 if unknown.
    pub const RETURN_BARRIER: usize = 7;
    /// Address of the variable with the return address that this one stands for: into the frame that entered the virtual thread.
    pub const CONTINUATION: usize = 8;
    /// 16 bits each: offset of `Continuation.tail`, offset of the frames in a `StackChunk`, of its fields `sp` and `bottom`; 0 if
    /// unknown.
    pub const CHUNK: usize = 9;
    /// 16 bits each: offset of the fields `pc`, `parent` and `cont` of a `StackChunk`, and the form of [references](super::oops),
    /// with the number of bits by which narrow ones are shifted in the upper 8 bits.
    pub const CHUNK_FIELDS: usize = 10;
    /// Added to narrow references.
    pub const OOPS_BASE: usize = 11;
    /// Address of the variable with the address of the blob of that frame.
    pub const ENTER_SPECIAL: usize = 12;
    /// [`HEAPS`](super::HEAPS) code heaps, three parameters each: start, end, segment map.
    pub const HEAP: usize = 13;
    /// Two words of packed [fields](crate::walk::identity::hotspot::Fields).
    pub const IDENTITY: usize = HEAP + 3 * super::HEAPS;
    /// Number of parameters.
    pub const COUNT: usize = IDENTITY + 2;
}

/// Maximum number of code heaps; a segmented code cache has three.
pub const HEAPS: usize = 4;

/// Offset of a field that does not exist.
pub const NONE: u16 = u16::MAX;

/// Flags of a layout.
pub mod flag {
    /// The start of the code and handlers are distances from the blob in four bytes. `_frame_complete_offset` has two, or four of which the lower
    /// two are read.
    pub const RELATIVE: u64 = 1;
    /// The handlers are in the second part.
    pub const HANDLERS_IN_SECOND: u64 = 2;
    /// Interpreter frames have the next bytecode one slot higher: Java 8 keeps no mirror of the class in them.
    pub const BYTECODE_IN_SLOT_7: u64 = 4;
}

/// Forms of references in objects.
pub mod oops {
    /// Addresses.
    pub const WIDE: u64 = 0;
    /// Four bytes, to be shifted and added to a base.
    pub const NARROW: u64 = 1;
    /// Addresses above 13 to 16 bits of the generational Z collector; bits 12 to 15 say how many.
    pub const COLORED: u64 = 2;
    /// Addresses of the Z collector without generations, which maps objects several times.
    pub const MAPPED: u64 = 3;
}

/// Shapes of frames.
pub mod shape {
    /// A frame of the interpreter; the address is that of a `Method`.
    pub const INTERPRETED: u8 = 0;
    /// A frame of a code blob; the address is that of the blob.
    pub const COMPILED: u8 = 1;
    /// A frame of a stub routine or a codelet of the interpreter; the address is the program counter.
    pub const STUB: u8 = 2;
}
