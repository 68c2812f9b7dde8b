//! Reads the names of functions.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};

use super::offsets::{CLASS_NAME, Offsets, TO_LINE, function};
use super::{lines, text};

/// Kinds of functions: the first byte.
const INTERNAL: u8 = 1;
const USER: u8 = 2;
const EVAL: u8 = 4;

/// Flag of a function that stands for `__call` or `__callStatic`; its name is that of the missing method.
const TRAMPOLINE: u32 = 1 << 18;

/// Maximum number of bytes read of a function.
const MAX_FUNCTION: usize = 256;

/// Names the functions of one process.
pub(super) struct Names {
    offsets: Offsets,
}

impl Names {
    pub(super) fn new(offsets: Offsets) -> Names {
        Names { offsets }
    }

    fn of_script(
        &self,
        address: u64,
        head: &Head,
        name: String,
        memory: &dyn Memory,
    ) -> Result<Function, Reason> {
        let at = |offset: u32| offset as usize;
        let file = text::read(head.word(at(self.offsets.filename))?, memory)?;
        let start_line = head.number(at(self.offsets.filename + TO_LINE))?;
        let opcodes = head.word(at(self.offsets.opcodes))?;
        let count = head.number(at(self.offsets.last))?;
        // A function with unreadable instructions still has its name.
        let lines = lines::read(address, opcodes, count, memory).unwrap_or_else(|_| Lines::default());
        Ok(Function::new(name).with_file(file).with_start_line(start_line).with_lines(lines))
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        if address == 0 || !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let size = (self.offsets.filename + TO_LINE) as usize + 4;
        // An internal function is shorter, and may be the last one of a mapping.
        let least = (self.offsets.opcodes + 8) as usize;
        let head = memory.bytes(address, size as u64, MAX_FUNCTION);
        let head = Head(head.or_else(|_| memory.bytes(address, least as u64, MAX_FUNCTION))?);
        let kind = head.0.first().copied().unwrap_or(0);
        if !matches!(kind, INTERNAL | USER | EVAL) {
            // Overwritten since, or never a function.
            return Err(Reason::Implausible);
        }
        if head.check(self.offsets.identity() as usize)? != check {
            return Err(Reason::Replaced);
        }
        let name = qualified(&head, kind, memory)?;
        match kind {
            INTERNAL => Ok(Function::new(name)),
            // It has the instructions of no script.
            _ if head.number(function::FLAGS)? & TRAMPOLINE != 0 => Ok(Function::new(name)),
            _ => self.of_script(address, &head, name, memory),
        }
    }
}

/// Returns the name of a function, with its class.
fn qualified(head: &Head, kind: u8, memory: &dyn Memory) -> Result<String, Reason> {
    let name = match head.word(function::NAME)? {
        0 if kind == INTERNAL => "{fiber}".to_owned(),
        0 if kind == EVAL => "{eval}".to_owned(),
        0 => "{main}".to_owned(),
        at => text::read(at, memory)?,
    };
    match head.word(function::SCOPE)? {
        // Code of a file that a method includes has the scope of the method.
        class if class != 0 && !BRACED_WITHOUT_CLASS.iter().any(|it| name.starts_with(it)) => {
            let class = text::read(memory.u64(class.wrapping_add(CLASS_NAME))?, memory)?;
            Ok(class + "::" + &name)
        }
        _ => Ok(name),
    }
}

/// Beginnings of names that take no class: from 8.4 on closures are named after their method.
const BRACED_WITHOUT_CLASS: [&str; 4] = ["{main}", "{eval}", "{fiber}", "{closure:"];

/// The first bytes of a function.
struct Head(Vec<u8>);

impl Head {
    fn word(&self, at: usize) -> Result<u64, Reason> {
        let bytes = self.0.get(at..).unwrap_or_default();
        bytes.first_chunk().copied().map(u64::from_le_bytes).ok_or(Reason::Implausible)
    }

    /// Returns the check that frames carry: a hash of three words, as the kernel side computes it.
    fn check(&self, at: usize) -> Result<u32, Reason> {
        let words = [self.word(at)?, self.word(at + 8)?, self.word(at + 16)?];
        let hash = words.iter().fold(0, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok((hash >> 40) as u32)
    }

    fn number(&self, at: usize) -> Result<u32, Reason> {
        let bytes = self.0.get(at..).unwrap_or_default();
        bytes.first_chunk().copied().map(u32::from_le_bytes).ok_or(Reason::Implausible)
    }
}

#[test]
fn checks_are_those_of_the_kernel_side() {
    let words = [7, u64::MAX, 0x7f00_1234_5678];
    let head = Head(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    assert_eq!(head.check(0), Ok(ebpf_programs::abi::interpreter::fold(&words, 3)));
    assert_eq!(head.check(8), Err(Reason::Implausible));
}
