//! Compilations that were named by an address in them, and may be gone by now.
//!
//! A loop that was optimized while it ran has a different frame for each address, so its code is
//! named again and again, often until after the function was freed. A copy of the machine code
//! proves that an address was in it: the check of a frame covers the bytes at its address, and the
//! number of the function's script, which V8 never uses again.

use std::collections::VecDeque;
use std::sync::Arc;

use ebpf_profiler_core::language::Function;
use ebpf_programs::abi::v8::address_check;

use super::code::Code;
use super::heap::Heap;

/// Maximum number of compilations that are kept.
const MAX_CODES: usize = 8;

/// Maximum size of machine code that is kept, in bytes: 256 KiB for each process.
const MAX_SIZE: u32 = 1 << 15;

/// The compilations that were named last.
#[derive(Default)]
pub(super) struct FormerCodes(VecDeque<FormerCode>);

struct FormerCode {
    code: Code,
    /// Check of its `SharedFunctionInfo`.
    shared: u32,
    instructions: Vec<u8>,
    function: Arc<Function>,
}

impl FormerCodes {
    /// Keeps the code of a function, as long as it is there.
    pub(super) fn keep(&mut self, heap: &Heap<'_>, code: Code, shared: u32, function: &Arc<Function>) {
        let is_known = self.newest_at(code.start).is_some_and(|it| it.code == code && it.shared == shared);
        if is_known || code.size > MAX_SIZE {
            return;
        }
        let Ok(instructions) = heap.memory.bytes(code.start, code.size.into(), MAX_SIZE as usize) else {
            return;
        };
        // It may have been replaced while it was copied.
        if code.is_current(heap) {
            self.push(FormerCode { code, shared, instructions, function: function.clone() });
        }
    }

    fn push(&mut self, code: FormerCode) {
        if self.0.len() >= MAX_CODES {
            self.0.pop_front();
        }
        self.0.push_back(code);
    }

    /// Returns the function at an address with a check, and the offset in its code.
    pub(super) fn find(&self, pc: u64, check: u32) -> Option<(&Arc<Function>, u32)> {
        // Not an older one as well: each that is compared may match by chance.
        let code = self.newest_at(pc)?;
        let offset = pc.wrapping_sub(code.code.start) as usize;
        let around = code.instructions.get(offset.checked_sub(8)?..)?.first_chunk::<16>()?;
        let around = [0, 1].map(|index| u64::from_le_bytes(around.as_chunks().0[index]));
        (address_check(code.shared, &around) == check).then_some((&code.function, offset as u32))
    }

    fn newest_at(&self, pc: u64) -> Option<&FormerCode> {
        self.0.iter().rev().find(|it| it.code.contains(pc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::heap::Object;

    fn code(start: u64, shared: u32, byte: u8, name: &str) -> FormerCode {
        let object = Object::at(0x1000).unwrap();
        FormerCode {
            code: Code { object, start, size: 64, kind: 0, check: shared },
            shared,
            instructions: (0..64).map(|at| at ^ byte).collect(),
            function: Arc::new(Function::new(name)),
        }
    }

    /// Returns the check of a frame at an offset of such code.
    fn check(shared: u32, byte: u8, offset: u8) -> u32 {
        let half = |from: u8| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at: u8| (from + at) ^ byte));
        address_check(shared, &[half(offset - 8), half(offset)])
    }

    #[test]
    fn address_is_proven_by_bytes_and_function() {
        let mut codes = FormerCodes::default();
        codes.push(code(0x5000, 7, 0, "first"));
        let name = |codes: &FormerCodes, pc, check| {
            codes.find(pc, check).map(|(function, offset)| (function.name.to_string(), offset))
        };
        assert_eq!(name(&codes, 0x5010, check(7, 0, 16)), Some(("first".to_owned(), 16)));
        assert_eq!(name(&codes, 0x5010, check(8, 0, 16)), None, "another function with equal code");
        assert_eq!(name(&codes, 0x5010, check(0, 0, 16)), None, "an unknown function");
        assert_eq!(name(&codes, 0x5010, check(7, 1, 16)), None, "other code of the function");
        assert_eq!(name(&codes, 0x5004, check(7, 0, 16)), None, "too near to the start");
        assert_eq!(name(&codes, 0x503c, check(7, 0, 48)), None, "too near to the end");
        codes.push(code(0x5000, 8, 0, "second"));
        assert_eq!(name(&codes, 0x5010, check(8, 0, 16)), Some(("second".to_owned(), 16)));
        assert_eq!(name(&codes, 0x5010, check(7, 0, 16)), None, "it was replaced before");
    }

    #[test]
    fn few_are_kept() {
        let mut codes = FormerCodes::default();
        (0..100).for_each(|number| codes.push(code(0x5000 + number * 64, 7, 0, "x")));
        assert_eq!(codes.0.len(), MAX_CODES);
        assert!(codes.find(0x5000 + 99 * 64 + 16, check(7, 0, 16)).is_some());
    }
}
