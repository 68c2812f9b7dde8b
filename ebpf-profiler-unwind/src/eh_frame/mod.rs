//! Call frame information: `.eh_frame`, and `.debug_frame`, whose framing differs.
//!
//! ```text
//!   section   entry            header                   instructions         row                 rule
//!   bytes ──► CIE or FDE ──►   Cie, Fde     ──┬──►      Plain       ───────────────────────►     16 bytes
//!             entry.rs         cie.rs, fde.rs └──►      Program       ──►    State       ──►
//!                                                       plain.rs, program.rs state.rs            arch/
//! ```
//!
//! Nearly all functions consist of a few plain instructions, which change a rule directly. All other instructions change a
//! full row.
//!
//! # Why not gimli
//!
//! A table needs three of a row's registers and never evaluates an expression. This decoder keeps only those, caches the
//! common part of FDEs, reads a file in pieces of 8 KiB and orders functions by `.eh_frame_hdr`. Building a whole table
//! takes 0.35 to 0.52 of the instructions, and 0.25 to 0.5 of the CPU time, of walking all rows with gimli without storing
//! anything (`benches/unwind_tables`). gimli is the reference in the tests: each row of a system's files has to mean the
//! same.

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
