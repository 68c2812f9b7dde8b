//! BEAM: parameters of its walker, shapes of its frames, and layouts that all supported releases
//! share.
//!
//! ```text
//!   word at ACTIVE, index i ──► RANGES + 32 · i: modules, count ──► {start, end} of each module, sorted
//!                                                                      │
//!   header of a module, at its start                                   ▼
//!     number of functions 0 | line table 72 | … | functions, sorted, and the end of the last one: FUNCTIONS
//!                                                   │
//!   code of a module: functions | in some releases a jump to each shared fragment that it calls | end of the last function
//!   ErtsCodeInfo: … | module 16 | function 24 | arity 32 | code 40
//! ```
//!
//! The processes of Erlang have stacks of their own. Compiled code calls functions in C on the
//! stack of the thread:
//!
//! ```text
//!   stack of a process       return addresses and terms; the outermost address is NORMAL_EXIT
//!   stack of the thread      functions in C | BLOCK: registers of the scheduler | ROOT: return address of process_main
//! ```
//!
//! Offsets are in bytes.

/// Indices of the walker's parameters. Addresses are those in the process.
pub mod parameter {
    /// Address of the three tables of modules.
    pub const RANGES: usize = 0;
    /// Address of the index of the active table, four bytes.
    pub const ACTIVE: usize = 1;
    /// Offset of the array of functions in a module's header.
    pub const FUNCTIONS: usize = 2;
    /// Offset of the stack pointer in a process.
    pub const STOP: usize = 3;
    /// Offset of the current process in a scheduler's data, to which the path of the description
    /// leads.
    pub const CURRENT: usize = 4;
    /// Distance from the registers of the scheduler, where the thread's stack begins, to the
    /// address in the register for them.
    pub const REGISTERS: usize = 5;
    /// Distance from the registers of the scheduler to the return address of `process_main`.
    pub const ROOT: usize = 6;
    /// Start of the code of `process_main` that runs on the thread's stack.
    pub const MAIN: usize = 7;
    /// Its end.
    pub const MAIN_END: usize = 8;
    /// The outermost return address on the stack of a process; 0 if it is unknown.
    pub const NORMAL_EXIT: usize = 9;
    /// Number of parameters.
    pub const COUNT: usize = 10;
}

/// Shapes of frames, in the bits above the address.
pub mod shape {
    /// A function: address of its `ErtsCodeInfo`, [check](crate::walk::identity::beam), distance
    /// from that address.
    pub const FUNCTION: u8 = 0;
    /// Code that all modules share: address of its page.
    pub const FRAGMENT: u8 = 1;
    /// `process_main`, the loop of a scheduler: its address.
    pub const MAIN: u8 = 2;
    /// Code whose function was not readable, or a [jump](super::JUMP_SIZE): its address, and a hash of the 16 bytes
    /// around it.
    pub const ADDRESS: u8 = 3;
}

/// Size of one of the tables of modules.
pub const TABLE: u64 = 32;

/// Number of these tables.
pub const TABLES: u64 = 3;

/// Maximum number of modules, and of functions of a module.
pub const MAX_COUNT: u64 = 1 << 20;

/// Offset of the line table in a module's header.
pub const LINE_TABLE: u64 = 72;

/// Offset of the array with the addresses of each function's locations in a line table. Before it
/// are the files, the size of a location, four bytes, and the address of the locations, eight bytes
/// each.
pub const FUNCTION_LINES: u64 = 24;

/// Offset of module, function and arity in an `ErtsCodeInfo`.
pub const NAME: u64 = 16;

/// Offset of the code behind an `ErtsCodeInfo`.
pub const CODE: u64 = 40;

/// Size of a jump to a shared fragment, and the two bytes with which it begins: `40 e9 rel32`.
pub const JUMP_SIZE: u64 = 6;

/// See [`JUMP_SIZE`].
pub const JUMP_OPCODE: u64 = 0xe940;

/// Low six bits of an atom.
pub const ATOM: u64 = 0b00_1011;

/// Mask of the bits that distinguish atoms from other terms.
pub const ATOM_MASK: u64 = 0b11_1111;

/// Number of bytes of a function's locations that its check covers.
pub const CHECKED_LOCATIONS: u64 = 32;
