//! jitdump: a binary log of compiled functions, with lines.
//!
//! ```text
//!   header       magic "DTiJ", version, header size, machine, reserved, PID, timestamp, flags     40 bytes
//!   record       type, size, timestamp                                                            16 bytes, then
//!     0 load     PID, thread, address, address of the code, size, number, name, 0, code
//!     1 move     PID, thread, address, old address, new address, size, number
//!     2 lines    address of the code, number of entries, {address, line, discriminator, file, 0} ...
//! ```
//!
//! Lines come before the load record of their code. The file name `\xff\0` repeats the previous
//! entry's. V8 adds the size of an ELF header, 64 bytes, to the addresses of lines, as `perf
//! inject` once expected: where no line begins in the first 64 bytes of the code, they are taken
//! off.
//!
//! Format: [jitdump-specification.txt](https://github.com/torvalds/linux/blob/v6.12/tools/perf/Documentation/jitdump-specification.txt).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::code::Code;
use super::{Growing, JitStats};
use crate::elf::ReadAt;

const MAGIC: u32 = 0x4a69_5444;
const RECORD: usize = 16;
const ELF_HEADER: u64 = 64;

/// Maximum size of a record, in bytes; a dump with a larger one is not read any further.
const MAX_RECORD: usize = 16 << 20;

/// Maximum number of line entries of one function; the others are dropped.
const MAX_LINES: usize = 1 << 12;

/// Maximum number of functions whose lines are kept until their code is loaded.
const MAX_PENDING: usize = 64;

/// Maximum length of a name or path, in bytes; longer ones are cut.
const MAX_NAME: usize = 1024;

/// A jitdump file that grows while it is read.
pub(super) struct Dump {
    file: Growing,
    state: State,
    /// Lines of functions that are not loaded yet, by the address of their code.
    lines: BTreeMap<u64, Vec<(u64, Arc<str>, u32)>>,
    /// Functions by the address of their code, for moves.
    loaded: BTreeMap<u64, (u64, Code)>,
}

enum State {
    Header,
    Records,
    /// Not a jitdump file, or one with a record of an impossible size.
    Malformed,
}

impl Dump {
    pub(super) fn new(source: Box<dyn ReadAt>) -> Dump {
        Dump {
            file: Growing::new(source),
            state: State::Header,
            lines: BTreeMap::new(),
            loaded: BTreeMap::new(),
        }
    }

    /// Appends the functions that were written since the last call, as start, end and code.
    pub(super) fn read(&mut self, functions: &mut Vec<(u64, u64, Code)>, stats: &mut JitStats) {
        while !matches!(self.state, State::Malformed) && self.file.advance() {
            if self.file.take_restarted() {
                self.state = State::Header;
            }
            while let Some(size) = self.next(functions) {
                self.file.rest.drain(..size);
            }
            if self.file.rest.len() > MAX_RECORD {
                self.state = State::Malformed;
            }
            if matches!(self.state, State::Malformed) {
                stats.malformed += 1;
                self.file.rest = Vec::new();
            }
        }
    }

    /// Reads the header or one record and returns its size; `None` until all of it is there.
    fn next(&mut self, functions: &mut Vec<(u64, u64, Code)>) -> Option<usize> {
        let bytes = &self.file.rest[..];
        match self.state {
            State::Malformed => None,
            State::Header => {
                let (magic, size) = (u32_at(bytes, 0)?, u32_at(bytes, 8)? as usize);
                let is_header = magic == MAGIC && (40..=4096).contains(&size);
                self.state = if is_header { State::Records } else { State::Malformed };
                (is_header && bytes.len() >= size).then_some(size)
            }
            State::Records => {
                let (kind, size) = (u32_at(bytes, 0)?, u32_at(bytes, 4)? as usize);
                if !(RECORD..=MAX_RECORD).contains(&size) {
                    self.state = State::Malformed;
                    return None;
                }
                let body = bytes.get(RECORD..size)?.to_vec();
                let _ = match kind {
                    0 => self.load(&body, functions),
                    1 => self.relocate(&body, functions),
                    2 => self.line_table(&body),
                    _ => None,
                };
                Some(size)
            }
        }
    }

    fn load(&mut self, body: &[u8], functions: &mut Vec<(u64, u64, Code)>) -> Option<()> {
        let (start, size) = (u64_at(body, 16)?, u64_at(body, 24)?);
        let code =
            Code { name: text(body.get(40..)?)?.0, lines: self.lines.remove(&start).unwrap_or_default() };
        let end = start.checked_add(size)?;
        if self.loaded.len() < super::MAX_FUNCTIONS {
            self.loaded.insert(start, (end, code.clone()));
        }
        functions.push((start, end, code));
        Some(())
    }

