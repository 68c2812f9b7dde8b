//! Exported symbols, looked up by name through the hash tables of the dynamic loader.
//!
//! ```text
//!   .gnu.hash   {buckets, first symbol, filter words, shift}   filter word…   bucket…   hash of each symbol…
//!   .hash       {buckets, symbols}                             bucket…        next symbol of each symbol…
//! ```
//!
//! The filter is a Bloom filter: one read rejects nearly every name that is absent.

use object::elf::{DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRTAB, DT_SYMTAB, PT_DYNAMIC, SHN_UNDEF, Sym64};
use object::{LittleEndian as LE, pod};

use super::{Elf, Symbol};

/// Maximum number of dynamic entries read.
const MAX_DYNAMIC: u64 = 1024;

/// Maximum number of symbols read per bucket.
const MAX_CHAIN: u32 = 1024;

/// The exported symbols of an ELF file.
///
/// # Examples
///
/// ```no_run
/// use ebpf_profiler_core::elf::Elf;
///
/// let libc = Elf::open(std::fs::File::open("/lib/x86_64-linux-gnu/libc.so.6")?)?;
/// let exports = libc.exports().ok_or("exports nothing")?;
/// println!("{:?}", exports.get("malloc"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exports<'a> {
    elf: &'a Elf,
    symbols: u64,
    names: u64,
    table: Table,
}

/// The hash table: its address and header fields.
#[derive(Clone, Copy, Debug)]
enum Table {
    Gnu { at: u64, buckets: u32, first: u32, words: u32, shift: u32 },
    Old { at: u64, buckets: u32, symbols: u32 },
}

impl Elf {
    /// Returns the exported symbols; `None` if the file is not dynamically linked.
    pub fn exports(&self) -> Option<Exports<'_>> {
        let dynamic = self.segments().iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let size = dynamic.file_size.min(MAX_DYNAMIC * 16);
        let bytes = self.bytes(dynamic.offset, size).ok()?;
        let tags = || {
            let words = bytes.chunks_exact(16).map(|entry| (word(entry), word(&entry[8..])));
            words.take_while(|&(tag, _)| tag != DT_NULL as u64)
        };
        let of = |wanted: i64| tags().find(|&(tag, _)| tag == wanted as u64).map(|(_, value)| value);
        let gnu = of(DT_GNU_HASH).and_then(|at| gnu(self, at));
        let table = gnu.or_else(|| old(self, of(DT_HASH)?))?;
        Some(Exports { elf: self, symbols: of(DT_SYMTAB)?, names: of(DT_STRTAB)?, table })
    }
}

impl Exports<'_> {
    /// Returns the symbol exported under `name`.
    pub fn get(&self, name: &str) -> Option<Symbol> {
        match self.table {
            Table::Gnu { at, buckets, first, words, shift } => {
                let hash = gnu_hash(name);
                let word_at = at + 16 + 8 * u64::from(hash / 64 % words);
                let filter = u64::from_le_bytes(self.read(word_at)?);
                let bits = 1 << (hash % 64) | 1 << (hash.checked_shr(shift).unwrap_or(0) % 64);
                if filter & bits != bits {
                    return None;
                }
                let bucket = at + 16 + 8 * u64::from(words);
                let chain = bucket + 4 * u64::from(buckets);
                let start = self.number(bucket + 4 * u64::from(hash % buckets))?;
                self.in_gnu_chain(name, hash, start, chain.wrapping_sub(4 * u64::from(first)))
            }
            Table::Old { at, buckets, symbols } => {
                let bucket = at + 8;
                let chain = bucket + 4 * u64::from(buckets);
                let mut index = self.number(bucket + 4 * u64::from(old_hash(name) % buckets))?;
                for _ in 0..MAX_CHAIN {
                    if index == 0 || index >= symbols {
                        return None;
                    }
                    if let Some(symbol) = self.symbol(index, name) {
                        return Some(symbol);
                    }
                    index = self.number(chain + 4 * u64::from(index))?;
                }
                None
            }
        }
    }

    fn in_gnu_chain(&self, name: &str, hash: u32, start: u32, hashes: u64) -> Option<Symbol> {
        if start == 0 {
            return None;
        }
        for index in start..start.saturating_add(MAX_CHAIN) {
            let this = self.number(hashes.wrapping_add(4 * u64::from(index)))?;
            if this | 1 == hash | 1
                && let Some(symbol) = self.symbol(index, name)
            {
                return Some(symbol);
            }
            if this & 1 == 1 {
                return None;
            }
        }
        None
    }

    /// Returns symbol `index` if it is defined and has this name.
    fn symbol(&self, index: u32, name: &str) -> Option<Symbol> {
        let bytes: [u8; size_of::<Sym64<LE>>()] =
            self.read(self.symbols.wrapping_add(24 * u64::from(index)))?;
        let (symbol, _) = pod::from_bytes::<Sym64<LE>>(&bytes).ok()?;
        let mut found = vec![0; name.len() + 1];
        self.elf.read(self.names.checked_add(symbol.st_name.get(LE).into())?, &mut found).ok()?;
        let same = found.split_last() == Some((&0, name.as_bytes()));
        (same && symbol.st_shndx.get(LE) != SHN_UNDEF).then(|| Symbol::new(symbol))
    }

    fn number(&self, address: u64) -> Option<u32> {
        self.read(address).map(u32::from_le_bytes)
    }

    fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.elf.read(address, &mut bytes).ok().map(|()| bytes)
    }
}

fn gnu(elf: &Elf, at: u64) -> Option<Table> {
    let mut head = [0; 16];
    elf.read(at, &mut head).ok()?;
    let [buckets, first, words, shift] = numbers(&head);
    // Bounded so that no sum with a readable address wraps.
    let whole = buckets > 0 && words > 0 && at < 1 << 56;
    whole.then_some(Table::Gnu { at, buckets, first, words, shift })
}

fn old(elf: &Elf, at: u64) -> Option<Table> {
    let mut head = [0; 8];
    elf.read(at, &mut head).ok()?;
    let [buckets, symbols] = numbers(&head);
    (buckets > 0 && at < 1 << 56).then_some(Table::Old { at, buckets, symbols })
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut numbers =
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

fn old_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let sum = (hash << 4).wrapping_add(byte.into());
        let high = sum & 0xf000_0000;
        (sum ^ high >> 24) & !high
    })
}
