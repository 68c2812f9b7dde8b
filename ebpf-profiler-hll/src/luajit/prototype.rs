//! Reads prototypes, `GCproto`: what functions in Lua have in common.
//!
//! ```text
//!   GCproto  header, sizes, pointers      104 or 64 bytes, then the instructions, 4 bytes each
//!   constants    … | object | object      ◄── constants ──►  numbers        indexed downwards and upwards
//!   line table   line - first line of each instruction but the first, 1, 2 or 4 bytes each
//!   variables    name 0 | start, distance to the previous one | length      LEB128, until a 0 byte
//!   upvalues     name 0 | name 0 | …
//! ```

use ebpf_profiler_core::language::{Lines, Memory, Reason};
use ebpf_programs::abi::luajit::{self as layout, INSTRUCTION, kind};

use super::build::Build;
use super::instruction::Instruction;
use super::text;

/// Maximum number of instructions.
const MAX_INSTRUCTIONS: u32 = 1 << 18;

/// Maximum number of bytes of the names of variables.
const MAX_NAMES: usize = 1 << 20;

/// Maximum number of variables.
const MAX_VARIABLES: usize = 1 << 16;

/// A prototype.
pub(super) struct Prototype {
    address: u64,
    build: Build,
    bytes: Vec<u8>,
}

impl Prototype {
    /// Reads the prototype at an address.
    pub(super) fn read(address: u64, build: Build, memory: &dyn Memory) -> Result<Prototype, Reason> {
        if address == 0 || !address.is_multiple_of(8) {
            return Err(Reason::Implausible);
        }
        let size = build.layout.prototype.end;
        let bytes = memory.bytes(address, size, size as usize)?;
        let prototype = Prototype { address, build, bytes };
        if prototype.array(build.layout.kind) != [kind::PROTOTYPE] || prototype.count() > MAX_INSTRUCTIONS {
            return Err(Reason::Implausible);
        }
        Ok(prototype)
    }

    /// Returns the name of the chunk: `@` and a file, `=` and a name, or the source text.
    pub(super) fn chunk(&self, memory: &dyn Memory) -> Result<String, Reason> {
        text::read(self.reference(self.at().chunk), self.build.layout, memory)
    }

    /// Returns the first line of the function, 0 for a whole chunk.
    pub(super) fn first_line(&self) -> u32 {
        self.number(self.at().first_line)
    }

    /// Returns the number of instructions.
    pub(super) fn count(&self) -> u32 {
        self.number(self.at().count)
    }

    /// Reads the instructions.
    pub(super) fn instructions(&self, memory: &dyn Memory) -> Result<Vec<Instruction>, Reason> {
        let size = u64::from(self.count()) * INSTRUCTION;
        let code = memory.bytes(self.address.wrapping_add(self.at().end), size, size as usize)?;
        let instruction = |&four| Instruction(self.build.instruction(u32::from_le_bytes(four)));
        Ok(code.as_chunks().0.iter().map(instruction).collect())
    }

    /// Reads the line table. Positions behind the last instruction have no line.
    pub(super) fn lines(&self, memory: &dyn Memory) -> Result<Lines, Reason> {
        let (first, at) = (self.first_line(), self.reference(self.at().lines));
        let mut lines = Lines::default();
        if at == 0 {
            return Ok(lines);
        }
        let width = match self.number(self.at().line_count) {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let size = self.count().saturating_sub(1) as usize * width;
        let table = memory.bytes(at, size as u64, size)?;
        lines.push(0, first);
        for (position, entry) in (1..).zip(table.chunks_exact(width)) {
            let distance = entry.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            lines.push(position, first.saturating_add(distance));
        }
        lines.push(self.count(), 0);
        Ok(lines)
    }

    /// Reads the string with a number among the constants that are objects.
    pub(super) fn string(&self, number: u32, memory: &dyn Memory) -> Result<String, Reason> {
        if number >= self.number(self.at().constant_count) {
            return Err(Reason::Implausible);
        }
        let size = self.build.layout.reference as u64;
        let at = self.reference(self.at().constants).wrapping_sub(size * (u64::from(number) + 1));
        let text = if self.build.is_compact() { memory.u32(at)?.into() } else { memory.u64(at)? };
        text::read(text, self.build.layout, memory)
    }

    /// Reads the name of an upvalue; `None` without names.
    pub(super) fn upvalue(&self, number: u32, memory: &dyn Memory) -> Result<Option<String>, Reason> {
        let [count] = self.array(self.at().upvalue_count);
        let mut at = self.reference(self.at().upvalues);
        if at == 0 || number >= count.into() {
            return Ok(None);
        }
        for _ in 0..number {
            at = at.wrapping_add(text::read_bytes(at, memory)?.len() as u64 + 1);
        }
        text::read_bytes(at, memory).map(Some)
    }

    /// Reads the names of the local variables.
    pub(super) fn variables(&self, memory: &dyn Memory) -> Result<Variables, Reason> {
        let at = self.reference(self.at().variables);
        // They are the last part of the prototype.
        let end = self.address.wrapping_add(self.number(self.at().size).into());
        match end.checked_sub(at) {
            Some(size) if at > self.address => Ok(Variables(memory.bytes(at, size, MAX_NAMES)?)),
            _ => Ok(Variables(Vec::new())),
        }
    }

    fn at(&self) -> &'static layout::Prototype {
        &self.build.layout.prototype
    }

    fn reference(&self, at: usize) -> u64 {
        if self.build.is_compact() { self.number(at).into() } else { u64::from_le_bytes(self.array(at)) }
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

/// Names of local variables.
pub(super) struct Variables(Vec<u8>);

/// First byte of the end of the names, and of variables that the compiler creates: up to this
/// value.
const LAST_INTERNAL: u8 = 6;

impl Variables {
    /// Returns the name of the variable in a slot at a position.
    pub(super) fn name(&self, slot: u8, position: u32) -> Option<String> {
        let mut rest = &self.0[..];
        let (mut slots, mut start) = (u32::from(slot), 0u32);
        for _ in 0..MAX_VARIABLES {
            let length = match *rest.first()? {
                0 => return None,
                1..=LAST_INTERNAL => 1,
                _ => rest.iter().position(|&byte| byte == 0)? + 1,
            };
            let (name, behind) = rest.split_at(length);
            rest = behind;
            start = start.checked_add(leb128(&mut rest)?)?;
            if start > position {
                return None;
            }
            if start.checked_add(leb128(&mut rest)?)? <= position {
                continue;
            }
            if slots == 0 {
                let name = name.strip_suffix(&[0])?;
                return Some(String::from_utf8_lossy(name).into_owned());
            }
            slots -= 1;
        }
        None
    }
}

fn leb128(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[test]
fn names_variables_by_slot_and_position() {
    // `shape` from 1 on, an internal one and `index` from 3 to 9, `late` from 200 on.
    let variables = Variables(b"shape\0\x01\xff\x01\x01\x02\x06index\0\x00\x06late\0\xc5\x01\x05\0".to_vec());
    let name = |slot, position| variables.name(slot, position);
    assert_eq!(name(0, 0), None);
    assert_eq!(name(0, 1).as_deref(), Some("shape"));
    assert_eq!(name(1, 2), None);
    assert_eq!(name(1, 3), None);
    assert_eq!(name(2, 8).as_deref(), Some("index"));
    assert_eq!(name(2, 9), None);
    assert_eq!(name(1, 201).as_deref(), Some("late"));
    assert_eq!(Variables(b"name".to_vec()).name(0, 0), None);
    assert_eq!(Variables(b"name\0\xff\xff\xff\xff\xff".to_vec()).name(0, 0), None);
}
