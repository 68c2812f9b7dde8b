//! PHP: parameters of its walker.
//!
//! | parameter | bits |
//! | --- | --- |
//! | `FUNCTION` | offset in a function: identity, 16; in a generator: node 16, child in the node 16, `execute_fake` 16 |
//! | `GENERATOR` | offset in a generator: `execute_data`, 16; DWARF number of the register that holds the instruction in the loop, plus 1, 8; lowest bit of the number of instructions in the second word of the identity, 8; offset in a function: the file, 16 |
//! | `FRAME` | number of bytes of the loop's frame, return address included, 0 if unknown; [`FRAME_POINTER`] |
//! | `RESUME` | an address of the loop at which it has that frame |
//!
//! # Frames
//!
//! A function is identified by a hash of what it is, not of where it is: other processes have it at another address. The hash
//! has more bits than a check:
//!
//! ```text
//!   check       bits 40 to 63 of the hash
//!   position    bits 25 to 39 of the hash  |  number of the instruction, 17 bits
//! ```

/// Indices of the parameters.
pub mod parameter {
    /// Offsets in a function and a generator.
    pub const FUNCTION: usize = 0;
    /// A further offset in a generator, and the loop's register.
    pub const GENERATOR: usize = 1;
    /// Size of the loop's frame.
    pub const FRAME: usize = 2;
    /// An address of the loop.
    pub const RESUME: usize = 3;
    /// Number of parameters.
    pub const COUNT: usize = 4;
}

/// Flag of the frame's size: the loop sets a frame pointer, below the return address and the caller's.
pub const FRAME_POINTER: u64 = 1 << 32;

/// Mask of the number of an instruction in a position; all bits are set for none.
pub const INSTRUCTION: u32 = (1 << 17) - 1;

/// Returns the check of a function with a hash, and the bits of its positions that the hash has.
#[inline(always)]
pub const fn identity(hash: u64) -> (u32, u32) {
    ((hash >> 40) as u32, (hash >> 8) as u32 & !INSTRUCTION)
}
