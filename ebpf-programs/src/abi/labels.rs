//! Label paths: where the labels are that a program sets for the work of its threads, and their form in a record.
//!
//! ```text
//!   thread pointer ──hop──► ──hop──► … ──► set of labels          a hop to address 0: the thread has none
//!   record          Pair | key | value | Pair | key | value | …   each padded with zeros to words of eight bytes
//! ```
//!
//! The kernel side copies keys and values while the thread is interrupted, so that they are those of the sample: user space
//! would read them milliseconds later, when the program may have freed them and used their memory for others.
//!
//! A pair begins with a word:
//!
//! ```text
//!   bits 0-15    bytes of the key, at most MAX_KEY         bit 32   the key is longer      bit 34   the key is constant
//!   bits 16-31   bytes of the value, at most MAX_VALUE     bit 33   the value is longer    bit 35   the value is constant
//! ```
//!
//! A constant text is in memory of a file that the program cannot write: its copy is its address, one word, and user space reads
//! it from the file.

/// Maximum number of hops from the thread pointer to the set.
pub const HOPS: usize = 7;

/// Path from a thread to its set of labels: `[[[thread pointer + offsets[0]] + offsets[1]] + …]`, with `hops` reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelPath {
    /// Number of offsets, at most [`HOPS`].
    pub hops: u32,
    /// One of [`layout`].
    pub layout: u32,
    /// Offset that is added before each read.
    pub offsets: [i64; HOPS],
    /// First address of constants; 0 for none.
    pub constants: u64,
    /// Number of bytes of constants.
    pub constants_size: u64,
}

impl LabelPath {
    /// Returns the bytes of the struct as in the arena: all fields in order, words of eight bytes low half first.
    pub fn to_bytes(&self) -> [u8; size_of::<LabelPath>()] {
        let mut bytes = [0; size_of::<LabelPath>()];
        let offsets = self.offsets.iter().map(|&offset| offset as u64);
        let wide = offsets.chain([self.constants, self.constants_size]);
        let halves = wide.flat_map(|word| [word as u32, (word >> 32) as u32]);
        let words = [self.hops, self.layout].into_iter().chain(halves);
        for (to, from) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = u32::to_ne_bytes(from);
        }
        bytes
    }
}

/// Layouts of a set of labels in memory.
pub mod layout {
    /// Go from 1.24 on: a slice of pairs, `{address, length, capacity}`, each of which is four words: address and length of the
    /// key, address and length of the value. They are sorted by key.
    pub const SLICE: u32 = 1;
    /// Go up to 1.23: a hash map of strings, `{count, flags 8 bits | log₂ of the number of buckets 8 bits | …, buckets, old
    /// buckets}`. A bucket is 8 bytes that are below 5 where it has no pair, 8 keys, 8 values, and the address of a further
    /// bucket.
    pub const MAP: u32 = 2;
    /// A thread context of OpenTelemetry: 16 bytes of trace id, 8 of span id, 1 that is 1 if it is valid, 1 of flags, 2 of the size
    /// of the attributes, and these, each a byte for its key, one for its size, and its value. Copied as it is: the first 28 bytes in
    /// four words, the attributes from the fifth on.
    pub const CONTEXT: u32 = 3;
}

/// Words of a thread context before its attributes.
pub const CONTEXT_WORDS: usize = 4;

/// The byte of a valid thread context.
pub const VALID: u32 = 1;

/// Maximum size of a key in bytes.
pub const MAX_KEY: usize = 64;

/// Maximum size of a value in bytes.
pub const MAX_VALUE: usize = 256;

/// Maximum number of pairs of a slice that are copied, the first ones.
pub const MAX_PAIRS: u32 = 8;

/// Maximum number of pairs of a hash map, all of which are copied: they are in no order.
pub const MAX_MAPPED: u32 = 16;

/// Maximum number of words of eight bytes of all pairs of a record. A pair that exceeds it is left out.
pub const MAX_WORDS: usize = 128;

/// Flags in the first word of a pair.
pub mod pair {
    /// Lowest bit of the size of the value.
    pub const VALUE_SHIFT: u32 = 16;
    /// Mask of a size.
    pub const SIZE: u64 = 0xffff;
    /// The key is longer than its copy.
    pub const KEY_IS_CUT: u64 = 1 << 32;
    /// The value is longer than its copy.
    pub const VALUE_IS_CUT: u64 = 1 << 33;
    /// The copy of the key is its address, among the constants of the program.
    pub const KEY_IS_CONSTANT: u64 = 1 << 34;
    /// The copy of the value is its address, among the constants of the program.
    pub const VALUE_IS_CONSTANT: u64 = 1 << 35;
}

/// Flags of the labels of a sample.
pub mod flag {
    /// The set could not be read: memory that is not present, or implausible data. The record has no pairs.
    pub const UNREADABLE: u8 = 1 << 0;
    /// Pairs are left out, or keys or values are cut; of a thread context, all attributes are.
    pub const CUT: u8 = 1 << 1;
    /// The words are a [thread context](super::layout::CONTEXT).
    pub const CONTEXT: u8 = 1 << 2;
}

const _: () = assert!(size_of::<LabelPath>() == 80 && MAX_WORDS <= u8::MAX as usize);
