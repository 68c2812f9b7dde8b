//! Symbols of `.symtab`: all functions and variables of a file that is not stripped.

use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT, STT_TLS, Sym64};
use object::{LittleEndian as LE, pod};

use super::{Elf, section_type};

/// Maximum size of a symbol table, and of its names, in bytes.
const MAX_TABLE: u64 = 128 << 20;

/// Bytes of names per read.
const CHUNK: u64 = 64 << 10;

/// A function or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its virtual address; for thread-local variables, the offset in the file's thread-local storage.
    pub address: u64,
    /// Its size in bytes; 0 if unknown.
    pub size: u64,
    /// Its type.
    pub kind: SymbolKind,
}

/// The type of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A variable.
    Object,
    /// A thread-local variable.
    ThreadLocal,
    /// Anything else.
    Other,
}

impl Symbol {
    pub(super) fn new(symbol: &Sym64<LE>) -> Symbol {
        let kind = match symbol.st_info & 0xf {
            STT_FUNC | STT_GNU_IFUNC => SymbolKind::Function,
            STT_OBJECT => SymbolKind::Object,
            STT_TLS => SymbolKind::ThreadLocal,
            _ => SymbolKind::Other,
        };
        Symbol { address: symbol.st_value.get(LE), size: symbol.st_size.get(LE), kind }
    }
}

impl Elf {
    /// Calls `each` with the name and symbol of every defined entry of `.symtab`.
    ///
    /// Reads the whole table, which takes megabytes for a large program.
    pub fn for_each_symbol(&self, mut each: impl FnMut(&[u8], Symbol)) {
        let Some((symbols, names)) = self.symbol_table() else { return };
        let (Ok(symbols), Ok(names)) = (self.bytes(symbols.0, symbols.1), self.bytes(names.0, names.1))
        else {
            return;
        };
        for symbol in pod::slice_from_all_bytes::<Sym64<LE>>(&symbols).unwrap_or_default() {
            let name = names.get(symbol.st_name.get(LE) as usize..).unwrap_or_default();
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            if symbol.st_shndx.get(LE) != object::elf::SHN_UNDEF {
                each(&name[..end], Symbol::new(symbol));
            }
        }
    }

    /// Returns `true` if the name of any symbol of `.symtab` ends with one of `names`.
    ///
    /// Reads only the string table, in pieces of 64 KiB.
    pub fn has_symbol(&self, names: &[&str]) -> bool {
        let Some((_, (start, size))) = self.symbol_table() else { return false };
        let wanted: Vec<Vec<u8>> = names.iter().map(|name| name.bytes().chain([0]).collect()).collect();
        let overlap = wanted.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let mut buffer = Vec::new();
        (0..size).step_by(CHUNK as usize).any(|at| {
            buffer.resize((CHUNK + overlap).min(size - at) as usize, 0);
            self.fill(start.saturating_add(at), &mut buffer).is_ok()
                && wanted.iter().any(|wanted| contains(&buffer, wanted))
        })
    }

    /// Returns offset and size of the symbols, and of their names.
    fn symbol_table(&self) -> Option<((u64, u64), (u64, u64))> {
        let table = self.sections().iter().find(|section| section.kind == section_type::SHT_SYMTAB)?;
        let names = self.sections().get(table.link as usize)?;
        let whole = table.size - table.size % size_of::<Sym64<LE>>() as u64;
        let bounded = whole <= MAX_TABLE && names.size <= MAX_TABLE;
        bounded.then_some(((table.offset, whole), (names.offset, names.size)))
    }
}

/// Returns `true` if `bytes` contains `wanted`, by the Boyer-Moore-Horspool search.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some((&last, rest)) = wanted.split_last() else { return true };
    let mut steps = [wanted.len(); 256];
    rest.iter().zip((1..wanted.len()).rev()).for_each(|(&byte, step)| steps[usize::from(byte)] = step);
    let mut at = 0;
    while let Some(&end) = bytes.get(at + rest.len()) {
        if end == last && bytes[at..].starts_with(wanted) {
            return true;
        }
        at += steps[usize::from(end)];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn finds_each_substring() {
        let text = b"abcabdabcabcabd\0xabcab\0";
        for start in 0..text.len() {
            for end in start + 1..=text.len() {
                assert!(contains(text, &text[start..end]), "{start}..{end}");
            }
        }
        for absent in [&b"abd\0y"[..], b"cc", b"aba", b"abcabdabcabcabd\0xabcab\0a"] {
            assert!(!contains(text, absent));
        }
    }
}
