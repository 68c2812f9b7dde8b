//! CPython 2.7 and 3.6 on.

mod attach;

mod debug_offsets;

mod find;

mod lines;

mod name;

mod offsets;

mod table;

mod text;

mod version;

use ebpf_profiler_core::elf::Elf;
use ebpf_profiler_core::language::{Language, Runtime};

/// CPython.
#[derive(Clone, Copy, Debug, Default)]
pub struct Python;

impl Language for Python {
    fn name(&self) -> &'static str {
        "cpython"
    }

    fn find(&self, elf: &Elf) -> Option<Box<dyn Runtime>> {
        find::find(elf).map(|file| Box::new(file) as Box<dyn Runtime>)
    }
}
