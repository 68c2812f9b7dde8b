//! Call frame information: `.eh_frame`, and `.debug_frame`, which differs in how it is framed.
//!
//! ```text
//!   section   entry            header                   instructions         row                 rule
//!   bytes ──► CIE or FDE ──►   Cie, Fde     ──┬──►      Plain       ───────────────────────►     16 bytes
//!             entry.rs         cie.rs, fde.rs └──►      Program       ──►    State       ──►
//!                                                       plain.rs, program.rs state.rs            arch/
//! ```
//!
//! Nearly all functions are made of a few plain instructions, which work on rules as they are; what else there may be works
//! on everything that a row can say.

pub(crate) mod section;

pub(crate) mod starts;

pub(crate) mod entry;

pub(crate) mod pointer;

pub(crate) mod cie;

pub(crate) mod cies;

pub(crate) mod fde;

pub(crate) mod plain;

pub(crate) mod program;

pub(crate) mod state;

pub(crate) mod expression;
