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

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;
    use crate::php::version::Version;

    const FUNCTION: u64 = 0x1000;
    const NAME: u64 = 0x2000;
    const CLASS: u64 = 0x3000;

    /// Names a function of 8.2: `kind`, addresses of name and class, with a check of the same words or not.
    fn named(kind: u64, name: u64, class: u64, is_current: bool) -> Result<Function, Reason> {
        let mut words = [0u64; 32];
        words[..3].copy_from_slice(&[kind, name, class]);
        // One instruction, the file, the first line.
        (words[10], words[11], words[19], words[20]) = (1, 0x4000, NAME, 7);
        let check = Head(words.iter().flat_map(|word| word.to_le_bytes()).collect()).check(72).unwrap();
        let memory = move |address: u64, buffer: &mut [u8]| {
            let from: Vec<u64> = match address & !0xfff {
                FUNCTION => words.to_vec(),
                NAME => vec![0, 0, 4, u64::from_le_bytes(*b"draw\0\0\0\0")],
                CLASS => vec![0, NAME],
                0x4000 => vec![0, 0, 0, 9],
                _ => return Err(Unreadable),
            };
            let bytes: Vec<u8> = from.iter().flat_map(|word| word.to_le_bytes()).collect();
            let at = (address & 0xfff) as usize;
            buffer
                .copy_from_slice(bytes.get(at..).unwrap_or_default().get(..buffer.len()).ok_or(Unreadable)?);
            Ok(())
        };
        let mut names = Names::new(Offsets::of(Version(8, 2)).unwrap());
        names.function(FUNCTION, if is_current { check } else { check ^ 1 }, &memory)
    }

    #[test]
    fn names_functions_methods_and_files() {
        let function = named(2, NAME, 0, true).unwrap();
        assert_eq!((&*function.name, &*function.file, function.start_line), ("draw", "draw", 7));
        assert_eq!([0x3000, 0x301f, 0x3020].map(|at| function.lines.at(at)), [9, 9, 0]);
        assert_eq!(&*named(2, NAME, CLASS, true).unwrap().name, "draw::draw");
        assert_eq!(&*named(2, 0, CLASS, true).unwrap().name, "{main}");
        assert_eq!(&*named(4, 0, 0, true).unwrap().name, "{eval}");
        let internal = named(1, NAME, 0, true).unwrap();
        assert_eq!((&*internal.name, &*internal.file), ("draw", ""));
    }

    #[test]
    fn rejects_other_functions_and_other_data() {
        assert_eq!(named(2, NAME, 0, false), Err(Reason::Replaced));
        assert_eq!(named(3, NAME, 0, true), Err(Reason::Implausible));
        assert_eq!(named(2, 0x5000, 0, true), Err(Reason::Unreadable));
        assert_eq!(named(2, NAME + 1, 0, true), Err(Reason::Implausible));
        assert_eq!(named(2, NAME, 0x7000, true), Err(Reason::Unreadable));
    }

    #[test]
    fn checks_are_those_of_the_kernel_side() {
        let words = [7, u64::MAX, 0x7f00_1234_5678];
        let head = Head(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        assert_eq!(head.check(0), Ok(ebpf_programs::abi::interpreter::fold(&words, 3)));
        assert_eq!(head.check(8), Err(Reason::Implausible));
    }
}
