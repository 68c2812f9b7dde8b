//! Call frame information: `.eh_frame`, and `.debug_frame`, which differs in how it is framed.
//!
//! ```text
//!   section   entry            header                   instructions         row                 rule
//!   bytes ──► CIE or FDE ──►   Cie, Fde        ──►      Program       ──►    State       ──►     16 bytes
//!             entry.rs         cie.rs, fde.rs           program.rs           state.rs            arch/
//! ```

pub(crate) mod section;

pub(crate) mod entry;

pub(crate) mod pointer;

pub(crate) mod cie;

pub(crate) mod cies;

pub(crate) mod fde;

pub(crate) mod plain;

pub(crate) mod program;

pub(crate) mod state;

pub(crate) mod expression;
