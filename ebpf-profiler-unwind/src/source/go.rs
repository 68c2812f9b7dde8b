//! Go's own table, and what it doesn't say about the code.

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::internal::go::{Function, Pclntab};

/// The table, and a habit of the compiler's.
#[derive(Debug)]
pub(crate) struct Go {
    pub(crate) table: Pclntab,
    /// Whether functions make room on the stack before they save the frame pointer, as those of x86_64 did up to 1.20.
    pub(crate) saves_late: bool,
}

impl Go {
    pub(super) fn of(elf: &Elf) -> Option<Go> {
        let table = Pclntab::find(elf).ok().flatten()?;
        let saves_late = elf.arch() == Arch::X86_64 && saves_late(elf, &table);
        Some(Go { table, saves_late })
    }
}

/// Looks at a few functions all over the code. One that saves late is enough: no other compiler's do.
fn saves_late(elf: &Elf, table: &Pclntab) -> bool {
    const FEW: usize = 256;
    let distance = table.len().div_ceil(FEW).max(1);
    let functions = (0..table.len()).step_by(distance).filter_map(|number| table.function(number));
    functions.filter_map(|function| after_making_room(elf, &function)).any(|code| {
        // mov [rsp + n], rbp
        matches!(code, [0x48, 0x89, 0x6c | 0xac, 0x24])
    })
}

/// The instruction behind the first that moves the stack pointer, and by more than a push.
fn after_making_room(elf: &Elf, function: &Function<'_>) -> Option<[u8; 4]> {
    let (range, distance) = function.stack()?.nth(1)?;
    let mut code = [0; 4];
    elf.read(range.start, &mut code).ok().filter(|()| distance > 8)?;
    Some(code)
}
