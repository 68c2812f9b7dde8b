//! Symbols: of `.symtab` all functions and variables of a file that is not stripped, of `.dynsym`
//! the exported ones.

use std::ffi::CStr;

use hashbrown::HashMap;
use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT, STT_TLS, Sym64};
use object::{LittleEndian as LE, pod};

use super::{Elf, section_type};

/// Maximum size of a symbol table, and of its names, in bytes.
const MAX_TABLE: u64 = 128 << 20;

/// Bytes of names per read.
const CHUNK: u64 = 64 << 10;

/// The same where whole names are kept, and some are read twice.
const PIECE: u64 = 256 << 10;

/// Maximum size of names that are kept, in bytes.
const MAX_KEPT: usize = 8 << 20;

/// Bytes of symbols per read: whole ones.
const SYMBOLS: u64 = size_of::<Sym64<LE>>() as u64 * 4096;

/// Maximum length of a name, in bytes; longer ones are cut. All symbols of a file may share one
/// name of 128 MiB.
const MAX_NAME: usize = 8192;

/// A function or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its virtual address; for thread-local variables, the offset in the file's thread-local
    /// storage.
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
    /// A function that chooses the implementation of another one when the file is loaded (`ifunc`).
    Resolver,
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
            STT_FUNC => SymbolKind::Function,
            STT_GNU_IFUNC => SymbolKind::Resolver,
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
    /// Reads the whole table, which takes megabytes for a large program. Names are cut after 8 KiB.
    pub fn for_each_symbol(&self, each: impl FnMut(&[u8], Symbol)) {
        self.for_each_of(section_type::SHT_SYMTAB, each);
    }

    /// Calls `each` with the name and symbol of every defined entry of `.dynsym`: those that other
    /// files can use, which stripped files have, too.
    pub fn for_each_dynamic_symbol(&self, each: impl FnMut(&[u8], Symbol)) {
        self.for_each_of(section_type::SHT_DYNSYM, each);
    }

    fn for_each_of(&self, kind: u32, mut each: impl FnMut(&[u8], Symbol)) {
        let Some((symbols, names)) = self.symbol_table(kind) else { return };
        let Ok(names) = self.bytes(names.0, names.1) else { return };
        self.for_each_entry(symbols, |offset, symbol| {
            each(first_name(names.get(offset as usize..).unwrap_or_default()), symbol);
        });
    }

    /// Calls `each` with the name and symbol of every defined entry of `.symtab` whose name begins with
    /// one of `starts`.
    ///
    /// Reads the names in pieces, and keeps these alone: a large program has 20 MB of them. Of a file
    /// with more than 8 MiB of such names the first ones.
    pub fn for_each_symbol_with(&self, starts: &[&[u8]], mut each: impl FnMut(&[u8], Symbol)) {
        let Some((symbols, names)) = self.symbol_table(section_type::SHT_SYMTAB) else { return };
        let names = self.names_with(names, starts);
        if names.is_empty() {
            return;
        }
        self.for_each_entry(symbols, |offset, symbol| {
            if let Some(name) = names.get(&offset) {
                each(name, symbol);
            }
        });
    }

    /// Calls `each` with the offset of the name, and the symbol, of every defined entry.
    fn for_each_entry(&self, (start, size): (u64, u64), mut each: impl FnMut(u32, Symbol)) {
        let mut buffer = Vec::new();
        for at in (0..size).step_by(SYMBOLS as usize) {
            buffer.resize(SYMBOLS.min(size - at) as usize, 0);
            if self.fill(start.saturating_add(at), &mut buffer).is_err() {
                return;
            }
            for symbol in pod::slice_from_all_bytes::<Sym64<LE>>(&buffer).unwrap_or_default() {
                if symbol.st_shndx.get(LE) != object::elf::SHN_UNDEF {
                    each(symbol.st_name.get(LE), Symbol::new(symbol));
                }
            }
        }
    }

    /// Returns the names that begin with one of `starts`, by their offsets. A name may be the end of
    /// another one.
    fn names_with(&self, (start, size): (u64, u64), starts: &[&[u8]]) -> HashMap<u32, Box<[u8]>> {
        let searches: Vec<Search<'_>> = starts.iter().map(|start| Search::new(start)).collect();
        let (mut found, mut bytes, mut buffer) = (HashMap::new(), 0, Vec::new());
        for at in (0..size).step_by(PIECE as usize) {
            // A name that begins in this piece may end in the next one.
            buffer.resize((PIECE + MAX_NAME as u64).min(size - at) as usize, 0);
            if self.fill(start.saturating_add(at), &mut buffer).is_err() {
                break;
            }
            for search in &searches {
                let mut from = 0;
                while let Some(position) = search.find(&buffer, from).filter(|&it| (it as u64) < PIECE) {
                    let name = first_name(&buffer[position..]);
                    bytes += name.len();
                    if bytes > MAX_KEPT {
                        return found;
                    }
                    found.insert((at + position as u64) as u32, name.into());
                    from = position + 1;
                }
            }
        }
        found
    }

    /// Returns `true` if the name of any symbol of `.symtab` ends with one of `names`.
    ///
    /// Reads only the string table, in pieces of 64 KiB.
    pub fn has_symbol(&self, names: &[&str]) -> bool {
        let Some((_, (start, size))) = self.symbol_table(section_type::SHT_SYMTAB) else { return false };
        let wanted: Vec<Vec<u8>> = names.iter().map(|name| name.bytes().chain([0]).collect()).collect();
        let searches: Vec<Search<'_>> = wanted.iter().map(|wanted| Search::new(wanted)).collect();
        let overlap = wanted.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let mut buffer = Vec::new();
        (0..size).step_by(CHUNK as usize).any(|at| {
            buffer.resize((CHUNK + overlap).min(size - at) as usize, 0);
            self.fill(start.saturating_add(at), &mut buffer).is_ok()
                && searches.iter().any(|search| search.find(&buffer, 0).is_some())
        })
    }

    /// Returns offset and size of the symbols, and of their names.
    fn symbol_table(&self, kind: u32) -> Option<((u64, u64), (u64, u64))> {
        let table = self.sections().iter().find(|section| section.kind == kind)?;
        let names = self.sections().get(table.link as usize)?;
        let whole = table.size - table.size % size_of::<Sym64<LE>>() as u64;
        let bounded = whole <= MAX_TABLE && names.size <= MAX_TABLE;
        bounded.then_some(((table.offset, whole), (names.offset, names.size)))
    }
}

