//! PHP: parameters of its walker.
//!
//! | parameter | bits |
//! | --- | --- |
//! | `FUNCTION` | offset in a function: identity, 16; in a generator: node 16, child in the node 16, `execute_fake` 16 |
//! | `GENERATOR` | offset in a generator: `execute_data`, 16; DWARF number of the register that holds the instruction in the loop, plus 1, 8; lowest bit of the number of instructions in the second word of the identity, 8; offset in a function: the file, 16 |
//! | `FRAME` | number of bytes of the loop's frame, return address included, 0 if unknown; [`FRAME_POINTER`] |
//! | `RESUME` | an address of the loop at which it has that frame |

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
