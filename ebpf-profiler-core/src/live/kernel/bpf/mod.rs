//! The `bpf` system call: maps, programs and links.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

mod map;

mod program;

mod request;

pub(in crate::live) use map::{Batches, Map, Shape};
pub(in crate::live) use program::{
    Code, FUNCTION_ENTRY, FUNCTION_EXIT, Runs, attach, link, link_to_function, load_empty_of_function,
    load_types, run, runs,
};
