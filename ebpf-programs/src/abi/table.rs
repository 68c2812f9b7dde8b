//! An unwind table: how to get from any instruction of one ELF file to the caller's frame.
//!
//! A table is one piece of bytes without pointers, so it is copied into the [arena] as it is. Each part begins where
//! the one before it ends:
//!
//! ```text
//!   Header     32 bytes
//!   rows       4 bytes each, [`Row`]: sorted by address
//!   zeros      up to 12 bytes, up to a multiple of 16
//!   rules      16 bytes each, [`Rule`]; number 0 says that there is no data
//!   groups     8 bytes for each 16 pages of the file's address space, [`Group`]
//!   pages      2 bytes for each page of the groups that have rows, and for one more, [`Page`]
//!   zeros      2 bytes where pages end in the middle of a word
//! ```
//!
//! From an address to its row:
//!
//! ```text
//!   address - header.base = group : the other bits    page of the group : 4 bits    in the page : header.page_bits
//!
//!   groups[group] ──► pages[page] to pages[page + 1] ──► search among these rows and the one in front of them
//!   pages[page] to pages[page + 1], where all groups have pages: then none is waited for
//! ```
//!
//! * A row holds from its address up to the next row's, be that in the same page or in one far behind; the last one up to
//!   the end of its page. So the rows of an address are those of its page and the one in front of them.
//! * In front of the first row stands the last word of the header, a row that says that there is no data.
//! * A group knows where its rows begin and a page only the lower half of that, as a group has few enough.
//! * Where groups without rows are few they have pages, too, so that a page is found without its group. Else what has no rows
//!   costs next to nothing: code that lies far apart, or code of which little is described.
//! * Pages are small where rows are dense, so that few of them have to be searched, and large where they are not, so
//!   that the directory stays small against the rows.
//! * The rows of one page may go on in the next block of the arena, and never reach a third: the first step of a search
//!   goes to that border, and all others stay in one block.
//! * All addresses are virtual addresses of the ELF file, not of a process.

use core::ops::RangeInclusive;

use super::arena;

/// Of how many bits an address within a page may be.
pub const PAGE_BITS: RangeInclusive<u32> = 10..=16;

/// A table begins at a multiple of the largest page.
pub const ALIGNMENT: u64 = 1 << *PAGE_BITS.end();

/// A group has two to the power of so many pages.
pub const GROUP_BITS: u32 = 4;

/// The largest number of rows that a group can have. Of the smallest pages none has more, with one at each byte.
pub const GROUP_ROWS: usize = arena::BLOCK / size_of::<Row>();

/// The number of the rule that says: there is no unwind data here.
pub const NO_DATA: u16 = 0;

/// The first 32 bytes of a table.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The virtual address of the first page, a multiple of [`ALIGNMENT`].
    pub base: u64,
    /// How many pages there are, up to the last one that has rows.
    pub pages: u32,
    /// How many rules there are.
    pub rules: u32,
    /// How many rows the pages have in all.
    pub rows: u32,
    /// The size of the whole table in bytes.
    pub size: u32,
    /// [`super::VERSION`] of who built it.
    pub version: u16,
    /// A page has two to the power of so many bytes of address space, see [`PAGE_BITS`].
    pub page_bits: u8,
    /// 1 where all groups have pages, else 0.
    pub whole: u8,
    /// Zero: what holds in front of the first row.
    pub before: Row,
}

impl Header {
    /// Where the rows end, in bytes from the start of the table.
    pub const fn rows_end(&self) -> u64 {
        size_of::<Header>() as u64 + self.rows as u64 * size_of::<Row>() as u64
    }

    /// Where the rules begin, in bytes from the start of the table.
    pub const fn rules_at(&self) -> u64 {
        self.rows_end().next_multiple_of(size_of::<Rule>() as u64)
    }

    /// Where the groups begin, in bytes from the start of the table.
    pub const fn groups_at(&self) -> u64 {
        self.rules_at() + self.rules as u64 * size_of::<Rule>() as u64
    }

    /// How many groups there are.
    pub const fn groups(&self) -> u32 {
        self.pages.div_ceil(1 << GROUP_BITS)
    }

    /// Where the pages begin, in bytes from the start of the table.
    pub const fn pages_at(&self) -> u64 {
        self.groups_at() + self.groups() as u64 * size_of::<Group>() as u64
    }
}

/// Where the rows of a group of pages are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The first row in its pages or behind them, counted in rows from the start of the table.
    pub first: u32,
    /// Its first [`Page`], counted in pages from the start of the table; 0 where it has none, as it has no rows.
    pub pages: u32,
}

/// The low 16 bits of the number of the first row in a page or behind it, counted in rows from the start of the table.
pub type Page = u16;

/// From which address on which rule holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The low 16 bits of the address.
    pub low: u16,
    /// The number of the rule.
    pub rule: u16,
}

