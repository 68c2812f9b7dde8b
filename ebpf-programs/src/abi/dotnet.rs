//! .NET: parameters of its walker, shapes of its frames, and layouts that all supported releases share.
//!
//! ```text
//!   MAP ──► five levels of 256 pointers ──► fragment ──► range section
//!                                                          ├─ code heap: nibbles ──► start of the method
//!                                                          │    [start - 8] ──► header: method, unwind entries
//!                                                          └─ precompiled image: unwind entries, sorted
//!
//!   unwind entry: begin 0, end 4, unwind codes 8; four bytes each, relative to the start of the range section
//! ```
//!
//! Bit 0 of pointers between levels and fragments is a mark. Offsets are in bytes.

/// Indices of the walker's parameters. Addresses are those in the process.
pub mod parameter {
    /// Address of the first level of the map of code ranges.
    pub const MAP: usize = 0;
    /// 1 if words of nibble maps may hold distances to the start of a method.
    pub const HAS_DISTANCES: usize = 1;
    /// Offset of the pointer to the data of precompiled code in a module.
    pub const PRECOMPILED: usize = 2;
    /// Offset of the pointer to the unwind entries in this data; their number follows.
    pub const ENTRIES: usize = 3;
    /// Offset of the name in the descriptor of a dynamic method.
    pub const DYNAMIC_NAME: usize = 4;
    /// Address of the function that the runtime writes over a return address to stop a thread; 0 if unknown.
    pub const HIJACKED: usize = 5;
    /// Address of the link to the first thread.
    pub const THREADS: usize = 6;
    /// Distance from the link in a thread, to the next one, to the original of the return address that was replaced; the address of the
    /// replaced word follows.
    pub const ORIGINAL: usize = 7;
    /// Number of parameters.
    pub const COUNT: usize = 8;
}

/// Shapes of frames, in the bits above the address.
pub mod shape {
    /// Code compiled while the program runs: address of the method's code, [check](crate::walk::identity::dotnet), distance.
    pub const METHOD: u8 = 0;
    /// Precompiled code: address at which its unwind entry begins, hash of the code there, distance.
    pub const PRECOMPILED: u8 = 1;
    /// Code that the runtime generates between methods: address of its page.
    pub const STUB: u8 = 2;
}

/// Shifts of an address for its index in each level of the map.
pub const LEVELS: [u32; 5] = [49, 41, 33, 25, 17];

/// Maximum number of fragments that a search visits.
pub const MAX_FRAGMENTS: u32 = 64;

/// Size of a fragment: next, begin, end, range section.
pub const FRAGMENT: u32 = 32;

/// Number of bytes of a range section that are read.
pub const SECTION: u32 = 48;

/// Index of the words of a range section: start, module of a precompiled image, code heap.
pub const SECTION_WORDS: [usize; 3] = [0, 4, 5];

/// Number of bytes of a code heap that are read.
pub const HEAP: u32 = 48;

/// Index of the words of a code heap: start, end, address that the nibbles begin with, nibbles.
pub const HEAP_WORDS: [usize; 4] = [2, 3, 4, 5];

/// Size of an unwind entry.
pub const ENTRY: u64 = 12;

/// Maximum number of unwind entries of an image or a method.
pub const MAX_ENTRIES: u64 = 1 << 22;

/// Number of bytes of a method's header: debug information, exception clauses, collector's information, method, number of unwind
/// entries (four bytes), unwind entries.
pub const HEADER: u32 = 48;

/// Offset of the unwind entries in a method's header.
pub const HEADER_ENTRIES: u64 = 36;

/// The highest kind of a stub, which the word before its code holds in place of a header's address.
pub const MAX_STUB_KIND: u64 = 15;

/// Kind of a method whose name is a text, in the low bits of its flags.
pub const DYNAMIC: u64 = 7;

/// Size of a group of methods before the first one: method table, next, sizes and high bits of tokens.
pub const GROUP: u64 = 24;

/// Offset of the module in a method table.
pub const MODULE: u64 = 24;
