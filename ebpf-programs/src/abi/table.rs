//! Unwind tables: the unwind rules for all instructions of one ELF file.
//!
//! A table is one sequence of bytes without pointers, copied into the [arena] unchanged. User space writes it, the kernel
//! side reads it. Its parts are consecutive:
//!
//! ```text
//!   Header     32 bytes
//!   rows       4 bytes each, [`Row`]: sorted by address
//!   zeros      up to 12 bytes, up to a multiple of 16
//!   rules      16 bytes each, [`Rule`]; number 0 is `NO_DATA`
//!   groups     8 bytes for each 16 pages of the file's address space, [`Group`]
//!   pages      2 bytes for each page of the groups that have rows, and for one more, [`Page`]
//!   zeros      2 bytes if the pages end in the middle of a word
//! ```
//!
//! Look-up of the row for an address:
//!
//! ```text
//!   address - header.base = group : the other bits    page of the group : 4 bits    in the page : header.page_bits
//!
//!   groups[group] ──► pages[page] to pages[page + 1] ──► search these rows and the one before them
//!   pages[page] to pages[page + 1], if all groups have pages: one dependent read less
//! ```
//!
//! * A row is valid from its address up to the next row's, in the same page or a later one; the last row is valid up to the
//!   end of its page. The candidates for an address are therefore the rows of its page and the one before them.
//! * The last word of the header is a row with rule `NO_DATA`, valid before the first row.
//! * A group holds the full index of its first row; a page holds only the low half, because a group has at most
//!   [`GROUP_ROWS`] rows.
//! * If few groups have no rows, these have pages too, so that a page is found without its group. Otherwise groups without
//!   rows cost 8 bytes each: for sparse code, or code of which little is described.
//! * Pages are small where rows are dense, to limit the search, and large where they are sparse, to keep the directory small
//!   against the rows.
//! * The rows of one page may cross into the next block of the arena, but never into a third. The first step of a search
//!   compares at that border; all others stay in one block.
//! * All addresses are virtual addresses of the ELF file, not of a process.

use core::ops::RangeInclusive;

use super::arena;

/// Valid numbers of bits of an address within a page.
pub const PAGE_BITS: RangeInclusive<u32> = 10..=16;

/// Alignment of a table's first address, the size of the largest page.
pub const ALIGNMENT: u64 = 1 << *PAGE_BITS.end();

/// Binary logarithm of the number of pages in a group.
pub const GROUP_BITS: u32 = 4;

/// Maximum number of rows in a group. Groups of the smallest pages cannot exceed it, even with a row at each byte.
pub const GROUP_ROWS: usize = arena::BLOCK / size_of::<Row>();

/// Number of the rule for code without unwind data.
pub const NO_DATA: u16 = 0;

/// Header of a table, its first 32 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Virtual address of the first page, a multiple of [`ALIGNMENT`].
    pub base: u64,
    /// Number of pages, up to the last one that has rows.
    pub pages: u32,
    /// Number of rules.
    pub rules: u32,
    /// Number of rows in all pages.
    pub rows: u32,
    /// Size of the table in bytes.
    pub size: u32,
    /// ABI version of the builder, [`super::VERSION`].
    pub version: u16,
    /// Binary logarithm of the size of a page in bytes of address space, in [`PAGE_BITS`].
    pub page_bits: u8,
    /// 1 if all groups have pages, else 0.
    pub whole: u8,
    /// Row that is valid before the first one; must be zero, the rule [`NO_DATA`].
    pub before: Row,
}

impl Header {
    /// Returns the end of the rows, in bytes from the start of the table.
    pub const fn rows_end(&self) -> u64 {
        size_of::<Header>() as u64 + self.rows as u64 * size_of::<Row>() as u64
    }

    /// Returns the start of the rules, in bytes from the start of the table.
    pub const fn rules_at(&self) -> u64 {
        self.rows_end().next_multiple_of(size_of::<Rule>() as u64)
    }

    /// Returns the start of the groups, in bytes from the start of the table.
    pub const fn groups_at(&self) -> u64 {
        self.rules_at() + self.rules as u64 * size_of::<Rule>() as u64
    }

    /// Returns the number of groups.
    pub const fn groups(&self) -> u32 {
        self.pages.div_ceil(1 << GROUP_BITS)
    }

    /// Returns the start of the pages, in bytes from the start of the table.
    pub const fn pages_at(&self) -> u64 {
        self.groups_at() + self.groups() as u64 * size_of::<Group>() as u64
    }
}

/// Entry of a table's directory for 16 consecutive pages (2^[`GROUP_BITS`]): full index of their first row, and of their
/// first [`Page`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Index of the first row at or after its first page, in rows from the start of the table.
    pub first: u32,
    /// Index of its first [`Page`], in pages from the start of the table; 0 if it has no pages, because it has no rows.
    pub pages: u32,
}

/// Low 16 bits of the index of the first row at or after the start of a page, in rows from the start of the table.
pub type Page = u16;

/// An unwind row: the start of a range of addresses, and its rule.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Low 16 bits of the address.
    pub low: u16,
    /// Number of the rule.
    pub rule: u16,
}

