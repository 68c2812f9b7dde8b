//! The function symbols of a file, sorted by address.
//!
//! ```text
//!   .symtab, else .dynsym ──► 16 bytes a function ──► binary search ──► name, read from the file
//!   .plt and its relocations ──┘
//! ```
//!
//! Names stay in the file: a profile needs a few hundred of them, and the string table is larger
//! than everything else here. For the same reason aliases are kept, and compared by name only when
//! an address needs one.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, Sym64};

use super::data::{Data, each};
use super::demangle::{Name, Texts};
use super::plt;
use super::window::{TEXTS, Window};
use crate::elf::{EXECUTABLE, EhFrameHdr, Elf, ElfError, Section, section_type};

/// The functions of a file.
#[derive(Debug, Default)]
pub(super) struct SymbolTable {
    /// The address that starts are relative to.
    base: u64,
    entries: Box<[Entry]>,
    /// `true` if the names of functions are in the debug file.
    in_debug_file: bool,
    /// The string sections of functions and of the procedure linkage table.
    strings: [Option<Section>; 2],
}

/// A function, or a label in assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    start: u32,
    rank: Rank,
    /// Offset of its name in the string section.
    name: u32,
    size: u32,
}

/// The kinds of symbols; the best name for an address comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Global,
    Local,
    GlobalLabel,
    LocalLabel,
    Plt,
}

/// A function before the table is sorted.
struct Raw {
    address: u64,
    size: u64,
    name: u32,
    rank: Rank,
}

/// A file and its separate debug file.
#[derive(Clone, Copy)]
pub(super) struct Files<'e> {
    pub(super) main: &'e Elf,
    pub(super) debug: Option<&'e Elf>,
}

impl SymbolTable {
    /// Reads the best symbol table of a file: its own, its debug file's, or the dynamic one.
    ///
    /// Given ascending addresses in `wanted`, keeps only symbols that can name one of them.
    pub(super) fn read(files: Files<'_>, wanted: Option<&[u64]>) -> Result<SymbolTable, ElfError> {
        let mut symbols = Vec::new();
        let mut table = SymbolTable::default();
        let debug = files.debug.map(|elf| (elf, section_type::SHT_SYMTAB, true));
        let own = [section_type::SHT_SYMTAB, section_type::SHT_DYNSYM].map(|kind| (files.main, kind, false));
        for (elf, kind, in_debug_file) in [Some(own[0]), debug, Some(own[1])].into_iter().flatten() {
            let Some(section) = elf.sections().iter().find(|section| section.kind == kind) else { continue };
            read_symbols(elf, section, wanted, &mut symbols)?;
            if !symbols.is_empty() {
                table.strings[0] = elf.sections().get(section.link as usize).cloned();
                table.in_debug_file = in_debug_file;
                break;
            }
        }
        table.strings[1] = read_plt(files.main, &mut symbols)?;
        table.fill(symbols);
        Ok(table)
    }

