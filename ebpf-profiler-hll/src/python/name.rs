//! Reads the names of functions from their code objects.

use ebpf_profiler_core::language::{Attached, FrameWalker, Function, Lines, Memory, Reason};

use super::lines;
use super::offsets::Offsets;
use super::text;
use super::version::Version;

/// Maximum length of a line table, in bytes.
const MAX_TABLE: usize = 1 << 20;

/// Maximum number of bytes read of a code object.
const MAX_CODE: u64 = 512;

/// Names the functions of one process.
pub(super) struct Names {
    version: Version,
    offsets: Offsets,
    /// Address of the type of code objects in the process.
    code_type: u64,
    /// Computes checks.
    walker: FrameWalker,
}

impl Names {
    pub(super) fn new(version: Version, offsets: Offsets, code_type: u64, walker: FrameWalker) -> Names {
        Names { version, offsets, code_type, walker }
    }

    /// Returns `true` if the type at `found` is that of code objects.
    ///
    /// A program that isn't position-independent has its own copy of the type (copy relocation).
    fn is_code(&mut self, found: u64, memory: &dyn Memory) -> bool {
        if found == self.code_type {
            return true;
        }
        let name = memory.u64(found.wrapping_add(self.offsets.type_name.into()));
        let is_code = name.and_then(|at| memory.array(at)) == Ok(*b"code\0");
        if is_code {
            self.code_type = found;
        }
        is_code
    }

    fn text(&self, at: u64, memory: &dyn Memory) -> Result<Box<str>, Reason> {
        match self.version {
            Version(2, _) => text::read_bytes_as_text(at, &self.offsets.bytes, memory),
            _ => text::read_str(at, &self.offsets.text, memory),
        }
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let offsets = self.offsets;
        if address == 0 || !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let code =
            Code(memory.bytes(address, u64::from(offsets.code.size).min(MAX_CODE), MAX_CODE as usize)?);
        if !self.is_code(code.word(offsets.object_type)?, memory) {
            // Overwritten since, or never a code object.
            return Err(Reason::Implausible);
        }
        if offsets.object_type == COUNTED && !is_alive(code.word(0)?) {
            return Err(Reason::Replaced);
        }
        let start_line = code.number(offsets.code.first_line)?;
        let with_code = |at: u64, buffer: &mut [u8]| match code.bytes(at.wrapping_sub(address), buffer.len())
        {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => memory.read(at, buffer),
        };
        if !self.walker.has(address, check, &with_code)? {
            return Err(Reason::Replaced);
        }
        let (name, file) = (code.word(offsets.code.name)?, code.word(offsets.code.filename)?);
        let table = text::read_bytes(code.word(offsets.code.table)?, &offsets.bytes, MAX_TABLE, memory);
        if name == file && table.as_ref().is_ok_and(|table| lines::is_without(self.version, table)) {
            // A shim of the runtime, which has no source.
            return Ok(Function::default());
        }
        let qualified = offsets.code.qualname.map(|at| code.word(at)).transpose()?.filter(|&at| at != 0);
        let name = self.text(qualified.unwrap_or(name), memory)?;
        let file = self.text(file, memory)?;
        let instructions = offsets.code.instructions.unwrap_or(0);
        let lines = match table {
            Ok(table) => lines::lines(self.version, &table, start_line, instructions),
            // A function with an unreadable line table still has its name.
            Err(_) => Lines::default(),
        };
        Ok(Function::new(name).with_file(file).with_start_line(start_line).with_lines(lines))
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        Ok(self.walker.has(address, check, memory)?)
    }
}

/// Offset of an object's type in builds whose first word is the reference count; free-threaded
/// builds differ.
const COUNTED: u32 = 8;

/// Returns `true` if the first word of an object is a plausible reference count.
///
/// The first word of a freed object is the address of the next free block, or 0. From 3.14 on there
/// are flags above the count, in bits above those of user-space addresses.
fn is_alive(word: u64) -> bool {
    word != 0 && !(1 << 32..1 << 47).contains(&word)
}

/// The bytes of a code object.
struct Code(Vec<u8>);

impl Code {
    /// Returns bytes at a distance from its start, if it has all of them.
    fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        self.0.get(usize::try_from(at).ok()?..)?.get(..len)
    }

    fn word(&self, at: u32) -> Result<u64, Reason> {
        let bytes = self.0.get(at as usize..).unwrap_or_default();
        bytes.first_chunk().copied().map(u64::from_le_bytes).ok_or(Reason::Implausible)
    }

    fn number(&self, at: u32) -> Result<u32, Reason> {
        let bytes = self.0.get(at as usize..).unwrap_or_default();
        bytes.first_chunk().copied().map(u32::from_le_bytes).ok_or(Reason::Implausible)
    }
}