/// An unwind rule: the registers of the caller from those of a frame.
///
/// In equations, with `reg` the register numbered `register` in DWARF's numbering and `word` = 8:
///
/// | `cfa`        | canonical frame address                                   |
/// |--------------|-----------------------------------------------------------|
/// | `NO_DATA`    | unknown: the code has no unwind data                      |
/// | `CANNOT`     | described, but not expressible as a rule                  |
/// | `END`        | none: this is the outermost frame, of a coroutine if `aux` is not 0 |
/// | `REGISTER`   | `reg + offset`                                            |
/// | `DEREF`      | `*(reg + offset) + aux`                                   |
/// | `PLT`        | `reg + offset + (pc & 15 >= aux ? word : 0)`              |
/// | `SIGNAL`     | all registers are in a signal frame at `reg + offset`     |
/// | `DEPTH`      | `top - *(reg + offset) + aux`, see below                  |
///
/// | `ra`         | return address                    | `fp`       | caller's frame pointer        |
/// |--------------|-----------------------------------|------------|-------------------------------|
/// | `BELOW`      | `*(cfa - word)`                   | `SAME`     | unchanged                     |
/// | `SAVED`      | `*(cfa + aux)`                    | `SAVED`    | `*(cfa + fp_offset)`          |
/// | `REGISTER`   | the register numbered `aux`       | `DIRECT`   | `*(fp + fp_offset)`           |
/// |              |                                   | `UNKNOWN`  | lost                          |
///
/// `DEPTH` is for code on another stack while its own may be moved, as Go does before it calls C. It saves the depth of its
/// stack in `*(reg + offset)`, and in the next word the address of an object whose second word is the current `top` of that
/// stack. If that address is 0, the first word is the stack pointer itself.
///
/// If the frame addresses of a file start from one more callee-saved register, all its rules describe that register too: its
/// number is in bits of `ra` and its location in bits of `fp`, see [`kept`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// One of [`cfa`].
    pub cfa: u8,
    /// DWARF number of the base register of the canonical frame address.
    pub register: u8,
    /// One of [`ra`], and the number of the [`kept`] register.
    pub ra: u8,
    /// Two bit fields: one of [`fp`], and the location of the [`kept`] register.
    pub fp: u8,
    /// Offset from the base register, in bytes.
    pub offset: i32,
    /// Second operand; its meaning is in the tables above.
    pub aux: i32,
    /// Offset of the caller's frame pointer, in bytes.
    pub fp_offset: i32,
}

impl Rule {
    /// Rule for code without unwind data.
    pub const NO_DATA: Rule = Rule::only(cfa::NO_DATA);
    /// Rule for code whose unwind data cannot be expressed as a rule.
    pub const CANNOT: Rule = Rule::only(cfa::CANNOT);
    /// Rule of the outermost frame.
    pub const END: Rule = Rule::only(cfa::END);
    /// Rule of the outermost frame of a coroutine, which has a separate stack, or a slice of a stack.
    pub const COROUTINE: Rule = Rule { aux: 1, ..Rule::only(cfa::END) };

    const fn only(cfa: u8) -> Rule {
        Rule { cfa, register: 0, ra: ra::BELOW, fp: fp::SAME, offset: 0, aux: 0, fp_offset: 0 }
    }
}

/// Kinds of canonical frame address.
pub mod cfa {
    /// The code has no unwind data.
    pub const NO_DATA: u8 = 0;
    /// The unwind data cannot be expressed as a rule.
    pub const CANNOT: u8 = 1;
    /// The outermost frame.
    pub const END: u8 = 2;
    /// `reg + offset`
    pub const REGISTER: u8 = 3;
    /// `*(reg + offset) + aux`
    pub const DEREF: u8 = 4;
    /// `reg + offset + (pc & 15 >= aux ? 8 : 0)`
    pub const PLT: u8 = 5;
    /// All registers are in a signal frame at `reg + offset`.
    pub const SIGNAL: u8 = 6;
    /// `top - *(reg + offset) + aux`
    pub const DEPTH: u8 = 7;
}

/// Kinds of return address.
pub mod ra {
    /// Mask of the kind.
    pub const KIND: u8 = 3;
    /// At `*(cfa - 8)`, pushed by the call (x86_64).
    pub const BELOW: u8 = 0;
    /// `*(cfa + aux)`
    pub const SAVED: u8 = 1;
    /// The register numbered `aux`.
    pub const REGISTER: u8 = 2;
    /// Flag: the return address is signed; its signature is to be stripped (arm64).
    pub const SIGNED: u8 = 0x80;
}

/// Kinds of frame pointer.
pub mod fp {
    /// Mask of the kind.
    pub const KIND: u8 = 3;
    /// Unchanged.
    pub const SAME: u8 = 0;
    /// `*(cfa + fp_offset)`
    pub const SAVED: u8 = 1;
    /// `*(fp + fp_offset)`
    pub const DIRECT: u8 = 2;
    /// The caller's value cannot be recovered.
    pub const UNKNOWN: u8 = 3;
}

/// One further callee-saved register whose value is tracked from frame to frame.
///
/// Bits 2 to 6 of a rule's `ra` are its number; 0, which is not callee-saved, means no register. Bits 2 to 7 of `fp` are
/// the location of the caller's value:
///
/// | location  | caller's value                     |
/// |-----------|------------------------------------|
/// | `SAME`    | unchanged                          |
/// | 1 to 62   | `*(cfa - word - word * location)`  |
/// | `LOST`    | lost                               |
///
/// glibc's `_dl_runtime_resolve` has its frame on `rbx`, which the functions that it calls to look up a symbol save.
pub mod kept {
    /// Lowest bit of the number in `ra`, and of the location in `fp`.
    pub const SHIFT: u32 = 2;
    /// Mask of the number, after the shift.
    pub const NUMBER: u8 = 31;
    /// Unchanged.
    pub const SAME: u8 = 0;
    /// Not recoverable.
    pub const LOST: u8 = 63;
}

const _: () = {
    assert!(size_of::<Header>() == 32);
    assert!(GROUP_ROWS >> GROUP_BITS >= 1 << *PAGE_BITS.start());
    assert!(size_of::<Group>() == 8);
    assert!(size_of::<Row>() == 4);
    assert!(size_of::<Rule>() == 16);
};