    /// Returns the number of functions.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the memory size in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<SymbolTable>() + size_of_val(&*self.entries)
    }

    /// Opens the names in `files`, from which the table was read.
    pub(super) fn names<'e>(&self, files: Files<'e>) -> Names<'_, 'e> {
        let functions = if self.in_debug_file { files.debug.unwrap_or(files.main) } else { files.main };
        let open = |elf: &'e Elf, section: &Option<Section>| {
            Window::new(section.as_ref().map_or(Data::Held(&[]), |section| Data::of(elf, section)), TEXTS)
        };
        Names {
            table: self,
            functions: open(functions, &self.strings[0]),
            plt: open(files.main, &self.strings[1]),
            last: None,
        }
    }

    fn fill(&mut self, symbols: Vec<Raw>) {
        self.base = symbols.iter().map(|symbol| symbol.address).min().unwrap_or(0);
        let entry = |symbol: &Raw| {
            let start = u32::try_from(symbol.address - self.base).ok()?;
            let size = u32::try_from(symbol.size).unwrap_or(u32::MAX);
            Some(Entry { start, rank: symbol.rank, name: symbol.name, size })
        };
        let mut entries: Vec<Entry> = symbols.iter().filter_map(entry).collect();
        drop(symbols);
        entries.sort_unstable();
        entries.dedup();
        self.entries = entries.into();
    }

    /// Returns the entries that start where the innermost entry with `address` starts.
    ///
    /// Functions are rarely nested, so the search backwards is short.
    fn holders(&self, address: u64) -> Option<Holders<'_>> {
        const STEPS: usize = 64;
        let address = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let behind = self.entries.partition_point(|entry| entry.start <= address);
        let first = behind.saturating_sub(STEPS);
        let holds = |entry: &Entry| address - entry.start < entry.size;
        let found = first + self.entries[first..behind].iter().rposition(holds)?;
        let start = self.entries[found].start;
        let from = self.entries[..behind].partition_point(|entry| entry.start < start);
        let entries = &self.entries[from..=found];
        let shortest = entries.iter().filter(|entry| holds(entry)).map(|entry| entry.size).min()?;
        let next = self.entries.get(behind).map_or(u32::MAX, |entry| entry.start);
        let end = next.min(start.saturating_add(shortest));
        let range = self.base + u64::from(address)..self.base + u64::from(end);
        Some(Holders { entries, start: self.base + u64::from(start), range })
    }
}

/// Entries that begin at one address.
struct Holders<'t> {
    entries: &'t [Entry],
    start: u64,
    /// The range with the same result, from the requested address on.
    range: Range<u64>,
}

/// Looks functions up and reads their names.
pub(super) struct Names<'t, 'e> {
    table: &'t SymbolTable,
    functions: Window<'e>,
    plt: Window<'e>,
    /// The last result and its range; addresses are requested in order.
    last: Option<(Range<u64>, Name)>,
}

impl Names<'_, '_> {
    /// Returns the name of the function that contains `address`.
    pub(super) fn find(&mut self, address: u64, texts: &mut Texts) -> Option<Name> {
        if let Some((range, name)) = &self.last
            && range.contains(&address)
        {
            return Some(name.clone());
        }
        let holders = self.table.holders(address)?;
        let name = texts.name(&self.best(&holders, address)?);
        self.last = Some((holders.range, name.clone()));
        Some(name)
    }

    fn best(&mut self, holders: &Holders<'_>, address: u64) -> Option<Box<[u8]>> {
        /// Maximum number of aliases compared.
        const ALIASES: usize = 64;
        let holds = |entry: &&Entry| address - holders.start < u64::from(entry.size);
        let names = holders.entries.iter().filter(holds).take(ALIASES).filter_map(|entry| self.name(entry));
        names.min_by(|a, b| preference(a).cmp(&preference(b))).map(|(_, name)| name)
    }

    fn name(&mut self, entry: &Entry) -> Option<(Rank, Box<[u8]>)> {
        let strings = if entry.rank == Rank::Plt { &mut self.plt } else { &mut self.functions };
        let name = strings.text(entry.name.into()).filter(|name| is_name(name))?;
        let suffix: &[u8] = if entry.rank == Rank::Plt { b"@plt" } else { b"" };
        Some((entry.rank, [name, suffix].concat().into()))
    }
}

/// Orders several names of one function: global, few leading underscores, short.
fn preference((rank, name): &(Rank, Box<[u8]>)) -> (Rank, usize, usize, &[u8]) {
    let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
    (*rank, underscores, name.len(), name)
}

/// Returns `true` unless the name is empty or a marker for disassemblers, such as `$x`.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, [] | [b'$', ..] | [b'.', b'L', ..])
}

fn read_symbols(
    elf: &Elf,
    section: &Section,
    wanted: Option<&[u64]>,
    symbols: &mut Vec<Raw>,
) -> Result<(), ElfError> {
    each::<Sym64<LE>>(elf, section, |symbol| {
        let Some(raw) = function(elf, symbol) else { return };
        if wanted.is_none_or(|wanted| names_one(&raw, wanted)) {
            symbols.push(raw);
        }
    })?;
    set_sizes(elf, symbols);
    Ok(())
}

