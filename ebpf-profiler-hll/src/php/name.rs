//! Reads the names of functions.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};
use ebpf_programs::abi::interpreter::hash;
use ebpf_programs::abi::php::{INSTRUCTION, identity};

use super::offsets::{CLASS_NAME, Offsets, TO_LINE, function};
use super::{lines, text};

/// Kinds of functions: the first byte.
const INTERNAL: u8 = 1;
const USER: u8 = 2;
const EVAL: u8 = 4;

/// End of the file's name of evaluated code.
const EVALUATED: &str = " : eval()'d code";

/// Flag of a function that stands for `__call` or `__callStatic`; its name is that of the missing
/// method.
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

    /// Names a function of a script; its positions have `bits`.
    fn of_script(&self, head: &Head, kind: u8, bits: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let at = |offset: u32| offset as usize;
        let file = text::read(head.word(at(self.offsets.filename))?, memory)?;
        let kind = match kind {
            USER | EVAL => kind,
            _ if file.ends_with(EVALUATED) => EVAL,
            _ => USER,
        };
        let name = qualified(head, kind, memory)?;
        if head.number(function::FLAGS)? & TRAMPOLINE != 0 {
            // It has the instructions of no script.
            return Ok(Function::new(name));
        }
        let start_line = head.number(at(self.offsets.filename + TO_LINE))?;
        let opcodes = head.word(at(self.offsets.opcodes))?;
        let count = head.number(at(self.offsets.last))?;
        // A function with unreadable instructions still has its name.
        let lines = lines::read(bits, opcodes, count, memory).unwrap_or_else(|_| Lines::default());
        Ok(Function::new(name).with_file(file).with_start_line(start_line).with_lines(lines))
    }

    /// Returns the hash of a function of a script, as the kernel side computes it.
    fn hash(&self, head: &Head, memory: &dyn Memory) -> Result<u64, Reason> {
        let hash_of = |string: u64| memory.u64(string.wrapping_add(text::HASH));
        let name = match head.word(function::NAME)? {
            0 => 0,
            name => hash_of(name)?,
        };
        let class = head.word(function::SCOPE)?.rotate_left(32);
        let file = self.offsets.filename as usize;
        let source = [name ^ class, hash_of(head.word(file)?)?, head.word(file + 8)?];
        Ok(hash(&self.words(head)?, 2) ^ hash(&source, 3))
    }

    /// Returns the hash of a function whose instructions are in opcache's memory.
    fn hash_in_cache(&self, head: &Head) -> Result<u64, Reason> {
        Ok(hash(&self.words(head)?, 3) ^ hash(&[head.word(function::SCOPE)?, 0, 0], 1))
    }

    /// Returns the words that identify a function, the last one of which is the address of its
    /// instructions.
    fn words(&self, head: &Head) -> Result<[u64; 3], Reason> {
        let at = self.offsets.identity() as usize;
        Ok([head.word(at)?, head.word(at + 8)?, head.word(at + 16)?])
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let (head, kind, bits) = self.current(address, check, memory)?;
        let function = match kind {
            INTERNAL => Function::new(qualified(&head, kind, memory)?),
            _ => self.of_script(&head, kind, bits, memory)?,
        };
        self.current(address, check, memory)?;
        Ok(function)
    }

    /// The end of a request may have freed it, and another one have written to its memory.
    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        self.current(address, check, memory).map(|_| true)
    }

    fn identity_bits(&self) -> u32 {
        !INSTRUCTION
    }
}

