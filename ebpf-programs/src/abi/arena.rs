//! The memory in which user space hands tables to the kernel side.
//!
//! The arena is one array of blocks of 64 KiB. The kernel side sees a block through one map look-up and then
//! searches inside it without calling helpers; user space writes it through a memory mapping. A *place* is an
//! offset into the arena in units of [`UNIT`] bytes.
//!
//! Whatever needs at most one block never crosses a block's end; whatever is larger starts at a block's start.

/// Bytes in a block.
pub const BLOCK: usize = 1 << 16;

/// Words of four bytes in a block.
pub const BLOCK_WORDS: usize = BLOCK / 4;

/// Blocks that one inner map holds: the step in which the arena grows, 512 KiB.
pub const CHUNK_BLOCKS: u32 = 8;

/// Inner maps at most: 1 GiB of tables.
pub const CHUNKS: u32 = 2048;

/// Bytes in the unit in which places count.
pub const UNIT: usize = 64;

/// Units in a block.
pub const BLOCK_UNITS: u32 = (BLOCK / UNIT) as u32;

/// One block of the arena.
pub type Block = [u32; BLOCK_WORDS];