    fn relocate(&mut self, body: &[u8], functions: &mut Vec<(u64, u64, Code)>) -> Option<()> {
        let (old, new, size) = (u64_at(body, 16)?, u64_at(body, 24)?, u64_at(body, 32)?);
        let (old_end, code) = self.loaded.remove(&old)?;
        functions.push((old, old_end, Code::default()));
        let end = new.checked_add(size)?;
        self.loaded.insert(new, (end, code.clone()));
        functions.push((new, end, code));
        Some(())
    }

    fn line_table(&mut self, body: &[u8]) -> Option<()> {
        let (start, count) = (u64_at(body, 0)?, u64_at(body, 8)?);
        let mut entries = body.get(16..)?;
        let mut lines: Vec<(u64, Arc<str>, u32)> = Vec::new();
        for _ in 0..count.min(MAX_LINES as u64) {
            let (address, line) = (u64_at(entries, 0)?, u32_at(entries, 8)?);
            let (file, length) = text(entries.get(16..)?)?;
            let same_file = entries.get(16..18) == Some(&b"\xff\0"[..]);
            let file = lines.last().filter(|_| same_file).map_or(file, |(_, file, _)| file.clone());
            lines.push((address.wrapping_sub(start), file, line));
            entries = entries.get(16 + length..)?;
        }
        lines.sort_by_key(|&(offset, ..)| offset);
        if lines.first().is_some_and(|&(offset, ..)| offset >= ELF_HEADER) {
            lines.iter_mut().for_each(|(offset, ..)| *offset -= ELF_HEADER);
        }
        if self.lines.len() >= MAX_PENDING {
            self.lines.clear();
        }
        self.lines.insert(start, lines);
        Some(())
    }
}

/// Reads a zero-terminated text; returns it and its length with the zero.
fn text(bytes: &[u8]) -> Option<(Arc<str>, usize)> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some(((*String::from_utf8_lossy(&bytes[..end.min(MAX_NAME)])).into(), end + 1))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::super::{JitFiles, JitNames};
    use super::*;

    fn header() -> Vec<u8> {
        let words = [MAGIC, 1, 40, 62, 0, 7];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(40, 0);
        bytes
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = [kind, (RECORD + body.len()) as u32]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<_>>();
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }

    fn load(start: u64, size: u64, name: &str) -> Vec<u8> {
        let words = [0, start, start, size, 1];
        let mut body: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        body.extend(name.bytes().chain([0]));
        body.resize(body.len() + size as usize, 0xcc);
        record(0, &body)
    }

    fn lines(start: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut body: Vec<u8> =
            [start, entries.len() as u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        for (address, line, file) in entries {
            body.extend(address.to_le_bytes());
            body.extend(line.to_le_bytes());
            body.extend(0u32.to_le_bytes());
            body.extend(file.iter().chain(&[0]));
        }
        record(2, &body)
    }

    fn names(bytes: Vec<u8>) -> (JitNames, JitStats) {
        let (mut names, mut stats) = (JitNames::default(), JitStats::default());
        let dump: Box<dyn ReadAt> = Box::new(std::io::Cursor::new(bytes));
        names.refresh(1, || JitFiles { perf_map: None, dump: Some(dump) }, &mut stats);
        (names, stats)
    }

    #[test]
    fn functions_have_lines_and_move() {
        let debug = lines(0x1000, &[(0x1000, 3, b"a.js"), (0x1010, 4, b"\xff")]);
        let moved: Vec<u8> =
            [0, 0x1000, 0x1000, 0x9000, 0x20, 1].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let bytes = [header(), debug, load(0x1000, 0x20, "fib"), record(1, &moved), record(3, &[])].concat();
        let (names, stats) = names(bytes);
        let at = |address| {
            let function = names.function(address)?;
            Some((function.name.to_string(), function.file.to_string(), function.line))
        };
        assert_eq!(at(0x1000), None);
        assert_eq!(at(0x900f), Some(("fib".into(), "a.js".into(), 3)));
        assert_eq!(at(0x9010), Some(("fib".into(), "a.js".into(), 4)));
        assert_eq!(at(0x9020), None);
        assert_eq!(stats.malformed, 0);
    }

    #[test]
    fn damaged_dump_is_counted_and_never_panics() {
        let whole = [header(), load(0x1000, 0x20, "fib")].concat();
        for cut in 0..whole.len() {
            names(whole[..cut].to_vec());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            names(damaged);
        }
        let (_, stats) = names([header(), vec![0xff; 64]].concat());
        assert_eq!(stats.malformed, 1);
    }
}
