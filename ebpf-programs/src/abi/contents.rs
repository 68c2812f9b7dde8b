//! Contents that identify a function: memory that was freed holds another one at the same addresses soon.
//!
//! ```text
//!   function   … | words | …      some are addresses of texts, and of a table
//!                     ├──► text    … | length 16 | hash 24, all bits set if unknown | state 32 | characters
//!                     └──► table   … | length 16 | … 24 | bytes 32
//! ```
//!
//! The check is a hash of the words, of the hash of each text, or its last 64 bytes if that is unknown, and of the first 48 bytes of the
//! table. One number describes it, beyond [`CHECK_WORDS`](super::interpreter::CHECK_WORDS):
//!
//! | bits | meaning |
//! | --- | --- |
//! | 2 to 6 | number of words, at most [`MAX_WORDS`] |
//! | 7 to 10, 11 to 14 | index of the word with the address of a text, plus 1; 0 for none |
//! | 15 to 18 | the same for the table |
//! | 19 to 23 | offset of the characters in a text, divided by 4 |
//! | 24 to 28 | the same in a text with other characters than ASCII; 0 if texts have no state |

/// Maximum number of words.
pub const MAX_WORDS: u32 = 16;

/// Maximum number of texts.
pub const TEXTS: u32 = 2;

/// Lowest bit of the number of words, and its mask.
pub const COUNT: (u32, u32) = (2, 31);

/// Lowest bits of the indices of texts.
pub const TEXT_SHIFTS: [u32; TEXTS as usize] = [7, 11];

/// Lowest bit of the index of the table.
pub const TABLE_SHIFT: u32 = 15;

/// Mask of an index.
pub const INDEX: u32 = 15;

/// Lowest bits of the offsets of characters: of ASCII, and of others.
pub const CHARACTERS_SHIFTS: [u32; 2] = [19, 24];

/// Mask of an offset, which is divided by 4.
pub const OFFSET: u32 = 31;

/// Offset of the length in a text and a table; hash and state follow in a text.
pub const LENGTH: u64 = 16;

/// The hash of a text that was not computed yet.
pub const NO_HASH: u64 = u64::MAX;

/// Bit of the state of a text of ASCII characters.
pub const ASCII: u64 = 1 << 6;

/// Lowest bit of the size of a character in the state, and its mask.
pub const SIZE: (u32, u64) = (2, 7);

/// Maximum number of bytes of a text without a hash.
pub const TEXT_BYTES: u64 = 64;

/// Maximum number of bytes of a table.
pub const TABLE_BYTES: u64 = 48;