/// Returns `true` if a symbol can name one of the wanted addresses.
fn names_one(symbol: &Raw, wanted: &[u64]) -> bool {
    // Maximum distance for symbols without a size.
    const MAX_DISTANCE: u64 = 64 << 10;
    let size = if symbol.size == 0 { MAX_DISTANCE } else { symbol.size };
    let from = wanted.partition_point(|&address| address < symbol.address);
    wanted.get(from).is_some_and(|address| address - symbol.address < size)
}

/// Converts a symbol, if it is a function or a label in code.
fn function(elf: &Elf, symbol: &Sym64<LE>) -> Option<Raw> {
    let section = symbol.st_shndx.get(LE);
    if section == elf::SHN_UNDEF || section == elf::SHN_ABS || symbol.st_name.get(LE) == 0 {
        return None;
    }
    let local = symbol.st_bind() == elf::STB_LOCAL;
    let rank = match (symbol.st_type(), local) {
        (elf::STT_FUNC | elf::STT_GNU_IFUNC, false) => Rank::Global,
        (elf::STT_FUNC | elf::STT_GNU_IFUNC, true) => Rank::Local,
        (elf::STT_NOTYPE, _) if !is_code(elf, section) => return None,
        (elf::STT_NOTYPE, false) => Rank::GlobalLabel,
        (elf::STT_NOTYPE, true) => Rank::LocalLabel,
        _ => return None,
    };
    let (address, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
    Some(Raw { address, size, name: symbol.st_name.get(LE), rank })
}

fn is_code(elf: &Elf, section: u16) -> bool {
    elf.sections().get(usize::from(section)).is_some_and(|section| section.flags & EXECUTABLE != 0)
}

/// Drops labels inside functions, and extends symbols without a size to the next symbol of the
/// section, or to the next function with unwind data: the symbols of that one may be stripped.
fn set_sizes(elf: &Elf, symbols: &mut Vec<Raw>) {
    symbols.sort_unstable_by_key(|symbol| (symbol.address, symbol.size == 0, symbol.rank));
    let mut covered = 0;
    symbols.retain(|symbol| {
        let end = symbol.address.saturating_add(symbol.size);
        let inside = symbol.size == 0 && symbol.address < covered;
        covered = covered.max(end);
        !inside
    });
    let header = EhFrameHdr::of(elf);
    let (mut next, mut last) = (u64::MAX, u64::MAX);
    for symbol in symbols.iter_mut().rev() {
        if symbol.address != last {
            (next, last) = (last, symbol.address);
        }
        if symbol.size == 0 {
            let end = next.min(end_of_code(elf, symbol.address).unwrap_or(0));
            symbol.size = end.saturating_sub(symbol.address);
            if symbol.size > MAX_EXTENSION
                && let Some(function) = header.and_then(|header| header.next(elf, symbol.address))
            {
                symbol.size = symbol.size.min(function - symbol.address);
            }
        }
    }
}

/// Size in bytes up to which a symbol without a size extends to the next symbol unseen.
const MAX_EXTENSION: u64 = 64;

/// Returns the end of the executable section that contains `address`.
fn end_of_code(elf: &Elf, address: u64) -> Option<u64> {
    let holds = |s: &&Section| s.flags & EXECUTABLE != 0 && address.wrapping_sub(s.address) < s.size;
    let section = elf.sections().iter().find(holds)?;
    section.address.checked_add(section.size)
}

/// Adds the entries of the procedure linkage table; returns the section with their names.
fn read_plt(elf: &Elf, symbols: &mut Vec<Raw>) -> Result<Option<Section>, ElfError> {
    let entries = plt::entries(elf)?;
    symbols.extend(entries.into_iter().map(|entry| Raw {
        address: entry.address,
        size: entry.size,
        name: entry.name,
        rank: Rank::Plt,
    }));
    let dynamic = elf.sections().iter().find(|section| section.kind == section_type::SHT_DYNSYM);
    Ok(dynamic.and_then(|dynamic| elf.sections().get(dynamic.link as usize)).cloned())
}
