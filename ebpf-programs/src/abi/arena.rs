//! Shared memory in which user space publishes tables, mappings and interpreter descriptions to the kernel side.
//!
//! The arena is one array of blocks of 64 KiB. The kernel side gets a block by one map look-up and searches inside it
//! without calling helpers; user space writes it through a memory mapping. An *arena offset* (`place`) counts in units
//! of [`UNIT`] bytes.
//!
//! Data of at most one block never crosses the end of a block; larger data starts at the start of a block.

/// Size of a block in bytes.
pub const BLOCK: usize = 1 << 16;

/// Words of four bytes in a block.
pub const BLOCK_WORDS: usize = BLOCK / 4;

/// Blocks in one inner map. The arena grows by inner maps of 512 KiB.
pub const CHUNK_BLOCKS: u32 = 8;

/// Maximum number of inner maps, 1 GiB of tables.
pub const CHUNKS: u32 = 2048;

/// Bytes in a unit of arena offsets.
pub const UNIT: usize = 64;

/// Units in a block.
pub const BLOCK_UNITS: u32 = (BLOCK / UNIT) as u32;

/// One block of the arena.
pub type Block = [u32; BLOCK_WORDS];
