//! Recognizes files that hold HotSpot.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::language::{Attachment, Reason, Runtime, Target};

use super::attach;
use super::tables::TableSymbols;
use super::virtual_thread::{self, VirtualThreadSymbols};

/// A file that holds HotSpot.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) arch: Arch,
    pub(super) tables: TableSymbols,
    pub(super) hidden: HiddenSymbols,
}

/// Virtual addresses of variables that are only in the symbol table, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HiddenSymbols {
    /// The list of stub routines.
    pub(super) stubs: Option<u64>,
    pub(super) virtual_threads: VirtualThreadSymbols,
}

/// Symbol of the list of stub routines.
const STUBS: &[u8] = b"_ZN12StubCodeDesc5_listE";

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let tables = TableSymbols::find(elf)?;
    let mut hidden = HiddenSymbols::default();
    let starts: Vec<&[u8]> = virtual_thread::NAMES.into_iter().chain([STUBS]).collect();
    elf.for_each_symbol_with(&starts, |name, symbol| {
        if name == STUBS {
            hidden.stubs = Some(symbol.address);
        }
        hidden.virtual_threads.add(name, symbol.address);
    });
    Some(File { arch: elf.arch(), tables, hidden })
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &[]
    }

    fn owns_anonymous_memory(&self) -> bool {
        self.arch == Arch::X86_64
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        attach::attach(self, target)
    }
}
