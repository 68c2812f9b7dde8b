//! Where the registers of a thread stand in its `prstatus`; every line that names one lives here.

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::registers::Registers;

mod aarch64;

mod x86_64;

/// The layout of the general registers in a dump.
#[derive(Debug)]
pub(super) struct Layout {
    /// How many words of registers there are.
    pub(super) words: usize,
    /// Which of them is the program counter.
    pub(super) pc: usize,
    /// Which of them is the thread pointer, where it is among them.
    pub(super) thread: Option<usize>,
    /// The words and the DWARF numbers of all others that rules speak about.
    pub(super) registers: &'static [(usize, usize)],
}

impl Layout {
    pub(super) fn of(arch: Arch) -> Option<&'static Layout> {
        match arch {
            Arch::X86_64 => Some(&x86_64::LAYOUT),
            Arch::Aarch64 => Some(&aarch64::LAYOUT),
            _ => None,
        }
    }

    /// The registers in these words.
    pub(super) fn registers(&self, words: &[u64]) -> Option<Registers> {
        let mut registers = Registers { pc: *words.get(self.pc)?, ..Registers::default() };
        registers.thread = self.thread.and_then(|word| words.get(word)).copied().unwrap_or(0);
        for &(word, number) in self.registers {
            registers.values[number] = *words.get(word)?;
            registers.known |= 1 << number;
        }
        Some(registers)
    }
}
