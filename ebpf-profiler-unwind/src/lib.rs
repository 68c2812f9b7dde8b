//! Compact unwind tables from ELF files.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod compile;

mod source;

mod code;

mod index;

mod eh_frame;

mod arch;

mod table;

mod rule;

mod bytes;

pub use compile::{Tables, tables};
pub use rule::Rule;
pub use table::{Invalid, Row, Table, validate};
