//! Decoder of x86_64 instructions, for all code that is read instead of executed: accessors of runtimes, and functions without
//! unwind data.
//!
//! # Examples
//!
//! ```
//! use ebpf_profiler_core::internal::x86_64::{Operand, decode};
//!
//! let instruction = decode(b"\x48\x8d\x64\xcc\x08").unwrap();
//! assert_eq!((instruction.len, instruction.operand), (5, Operand::Indexed(Some(4))), "lea rsp, [rsp + rcx * 8 + 8]");
//! assert_eq!(instruction.written(), 1 << 4, "rsp");
//! ```

mod instruction;

mod written;

pub use instruction::{
    Instruction, Operand, THREE_BYTES, THREE_BYTES_NUMBER, TWO_BYTES, VECTOR, XOP, decode,
};
pub use written::Registers;
