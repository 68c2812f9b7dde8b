//! The short way up: a buffer that one CPU alone fills, with neither lock nor wake-up.
//!
//! Most records are short walked stacks that nobody is in a hurry for, and take this way. The ring takes all others: what
//! is urgent, what is long, what finds its buffer full.
//!
//! ```text
//!   written, read       counted in words since the start, each in cache lines of its own
//!   words               length | record | length | record | …
//! ```
//!
//! An entry is the number of words in its record, and the record. It begins at its position modulo [`WORDS`] and is never cut:
//! what runs over the end goes on in the room behind it.

/// Words in a cpu_buffer; a power of two.
///
/// At 997 ticks a second and 16 frames a CPU fills three quarters of it until user space looks by itself.
pub const WORDS: usize = 8192;

/// More words than a record in a buffer has; a power of two.
pub const MAX_RECORD_WORDS: usize = 1024;

/// One CPU's buffer.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct CpuBuffer {
    /// The position up to which there are records: the kernel side's to write.
    pub written: u64,
    _apart: [u64; 15],
    /// The position up to which they were read: user space's to write.
    pub read: u64,
    _behind: [u64; 15],
    /// The entries.
    pub words: [u64; WORDS + MAX_RECORD_WORDS],
}