/// Returns the name with which some bytes begin.
fn first_name(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    // Many times as fast as a loop over the bytes.
    CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes)
}

/// A search for a string by Boyer, Moore and Horspool.
struct Search<'a> {
    wanted: &'a [u8],
    /// Distance to the next possible position, by the byte at the end of this one.
    steps: [usize; 256],
}

impl Search<'_> {
    fn new(wanted: &[u8]) -> Search<'_> {
        let mut steps = [wanted.len().max(1); 256];
        let before_last = &wanted[..wanted.len().saturating_sub(1)];
        let distances = (1..wanted.len()).rev();
        before_last.iter().zip(distances).for_each(|(&byte, step)| steps[usize::from(byte)] = step);
        Search { wanted, steps }
    }

    /// Returns the first position of the string in `bytes` that is not before `from`.
    fn find(&self, bytes: &[u8], mut from: usize) -> Option<usize> {
        let last = self.wanted.len().checked_sub(1)?;
        while let Some(&end) = bytes.get(from + last) {
            if end == self.wanted[last] && bytes[from..].starts_with(self.wanted) {
                return Some(from);
            }
            from += self.steps[usize::from(end)];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Returns a file with 10,000 symbols that share one name of `length` bytes.
    fn with_name(length: usize) -> Elf {
        let mut file = vec![0; 64];
        file[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
        let symbols = file.len() as u64;
        let symbol = [&[1, 0, 0, 0, 2, 0, 1, 0][..], &0x1000u64.to_le_bytes(), &[0; 8]].concat();
        file.extend(symbol.repeat(10_000));
        let names = file.len() as u64;
        file.push(0);
        file.resize(file.len() + length, b'x');
        file.push(0);
        let sections = file.len() as u64;
        let of = |kind: u32, link: u32, start: u64, end: u64| {
            let words = [0, u64::from(kind) << 32, 0, 0, start, end - start, u64::from(link), 0, 24];
            // A section header has 64 bytes: name and type share the first word.
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.drain(..8);
            bytes
        };
        for section in [vec![0; 64], of(2, 2, symbols, names), of(3, 0, names, sections)] {
            file.extend(section);
        }
        file[40..48].copy_from_slice(&sections.to_le_bytes());
        file[52..54].copy_from_slice(&64u16.to_le_bytes());
        file[58..60].copy_from_slice(&64u16.to_le_bytes());
        file[60..62].copy_from_slice(&3u16.to_le_bytes());
        file[62..64].copy_from_slice(&2u16.to_le_bytes());
        Elf::open(Cursor::new(file)).unwrap()
    }

    #[test]
    fn reads_all_symbols_and_cuts_their_names() {
        for (length, seen) in [(5, 5), (1 << 20, MAX_NAME)] {
            let mut count = 0;
            with_name(length).for_each_symbol(|name, symbol| {
                assert_eq!((name.len(), symbol.address), (seen, 0x1000));
                count += 1;
            });
            assert_eq!(count, 10_000);
        }
    }

    #[test]
    fn finds_names_by_their_starts() {
        for (length, seen) in [(5, 5), (1 << 20, MAX_NAME)] {
            let (elf, mut count) = (with_name(length), 0);
            elf.for_each_symbol_with(&[b"y", b"xxx"], |name, symbol| {
                assert_eq!((name.len(), symbol.address), (seen, 0x1000));
                count += 1;
            });
            assert_eq!(count, 10_000);
            elf.for_each_symbol_with(&[b"xxy"], |_, _| count += 1);
            assert_eq!(count, 10_000);
        }
        let elf = Elf::open(std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
        let start = b"_ZN".as_slice();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        elf.for_each_symbol(|name, symbol| {
            if name.starts_with(start) {
                expected.push((name.to_vec(), symbol));
            }
        });
        elf.for_each_symbol_with(&[b"no such symbol", start], |name, symbol| {
            found.push((name.to_vec(), symbol));
        });
        assert!(expected.len() > 1000);
        assert!(found == expected, "{} of {}", found.len(), expected.len());
    }

    fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
        Search::new(wanted).find(bytes, 0).is_some()
    }

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
