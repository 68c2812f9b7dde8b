//! Checks of V8's functions and of their optimized code.
//!
//! A function that is collected is replaced by one at the same addresses soon, and of the same shape by one with the same position in its
//! script. So the checks cover numbers that an isolate never uses again: that of the script, and that of the compilation.

use super::{check, mix};
use crate::machine::Machine;

/// Offsets that lead to the numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Offset of the `Script` in a `SharedFunctionInfo`. The position of the function follows in the next two words.
    pub script: u16,
    /// Offset of the number in a `Script`.
    pub in_script: u16,
    /// Offset of the deoptimization data in `Code`: 8 or 16.
    pub deopt: u16,
    /// Offset of the number of the compilation in deoptimization data.
    pub in_deopt: u16,
}

impl Numbers {
    /// Packs them into a parameter of the walker.
    pub const fn pack(self) -> u64 {
        self.script as u64
            | (self.in_script as u64) << 16
            | (self.deopt as u64) << 32
            | (self.in_deopt as u64) << 48
    }

    /// Unpacks a parameter of the walker.
    #[inline(always)]
    pub const fn unpack(word: u64) -> Numbers {
        Numbers {
            script: word as u16,
            in_script: (word >> 16) as u16,
            deopt: (word >> 32) as u16,
            in_deopt: (word >> 48) as u16,
        }
    }
}

/// Returns the check of a tagged `SharedFunctionInfo`: a hash of its position, of which `mask` selects the bits in the first word, and
/// of the number of its script. Returns `None` if it is unreadable.
#[inline(always)]
pub fn function<M: Machine>(machine: &mut M, shared: u64, mask: u64, numbers: Numbers) -> Option<u32> {
    if shared & 3 != 1 {
        return None;
    }
    let at = shared.wrapping_sub(1).wrapping_add(numbers.script as u64);
    let [script, first, second] = machine.read_object(at, 24).map(|words| [words[0], words[1], words[2]])?;
    let number = number(machine, script, numbers.in_script);
    Some(check(mix(mix(number, first & mask), second >> 32)))
}

/// Returns the check of `Code`: a hash of the address of its instructions, of the word with their size, and of the number in its
/// deoptimization data. `deopt` is 0 for code without such data.
#[inline(always)]
pub fn code<M: Machine>(machine: &mut M, start: u64, size: u64, deopt: u64, numbers: Numbers) -> u32 {
    let number = number(machine, deopt, numbers.in_deopt);
    check(mix(mix(number, start), size))
}

/// Returns a small integer of a tagged object. A pointer, which the garbage collector changes, counts as 0, as does what is unreadable.
#[inline(always)]
fn number<M: Machine>(machine: &mut M, object: u64, offset: u16) -> u64 {
    if object & 3 != 1 {
        return 0;
    }
    let word = machine.read_memory(object.wrapping_sub(1).wrapping_add(offset as u64)).unwrap_or(0);
    if word as u32 == 0 { word } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::interpreter::FRAME_BYTES;

    const NUMBERS: Numbers = Numbers { script: 32, in_script: 64, deopt: 8, in_deopt: 56 };

    /// Words of memory from address 0.
    struct Memory([u64; 32], [u64; FRAME_BYTES / 8]);

    impl Machine for Memory {
        fn read_stack(&mut self, address: u64) -> Option<u64> {
            self.read_memory(address)
        }

        fn read_memory(&mut self, address: u64) -> Option<u64> {
            self.0.get(address as usize / 8).copied()
        }

        fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
            let (first, count) = (address as usize / 8, size as usize / 8);
            self.1[..count].copy_from_slice(self.0.get(first..first + count)?);
            Some(&self.1)
        }

        fn push_frame(&mut self, _: u64) {}
    }

    /// A function at address 0, whose script is at 0x40.
    fn memory() -> Memory {
        let mut words = [0; 32];
        words[4] = 0x41;
        words[16] = 7 << 32;
        Memory(words, [0; FRAME_BYTES / 8])
    }

    #[test]
    fn functions_differ_by_script() {
        let mut memory = memory();
        let before = function(&mut memory, 1, u64::MAX, NUMBERS).unwrap();
        memory.0[16] = 8 << 32;
        let after = function(&mut memory, 1, u64::MAX, NUMBERS).unwrap();
        assert_ne!(before, after);
        // A function that is debugged has another object there, with a pointer at this offset.
        memory.0[16] = 0x1001;
        let moved = function(&mut memory, 1, u64::MAX, NUMBERS).unwrap();
        memory.0[16] = 0x2001;
        assert_eq!(function(&mut memory, 1, u64::MAX, NUMBERS), Some(moved));
        assert_eq!(function(&mut memory, 8, u64::MAX, NUMBERS), None, "a small integer");
    }

    #[test]
    fn codes_differ_by_compilation() {
        let mut memory = memory();
        let checks = [1, 2].map(|number: u64| {
            memory.0[7] = number << 32;
            code(&mut memory, 0x1000, 64, 1, NUMBERS)
        });
        assert_ne!(checks[0], checks[1]);
        assert_eq!(
            code(&mut memory, 0x1000, 64, 0, NUMBERS),
            code(&mut memory, 0x1000, 64, 1 << 40 | 1, NUMBERS)
        );
    }

    #[test]
    fn numbers_are_packed() {
        assert_eq!(Numbers::unpack(NUMBERS.pack()), NUMBERS);
    }
}
