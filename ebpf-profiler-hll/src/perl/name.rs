//! Reads the names of subs.
//!
//! | struct | field = offset |
//! |---|---|
//! | SV | body 0, flags u32 12, for a hash its array 16 |
//! | body of a CV | stash 32, start 40, GV or name 56, file 64, flags u32 92 |
//! | body of a GV | name 32, stash 40; the name of a file's is `_<` and its path |
//! | body of a stash | number of slots less one 24, from 5.36 on names 32; before 5.36 they follow the array |
//! | names of a stash | name, or their list 0, number i32 28 |
//! | HEK, a name | length i32 4, bytes 8, flags u8 behind them and a zero byte: 1 UTF-8 |
//! | operation | function 16 |
//! | statement, an operation | line 36, file 48: its path, without threads its GV |
//!
//! Source: DWARF of Debian's perl-debug 5.36.0; before 5.36 the OpenTelemetry profiler's tables.

use ebpf_profiler_core::language::{Attached, Function, Lines, Memory, Reason};
use ebpf_programs::walk::identity::{LastText, perl as identity};

use crate::c_text::CText;
use ebpf_profiler_core::language::Words;

/// Types of values: the low byte of their flags.
const CODE: u32 = 13;
const FORMAT: u32 = 14;

/// Flag of a CV that has a name instead of a GV.
const NAMED: u32 = 0x8000;

/// Maximum length of a name and of a path, in bytes.
const MAX_TEXT: usize = 4096;

/// Maximum number of slots of a stash.
const MAX_SLOTS: u64 = 1 << 24;

/// Length of the prefix `_<` of the name of a file's GV.
const FILE_PREFIX: u64 = 2;

/// Bits of the address in a frame's address; those above are its shape.
const ADDRESS_BITS: u32 = 48;

/// Names the functions of one process.
pub(super) struct Names {
    version: u8,
    /// Address of the function that begins a statement.
    next_state: u64,
}

impl Names {
    pub(super) fn new(version: u8, next_state: u64) -> Names {
        Names { version, next_state }
    }

    fn sub(&self, body: u64, memory: &dyn Memory) -> Result<Function, Reason> {
        let word = |at: u64| memory.u64(body.wrapping_add(at));
        let flags = memory.u32(body.wrapping_add(92))?;
        let named = word(56)?;
        let (name, stash) = match flags & NAMED {
            0 => {
                let gv = memory.u64(named)?;
                (memory.u64(gv.wrapping_add(32))?, memory.u64(gv.wrapping_add(40))?)
            }
            _ => (named, word(32)?),
        };
        let name = hek(name, memory)?;
        let stash = self.stash(stash, memory)?;
        let start = word(40)?;
        let is_statement = memory.u64(start.wrapping_add(16)) == Ok(self.next_state);
        let line = if is_statement { memory.u32(start.wrapping_add(36))? } else { 0 };
        let file = match word(64)? {
            0 => String::new(),
            at => text(at, memory)?,
        };
        let function = Function::new(format!("{stash}::{name}"));
        Ok(function.with_file(file).with_start_line(line).with_lines(Lines::of_positions()))
    }

    /// Returns the name of a stash.
    fn stash(&self, stash: u64, memory: &dyn Memory) -> Result<String, Reason> {
        let body = memory.u64(stash)?;
        let names = match self.version {
            ..36 => {
                let slots = memory.u64(body.wrapping_add(24))?;
                if slots > MAX_SLOTS {
                    return Err(Reason::Implausible);
                }
                memory.u64(stash.wrapping_add(16))?.wrapping_add((slots + 1) * 8)
            }
            _ => body.wrapping_add(32),
        };
        let count = memory.u32(names.wrapping_add(28))?;
        let name = memory.u64(names)?;
        hek(if count == 0 { name } else { memory.u64(name)? }, memory)
    }
}

impl Attached for Names {
    fn function(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<Function, Reason> {
        let (shape, at) = (address >> ADDRESS_BITS & 0xff, address & ((1 << ADDRESS_BITS) - 1));
        if !self.is_current(address, check, memory)? {
            return Err(Reason::Replaced);
        }
        let of_file = |name: &str| {
            let path = match shape {
                1 | 2 => at,
                _ => memory.u64(memory.u64(at)?.wrapping_add(32))?.wrapping_add(8 + FILE_PREFIX),
            };
            Ok(Function::new(name).with_file(text(path, memory)?).with_lines(Lines::of_positions()))
        };
        match shape {
            0 if matches!(memory.u32(at.wrapping_add(12))? & 0xff, CODE | FORMAT) => {
                self.sub(memory.u64(at)?, memory)
            }
            1 | 3 => of_file("{main}"),
            2 | 4 => of_file("(eval)"),
            _ => Err(Reason::Implausible),
        }
    }

    fn is_current(&mut self, address: u64, check: u32, memory: &dyn Memory) -> Result<bool, Reason> {
        let (shape, at) = (address >> ADDRESS_BITS & 0xff, address & ((1 << ADDRESS_BITS) - 1));
        let current = match shape {
            0 => identity::sub(&mut Words::new(memory), memory.u64(at)?),
            shape => {
                let file = identity::file(&mut Words::new(memory), at, shape > 2, &mut LastText::default());
                file.ok_or(Reason::Unreadable)?
            }
        };
        Ok(current == check)
    }
}

/// Reads a name: its length, its bytes, a zero byte, and flags.
fn hek(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    const UTF8: u8 = 1;
    let length = u64::from(memory.u32(at.wrapping_add(4))?);
    let mut bytes = memory.bytes(at.wrapping_add(8), length + 2, MAX_TEXT)?;
    let flags = bytes.pop().unwrap_or(0);
    bytes.pop();
    // Otherwise each byte is a character of Latin-1.
    Ok(match flags & UTF8 {
        0 => bytes.iter().copied().map(char::from).collect(),
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Reads a path.
fn text(at: u64, memory: &dyn Memory) -> Result<String, Reason> {
    let CText { bytes, is_cut } = CText::read(at, MAX_TEXT, memory)?;
    if is_cut {
        return Err(Reason::Implausible);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use ebpf_profiler_core::language::Unreadable;

    use super::*;

    #[test]
    fn decodes_latin_1_and_utf_8() {
        let name = |text: &[u8], flags: u8| {
            let bytes = [&[0; 4], &(text.len() as u32).to_le_bytes()[..], text, &[0, flags]].concat();
            let memory = move |address: u64, buffer: &mut [u8]| {
                buffer.copy_from_slice(
                    bytes
                        .get(address as usize..)
                        .unwrap_or_default()
                        .get(..buffer.len())
                        .ok_or(Unreadable)?,
                );
                Ok(())
            };
            hek(0, &memory)
        };
        assert_eq!(name("größe".as_bytes(), 1).as_deref(), Ok("größe"));
        assert_eq!(name(b"gr\xf6\xdfe", 4).as_deref(), Ok("größe"));
        assert_eq!(name(&[b'x'; 5000], 0), Err(Reason::Unreadable));
    }
}