impl Names {
    /// Returns the first bytes of the function at an address, its kind, and the bits of its
    /// positions, if it has this check.
    fn current(&self, address: u64, check: u32, memory: &dyn Memory) -> Result<(Head, u8, u32), Reason> {
        if address == 0 || !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let size = (self.offsets.filename + TO_LINE) as usize + 8;
        // An internal function is shorter, and may be the last one of a mapping.
        let least = (self.offsets.opcodes + 8) as usize;
        let head = memory.bytes(address, size as u64, MAX_FUNCTION);
        let head = Head(head.or_else(|_| memory.bytes(address, least as u64, MAX_FUNCTION))?);
        let kind = head.0.first().copied().unwrap_or(0);
        if kind == INTERNAL && identity(hash(&self.words(&head)?, 3)).0 == check {
            return Ok((head, kind, 0));
        }
        let mut current = Some(identity(self.hash_in_cache(&head)?)).filter(|identity| identity.0 == check);
        if current.is_none() {
            current = Some(identity(self.hash(&head, memory)?)).filter(|identity| identity.0 == check);
        }
        match (kind, current) {
            // A function that was freed since has another first word.
            (kind, Some((_, bits))) if kind != INTERNAL => Ok((head, kind, bits)),
            (INTERNAL | USER | EVAL, _) => Err(Reason::Replaced),
            // Overwritten since, or never a function.
            _ => Err(Reason::Implausible),
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
    const HASH: u64 = 0x8000_0000_1234_5678;

    /// The words that identify the function: the last one is the address of its instruction.
    const WORDS: [u64; 3] = [0, 1, 0x4000];

    /// Names a function of 8.2: `kind`, addresses of name and class, with a check of the same words
    /// or not.
    fn named(kind: u64, name: u64, class: u64, is_current: bool) -> Result<Function, Reason> {
        let hash_of_name = if name == 0 { 0 } else { HASH };
        let hash = match kind {
            kind if kind == u64::from(INTERNAL) => hash(&WORDS, 3),
            _ => hash(&WORDS, 2) ^ hash(&[hash_of_name ^ class.rotate_left(32), HASH, 7], 3),
        };
        named_by(kind, name, class, if is_current { hash } else { hash ^ 1 << 40 })
    }

    /// Names a function with another hash; its first position becomes 0.
    fn named_by(kind: u64, name: u64, class: u64, hash: u64) -> Result<Function, Reason> {
        let (check, bits) = identity(hash);
        let mut words = [0u64; 32];
        words[..3].copy_from_slice(&[kind, name, class]);
        // One instruction, the file, the first line.
        (words[10], words[11], words[19], words[20]) = (1, 0x4000, NAME, 7);
        let memory = move |address: u64, buffer: &mut [u8]| {
            let from: Vec<u64> = match address & !0xfff {
                FUNCTION => words.to_vec(),
                NAME => vec![0, HASH, 4, u64::from_le_bytes(*b"draw\0\0\0\0")],
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
        let function = names.function(FUNCTION, check, &memory)?;
        assert_eq!([0, 1].map(|number| function.lines.at(bits | number)), [if kind == 1 { 0 } else { 9 }, 0]);
        Ok(function)
    }

    #[test]
    fn names_functions_methods_and_files() {
        let function = named(2, NAME, 0, true).unwrap();
        assert_eq!((&*function.name, &*function.file, function.start_line), ("draw", "draw", 7));
        assert_eq!(&*named(2, NAME, CLASS, true).unwrap().name, "draw::draw");
        assert_eq!(&*named(2, 0, CLASS, true).unwrap().name, "{main}");
        assert_eq!(&*named(4, 0, 0, true).unwrap().name, "{eval}");
        let internal = named(1, NAME, 0, true).unwrap();
        assert_eq!((&*internal.name, &*internal.file), ("draw", ""));
    }

    /// The hash of a string is written before its bytes.
    #[test]
    fn rejects_functions_that_are_freed_while_they_are_read() {
        let (check, _) = identity(hash(&WORDS, 2) ^ hash(&[HASH, HASH, 7], 3));
        let mut words = [0u64; 32];
        words[..2].copy_from_slice(&[2, NAME]);
        (words[10], words[11], words[19], words[20]) = (1, 0x4000, NAME, 7);
        for freed_after in 0..20 {
            let reads = std::cell::Cell::new(0);
            let memory = |address: u64, buffer: &mut [u8]| {
                reads.set(reads.get() + 1);
                let is_freed = reads.get() > freed_after;
                let from: Vec<u64> = match address & !0xfff {
                    FUNCTION => words.to_vec(),
                    NAME if is_freed => vec![0, 0, 4, u64::from_le_bytes(*b"junk\0\0\0\0")],
                    NAME => vec![0, HASH, 4, u64::from_le_bytes(*b"draw\0\0\0\0")],
                    _ => return Err(Unreadable),
                };
                let bytes: Vec<u8> = from.iter().flat_map(|word| word.to_le_bytes()).collect();
                let from = bytes.get((address & 0xfff) as usize..).unwrap_or_default();
                buffer.copy_from_slice(from.get(..buffer.len()).ok_or(Unreadable)?);
                Ok(())
            };
            let mut names = Names::new(Offsets::of(Version(8, 2)).unwrap());
            match names.function(FUNCTION, check, &memory) {
                Ok(function) => assert_eq!((&*function.name, &*function.file), ("draw", "draw")),
                Err(reason) => assert_eq!(reason, Reason::Replaced),
            }
            assert!(reads.get() < 20);
        }
    }

    #[test]
    fn rejects_other_functions_and_other_data() {
        assert_eq!(named(2, NAME, 0, false), Err(Reason::Replaced));
        assert_eq!(named(3, NAME, 0, false), Err(Reason::Implausible));
        assert_eq!(named(2, 0x5000, 0, true), Err(Reason::Unreadable));
        assert_eq!(named(2, NAME + 1, 0, true), Err(Reason::Replaced));
        assert_eq!(named(2, NAME, 0x7000, true), Err(Reason::Unreadable));
    }

    #[test]
    fn names_functions_that_were_freed() {
        // The first word of freed memory is the address of other freed memory.
        assert_eq!(&*named(0x7f00_0000_1000, NAME, 0, true).unwrap().name, "draw");
        assert_eq!(named(0x7f00_0000_1000, NAME, 0, false), Err(Reason::Implausible));
    }

    #[test]
    fn names_functions_with_instructions_of_opcache() {
        let without_source = hash(&WORDS, 3) ^ hash(&[0; 3], 1);
        assert_eq!(&*named_by(2, NAME, 0, without_source).unwrap().name, "draw");
        assert_eq!(named_by(2, NAME, 0, without_source ^ 1 << 40), Err(Reason::Replaced));
    }
}
