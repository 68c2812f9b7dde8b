//! Layout of the registers in a thread's `prstatus`. Every line that names a register is in this
//! folder.

use ebpf_profiler_core::elf::Arch;
use ebpf_programs::abi::registers::Registers;

mod aarch64;

mod x86_64;

/// The layout of the general registers in a dump.
#[derive(Debug)]
pub(super) struct Layout {
    /// Number of register words.
    pub(super) words: usize,
    /// Index of the program counter.
    pub(super) pc: usize,
    /// Index of the thread pointer, if it is among them.
    pub(super) thread: Option<usize>,
    /// Index and DWARF number of the other registers in rules.
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

    /// Decodes the registers.
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
