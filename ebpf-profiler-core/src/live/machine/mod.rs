//! The running machine: its CPUs, clocks, threads and capabilities, and its processes, with their
//! mappings, memory and files.

pub(super) mod access;

pub(super) mod broker;

pub(super) mod capability;

pub(super) mod clock;

pub(super) mod confine;

pub(super) mod cpus;

pub(super) mod describe;

pub(super) mod descriptors;

pub(super) mod helpers;

mod inode;

mod kept;

pub(super) mod mapped_file;

pub(super) mod mapping_query;

pub(super) mod memory;

pub(super) mod other_thread;

pub(super) mod perf_map;

pub(super) mod priority;

pub(super) mod processes;

pub(super) mod reservation;

pub(super) mod served;

pub(super) mod system;

pub(super) mod this_thread;

pub(super) mod usage;
