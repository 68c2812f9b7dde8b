//! The kernel: system calls on its programs, maps and events, facts of the version that runs, and
//! the maps and buffers that the kernel side shares with this program.

pub(super) mod bpf;

pub(super) mod cpu_buffers;

pub(super) mod fault;

pub(super) mod feature;

pub(super) mod held_map;

pub(super) mod memlock;

pub(super) mod mmap;

pub(super) mod names;

pub(super) mod object;

pub(super) mod perf;

pub(super) mod ring;

pub(super) mod settings;

pub(super) mod sideband;

pub(super) mod tables;

pub(super) mod types;

pub(super) mod version;

pub(super) mod waker;
