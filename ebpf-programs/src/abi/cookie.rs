//! Cookies of links: what the program at an event reads of its own link.
//!
//! ```text
//!   counter, tracepoint   value 32 bits at 32  | 0                  | number of the kind of samples, 16 bits
//!   field of a tracepoint factor 32 bits at 32 | 1 bit at 31, size 2 bits at 29, offset 13 bits at 16 | number of the kind
//!   probe                 0                    | register 8 bits at 16 | number of the kind of samples, 16 bits
//!   time of a function    0                    | 0                  | number of the kind of samples, 16 bits
//!   time of a system call threshold 32 bits at 32 | has operation, 1 bit at 16 | number of the kind of samples, 16 bits
//! ```

/// Lowest bit of the value of each event.
pub const VALUE_SHIFT: u32 = 32;

/// Lowest bit of the number of the register that has the value: 0 none, and each event counts 1; 1 to 6 an argument;
/// [`RESULT`].
pub const REGISTER_SHIFT: u32 = 16;

/// Register of a function's result, at its return.
pub const RESULT: u64 = 7;

/// Bit that is set if the value is that of a field, times the factor.
pub const FIELD: u64 = 1 << 31;

/// Lowest bit of the offset of a field in bytes.
pub const OFFSET_SHIFT: u32 = 16;

/// Mask of an offset, after the shift.
pub const OFFSET: u64 = (1 << 13) - 1;

/// Lowest bit of the size of a field: the logarithm of its bytes, 0 to 3.
pub const SIZE_SHIFT: u32 = 29;

/// Bit that is set if only some operations of a system call wait.
pub const OPERATION_SHIFT: u32 = 16;

/// Unit of a threshold in nanoseconds.
pub const THRESHOLD_UNIT: u64 = 100;
