//! Go's function table, and properties of the code that it does not record.

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::internal::go::{Function, Pclntab};

/// The table, and the order of instructions in prologues.
#[derive(Debug)]
pub(crate) struct Go {
    pub(crate) table: Pclntab,
    /// `true` if functions move the stack pointer before they save the frame pointer, as on x86_64
    /// up to 1.20.
    pub(crate) saves_late: bool,
}

impl Go {
    pub(super) fn of(elf: &Elf) -> Option<Go> {
        let table = Pclntab::find(elf).ok().flatten()?;
        let saves_late = elf.arch() == Arch::X86_64 && saves_late(elf, &table);
        Some(Go { table, saves_late })
    }
}

/// Samples functions all over the code. One that saves late suffices: no other compiler emits that.
fn saves_late(elf: &Elf, table: &Pclntab) -> bool {
    const SAMPLED_FUNCTIONS: usize = 256;
    let distance = table.len().div_ceil(SAMPLED_FUNCTIONS).max(1);
    let functions = (0..table.len()).step_by(distance).filter_map(|number| table.function(number));
    functions.filter_map(|function| after_making_room(elf, &function)).any(|code| {
        // mov [rsp + n], rbp
        matches!(code, [0x48, 0x89, 0x6c | 0xac, 0x24])
    })
}

/// Returns the instruction behind the first that moves the stack pointer by more than a push.
fn after_making_room(elf: &Elf, function: &Function<'_>) -> Option<[u8; 4]> {
    let (range, distance) = function.stack()?.nth(1)?;
    let mut code = [0; 4];
    elf.read(range.start, &mut code).ok().filter(|()| distance > 8)?;
    Some(code)
}
