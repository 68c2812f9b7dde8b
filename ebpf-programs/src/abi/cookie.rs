//! Cookies of links: a number that the program at an event reads from its link.
//!
//! ```text
//!   counter, tracepoint   value 32 bits at 32  | 0                  | number of the kind of samples, 16 bits
//!   field of a tracepoint factor 32 bits at 32 | 1 bit at 31, size 2 bits at 29, offset 13 bits at 16 | number of the kind
//!   probe                 displacement 32 bits at 32 | operand 16 bits at 16 | number of the kind of samples, 16 bits
//!   time of a function    0                    | 0                  | number of the kind of samples, 16 bits
//!   kernel's function     displacement 32 bits at 32 | operand 16 bits at 16, or time: 1 bit at 31 | number of the kind
//!   time of a system call threshold 32 bits at 32 | has operation, 1 bit at 16 | number of the kind of samples, 16 bits
//! ```

/// Lowest bit of the value of each event.
pub const VALUE_SHIFT: u32 = 32;

/// The operand of a probe: the place of its value.
///
/// ```text
///   31       30       29 28             27 26              25 .. 21     20 .. 16
///   memory   signed   log2 of its size  log2 of the scale  index word   base word
///
///   at    = base + (index << scale) + displacement        displacement: signed, in bits 63 .. 32
///   value = at, or the memory at it
/// ```
///
/// With the displacement [`PRODUCT`](operand::PRODUCT) the value is `base × index`.
///
/// Words are those of the context's registers. At the entry of a function of the kernel, the base word is one of its arguments; at its
/// exit, it stands for the result. The value is truncated to its size; negative ones count as 0.
pub mod operand {
    /// Lowest bit of the number of the base word.
    pub const BASE_SHIFT: u32 = 16;
    /// Lowest bit of the number of the index word.
    pub const INDEX_SHIFT: u32 = 21;
    /// Mask of the number of a word, after the shift.
    pub const WORD: u64 = 31;
    /// Number of a word that is 0.
    pub const NONE: u64 = 31;
    /// Lowest bit of the scale.
    pub const SCALE_SHIFT: u32 = 26;
    /// Lowest bit of the size.
    pub const SIZE_SHIFT: u32 = 28;
    /// Mask of scale and size, after the shift.
    pub const LOG: u64 = 3;
    /// Bit of a signed value.
    pub const SIGNED: u64 = 1 << 30;
    /// Bit of a value in memory.
    pub const MEMORY: u64 = 1 << 31;
    /// The displacement that stands for a product.
    pub const PRODUCT: i32 = i32::MIN;
    /// Number of the lowest bit of an operand's displacement in the cookie.
    pub const DISPLACEMENT_SHIFT: u32 = 32;
}

/// Bit that is set if the value is the time of a function of the kernel.
pub const TIME: u64 = 1 << 31;

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
