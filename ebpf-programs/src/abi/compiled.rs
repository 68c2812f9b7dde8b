//! Compiled code that links its frames by the frame pointer: parameters of its walker.
//!
//! ```text
//!   fp + 8   return address
//!   fp       the caller's frame pointer
//!   …        words of the frame, which are stored within PROLOGUE bytes of code
//! ```
//!
//! Distances are in bytes, as signed numbers of 64 bits. Code addresses are those of the frame: of the next instruction at the
//! leaf, else of the last byte of the call.

/// Indices of the parameters.
pub mod parameter {
    /// One of [`function`](super::function): the word that names the function of a frame.
    pub const FUNCTION: usize = 0;
    /// Distance of that word from the frame pointer, or from the start of its block of code.
    pub const FUNCTION_AT: usize = 1;
    /// Size of a block of code, a power of two; blocks are aligned to it.
    pub const BLOCK: usize = 2;
    /// One of [`position`](super::position).
    pub const POSITION: usize = 3;
    /// Distance of the position from the frame pointer, or of the address of the code from that of the function.
    pub const POSITION_AT: usize = 4;
    /// Number of bytes of code from the instruction that saves the caller's frame pointer to the end of the one that stores the
    /// last word of the frame that is read, at most [`MAX_PROLOGUE`](super::MAX_PROLOGUE).
    pub const PROLOGUE: usize = 5;
    /// DWARF number of the register that holds the function until then, plus 1; 0 for none.
    pub const ENTRY: usize = 6;
    /// Number of parameters.
    pub const COUNT: usize = 7;
}

/// Locations of the word that names a function.
pub mod function {
    /// In the frame.
    pub const IN_FRAME: u64 = 1;
    /// In the block of the code.
    pub const IN_BLOCK: u64 = 2;
    /// No word: the code address identifies the function.
    pub const CODE: u64 = 3;
}

/// Kinds of positions.
pub mod position {
    /// Distance of the code address from the address of the function.
    pub const CODE: u64 = 0;
    /// An integer of four bytes in the frame is the position.
    pub const IN_FRAME: u64 = 1;
    /// Distance of the code address from the start of the code, whose address is in the function.
    pub const FROM_START: u64 = 2;
}

/// Maximum number of bytes of a prologue.
pub const MAX_PROLOGUE: u64 = 32;
