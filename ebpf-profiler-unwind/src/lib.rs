//! Compact unwind tables from ELF files.
