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
//!   bits 0-15    bytes of the key, at most MAX_KEY         bit 32   the key is longer
//!   bits 16-31   bytes of the value, at most MAX_VALUE     bit 33   the value is longer
//! ```

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
}

impl LabelPath {
    /// Returns the bytes of the struct as in the arena: all fields in order, words of eight bytes low half first.
    pub fn to_bytes(&self) -> [u8; size_of::<LabelPath>()] {
        let mut bytes = [0; size_of::<LabelPath>()];
        let halves = self.offsets.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
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
}

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
}

/// Flags of the labels of a sample.
pub mod flag {
    /// The set could not be read: memory that is not present, or implausible data. The record has no pairs.
    pub const UNREADABLE: u8 = 1 << 0;
    /// Pairs are left out, or keys or values are cut.
    pub const CUT: u8 = 1 << 1;
}

const _: () = assert!(size_of::<LabelPath>() == 64 && MAX_WORDS <= u8::MAX as usize);
