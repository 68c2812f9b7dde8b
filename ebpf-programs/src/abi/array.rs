//! Arrays of frames: parameters of their walker.
//!
//! The path of the [description](super::interpreter::Description) leads to a *top word*; another word has the end of the array
//! on the root side:
//!
//! ```text
//!   outermost = [address of the top word + END] + END_OFFSET
//!   innermost = outermost - STEP · ([top word] - 1)       TOP is COUNT
//!               [top word] + TOP_OFFSET                   otherwise
//!   caller    = frame + STEP
//! ```
//!
//! Distances are in bytes, as signed numbers of 64 bits. A count has four bytes.

/// Indices of the parameters.
pub mod parameter {
    /// Distance from a frame to its caller: negative if called frames have higher addresses.
    pub const STEP: usize = 0;
    /// One of [`top`](super::top).
    pub const TOP: usize = 1;
    /// Distance from the address in the top word to the innermost frame.
    pub const TOP_OFFSET: usize = 2;
    /// Distance from the top word to the word with the end of the array.
    pub const END: usize = 3;
    /// Distance from the address in that word to the outermost frame.
    pub const END_OFFSET: usize = 4;
    /// Number of parameters.
    pub const COUNT: usize = 5;
}

/// Contents of the top word.
pub mod top {
    /// An address, 0 for a thread without frames.
    pub const ADDRESS: u64 = 0;
    /// The number of frames.
    pub const COUNT: u64 = 1;
}
