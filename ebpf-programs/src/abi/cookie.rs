//! Cookies of links: what the program at an event reads of its own link.
//!
//! ```text
//!   counter, tracepoint   value 32 bits at 32  | 0                  | number of the kind of samples, 16 bits
//!   probe                 0                    | register 8 bits at 16 | number of the kind of samples, 16 bits
//! ```

/// Lowest bit of the value of each event.
pub const VALUE_SHIFT: u32 = 32;

/// Lowest bit of the number of the register that has the value: 0 none, and each event counts 1; 1 to 6 an argument;
/// [`RESULT`].
pub const REGISTER_SHIFT: u32 = 16;

/// Register of a function's result, at its return.
pub const RESULT: u64 = 7;