/// How one frame is left for its caller's.
///
/// In equations, with `reg` the register numbered `register` in DWARF's numbering and `word` = 8:
///
/// | `cfa`        | canonical frame address                                   |
/// |--------------|-----------------------------------------------------------|
/// | `NO_DATA`    | unknown: nothing describes this code                      |
/// | `CANNOT`     | described, but in a way that a rule can't hold            |
/// | `END`        | none: this is the outermost frame                         |
/// | `REGISTER`   | `reg + offset`                                            |
/// | `DEREF`      | `*(reg + offset) + aux`                                   |
/// | `PLT`        | `reg + offset + (pc & 15 >= aux ? word : 0)`              |
/// | `SIGNAL`     | all registers lie in a signal frame at `reg + offset`     |
/// | `DEPTH`      | `top - *(reg + offset) + aux`, see below                  |
///
/// | `ra`         | return address                    | `fp`       | caller's frame pointer        |
/// |--------------|-----------------------------------|------------|-------------------------------|
/// | `BELOW`      | `*(cfa - word)`                   | `SAME`     | unchanged                     |
/// | `SAVED`      | `*(cfa + aux)`                    | `SAVED`    | `*(cfa + fp_offset)`          |
/// | `REGISTER`   | the register numbered `aux`       | `DIRECT`   | `*(fp + fp_offset)`           |
/// |              |                                   | `UNKNOWN`  | lost                          |
///
/// `DEPTH` is for code that went to another stack while its own may be moved, which is what Go does before it calls C: it
/// keeps how deep it stood in `*(reg + offset)`, and behind that the address of an object whose second word is the `top`
/// of that stack, wherever it lies by now. Without an object the first word is the stack pointer itself.
///
/// Where addresses of a file start from one more register that callees save, all its rules say what becomes of that one:
/// `ra` has its number and `fp` its place in bits of their own, see [`kept`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// One of [`cfa`].
    pub cfa: u8,
    /// The DWARF number of the register that the canonical frame address starts from.
    pub register: u8,
    /// One of [`ra`], and the number of the register that is [`kept`].
    pub ra: u8,
    /// One of [`fp`], and the place of the register that is [`kept`].
    pub fp: u8,
    /// Added to the register.
    pub offset: i32,
    /// The second number of the rule; see the tables above for who uses it.
    pub aux: i32,
    /// Where the caller's frame pointer lies.
    pub fp_offset: i32,
}

impl Rule {
    /// There is no unwind data here.
    pub const NO_DATA: Rule = Rule::only(cfa::NO_DATA);
    /// There is unwind data here, but a rule can't say it.
    pub const CANNOT: Rule = Rule::only(cfa::CANNOT);
    /// The outermost frame.
    pub const END: Rule = Rule::only(cfa::END);

    const fn only(cfa: u8) -> Rule {
        Rule { cfa, register: 0, ra: ra::BELOW, fp: fp::SAME, offset: 0, aux: 0, fp_offset: 0 }
    }
}

/// Kinds of canonical frame address.
pub mod cfa {
    /// Nothing describes this code.
    pub const NO_DATA: u8 = 0;
    /// Described, but in a way that a rule can't hold.
    pub const CANNOT: u8 = 1;
    /// The outermost frame.
    pub const END: u8 = 2;
    /// `reg + offset`
    pub const REGISTER: u8 = 3;
    /// `*(reg + offset) + aux`
    pub const DEREF: u8 = 4;
    /// `reg + offset + (pc & 15 >= aux ? 8 : 0)`
    pub const PLT: u8 = 5;
    /// All registers lie in a signal frame at `reg + offset`.
    pub const SIGNAL: u8 = 6;
    /// `top - *(reg + offset) + aux`
    pub const DEPTH: u8 = 7;
}

/// Kinds of return address.
pub mod ra {
    /// The bits that are the kind.
    pub const KIND: u8 = 3;
    /// `*(cfa - 8)`
    pub const BELOW: u8 = 0;
    /// `*(cfa + aux)`
    pub const SAVED: u8 = 1;
    /// The register numbered `aux`.
    pub const REGISTER: u8 = 2;
    /// Set beside a kind: the return address is signed and wants its signature stripped (arm64).
    pub const SIGNED: u8 = 0x80;
}

/// Kinds of frame pointer.
pub mod fp {
    /// The bits that are the kind.
    pub const KIND: u8 = 3;
    /// Unchanged.
    pub const SAME: u8 = 0;
    /// `*(cfa + fp_offset)`
    pub const SAVED: u8 = 1;
    /// `*(fp + fp_offset)`
    pub const DIRECT: u8 = 2;
    /// Not recoverable.
    pub const UNKNOWN: u8 = 3;
}

/// One register besides stack and frame pointer, kept known from frame to frame.
///
/// Bits 2 to 6 of a rule's `ra` are its number; 0, which no callee saves, says that none is kept. Bits 2 to 7 of `fp` are
/// where the caller's value is:
///
/// | place     | caller's value                  |
/// |-----------|---------------------------------|
/// | `SAME`    | unchanged                       |
/// | 1 to 62   | `*(cfa - word - word * place)`  |
/// | `LOST`    | lost                            |
///
/// glibc's `_dl_runtime_resolve` has its frame on `rbx`, and whatever it calls to look a symbol up saves that.
pub mod kept {
    /// The lowest bit of the number in `ra`, and of the place in `fp`.
    pub const SHIFT: u32 = 2;
    /// The bits of the number.
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
