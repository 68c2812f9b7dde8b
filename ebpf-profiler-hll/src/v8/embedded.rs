//! The embedded builtins of a file without symbol table, by what V8's exported functions return.
//!
//! ```text
//!   DefaultEmbeddedBlobCode()       code: one builtin after the other
//!   DefaultEmbeddedBlobCodeSize()   its size
//!   DefaultEmbeddedBlobData()       data: 24 bytes of hashes │ {offset u32, size u32, …} of each builtin │ …
//!   Builtins::name(number)          table: {name, …} of each builtin, 24 bytes
//! ```
//!
//! The size of an entry differs between versions: the one by which each builtin begins close behind
//! the one before it.

use std::collections::HashMap;

use ebpf_profiler_core::elf::{Elf, Exports, Symbol, SymbolKind};

/// Size of the hashes at the start of the data.
const HASHES: u64 = 24;

/// Largest size of an entry: 12 bytes in V8 12, 16 in 9, 28 in 10, 32 in 11.
const MAX_ENTRY: usize = 48;

/// Maximum number of bytes between two builtins.
const PADDING: u64 = 64;

/// Maximum number of builtins.
const MAX: usize = 1 << 13;

/// Minimum number of builtins; all versions have over 1,000.
const MIN_BUILTINS: usize = 256;

/// Size of an entry of the table of names.
const NAMED: u64 = 24;

/// Maximum length of a name.
const MAX_NAME: usize = 96;

/// Maximum size of the relocations, in bytes.
const MAX_RELOCATIONS: u64 = 16 << 20;

/// Calls `each` with name and place of every builtin. Returns `None` if they are not found.
pub(super) fn for_each(elf: &Elf, mut each: impl FnMut(&[u8], Symbol)) -> Option<()> {
    let exports = elf.exports()?;
    let file = File { elf, exports, values: relocations(elf) };
    let code = file.returned("_ZN2v88internal23DefaultEmbeddedBlobCodeEv")?;
    let size = file.returned("_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv")?;
    let data = file.returned("_ZN2v88internal23DefaultEmbeddedBlobDataEv")?;
    let names = file.names()?;
    for (number, (offset, size)) in file.places(data, size)?.into_iter().enumerate() {
        let name = file.name(names.wrapping_add(number as u64 * NAMED))?;
        each(&name, Symbol { address: code.checked_add(offset)?, size, kind: SymbolKind::Function });
    }
    Some(())
}

/// Values that the loader writes, by their places.
type Values = HashMap<u64, u64>;

/// A file, with the values that its functions use.
struct File<'f> {
    elf: &'f Elf,
    exports: Exports<'f>,
    values: Values,
}

impl File<'_> {
    /// Returns the result of an exported function that only loads a constant or a variable.
    fn returned(&self, function: &str) -> Option<u64> {
        const MAX_INSTRUCTIONS: usize = 4;
        let mut at = self.exports.get(function)?.address;
        let mut result = None;
        for _ in 0..MAX_INSTRUCTIONS {
            let mut code = [0; 7];
            self.elf.read(at, &mut code).ok()?;
            let place = |length: u64| {
                let distance = code.get(length as usize - 4..length as usize)?.first_chunk()?;
                Some(at.wrapping_add(length).wrapping_add_signed(i32::from_le_bytes(*distance).into()))
            };
            let (value, length) = match code {
                // mov eax, n
                [0xb8, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]).into(), 5),
                // lea rax, [rip + n]
                [0x48, 0x8d, 0x05, ..] => (place(7)?, 7),
                // mov rax, [rip + n]
                [0x48, 0x8b, 0x05, ..] => (self.word(place(7)?)?, 7),
                // mov eax, [rip + n]
                [0x8b, 0x05, ..] => (self.half(place(6)?)?, 6),
                // mov rax, [rax]
                [0x48, 0x8b, 0x00, ..] => (self.word(result?)?, 3),
                // mov eax, [rax]
                [0x8b, 0x00, ..] => (self.half(result?)?, 2),
                // ret
                [0xc3, ..] => return result,
                _ => return None,
            };
            result = Some(value);
            at = at.wrapping_add(length);
        }
        None
    }

    /// Returns the address of the table of names.
    fn names(&self) -> Option<u64> {
        let at = self.exports.get("_ZN2v88internal8Builtins4nameENS0_7BuiltinE")?.address;
        let mut code = [0; 19];
        self.elf.read(at, &mut code).ok()?;
        match code {
            // movsxd rdi, edi; lea rax, [rip + n]; lea rdx, [rdi + rdi * 2]; mov rax, [rax + rdx * 8]; ret
            [
                0x48,
                0x63,
                0xff,
                0x48,
                0x8d,
                0x05,
                a,
                b,
                c,
                d,
                0x48,
                0x8d,
                0x14,
                0x7f,
                0x48,
                0x8b,
                0x04,
                0xd0,
                _,
            ] => Some(at.wrapping_add(10).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into())),
            // movsxd rdi, edi; lea rax, [rdi + rdi * 2]; mov rax, [n + rax * 8]; ret
            [0x48, 0x63, 0xff, 0x48, 0x8d, 0x04, 0x7f, 0x48, 0x8b, 0x04, 0xc5, a, b, c, d, ..] => {
                Some(u32::from_le_bytes([a, b, c, d]).into())
            }
            _ => None,
        }
    }

    /// Returns the name to which the word at a place refers.
    fn name(&self, place: u64) -> Option<Vec<u8>> {
        let mut name = vec![0; MAX_NAME];
        self.elf.read(self.word(place)?, &mut name).ok()?;
        name.truncate(name.iter().position(|&byte| byte == 0)?);
        Some(name)
    }

    /// Returns offset and size of each builtin, in code of `size` bytes.
    fn places(&self, data: u64, size: u64) -> Option<Vec<(u64, u64)>> {
        let of_data = self.returned("_ZN2v88internal27DefaultEmbeddedBlobDataSizeEv")?.checked_sub(HASHES)?;
        let mut bytes = vec![0; usize::try_from(of_data).ok()?.min(MAX * MAX_ENTRY)];
        self.elf.read(data.checked_add(HASHES)?, &mut bytes).ok()?;
        let mut sizes = (12..=MAX_ENTRY).step_by(4);
        sizes.find_map(|entry| {
            Some(adjacent(&bytes, entry, size)).filter(|places| places.len() >= MIN_BUILTINS)
        })
    }

    fn word(&self, place: u64) -> Option<u64> {
        if let Some(value) = self.values.get(&place) {
            return Some(*value);
        }
        let mut bytes = [0; 8];
        self.elf.read(place, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn half(&self, place: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        self.elf.read(place, &mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes).into())
    }
}

/// Returns the offset and size of each builtin from the first on, as long as each begins behind the
/// one before it.
fn adjacent(entries: &[u8], entry: usize, size: u64) -> Vec<(u64, u64)> {
    let mut end = 0;
    let places = entries.chunks_exact(entry).map_while(|entry| {
        let (words, _) = entry.as_chunks();
        let [offset, length] =
            [words.first()?, words.get(1)?].map(|word| u64::from(u32::from_le_bytes(*word)));
        let is_next = offset.checked_sub(end)? <= PADDING && length != 0 && offset + length <= size;
        end = offset + length;
        is_next.then_some((offset, length))
    });
    places.take(MAX).collect()
}

/// Returns the values that the loader writes into the file's data before the load bias is added to
/// them.
fn relocations(elf: &Elf) -> Values {
    const RELATIVE: u32 = 8;
    let section = elf.section(".rela.dyn").filter(|section| section.size <= MAX_RELOCATIONS);
    let bytes = section.and_then(|section| elf.data(section).ok()).unwrap_or_default();
    let entries = bytes.as_chunks::<24>().0.iter().filter_map(|entry| {
        let (words, _) = entry.as_chunks();
        let [place, kind, value] = [0, 1, 2].map(|index| u64::from_le_bytes(words[index]));
        (kind as u32 == RELATIVE).then_some((place, value))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_any_size_are_adjacent_builtins() {
        for entry in [12, 28] {
            let mut bytes = Vec::new();
            for number in 0..4u32 {
                bytes.extend([number * 64, 40].map(u32::to_le_bytes).as_flattened());
                bytes.resize((number as usize + 1) * entry, 0);
            }
            let places: Vec<_> = (0..4).map(|number| (number * 64, 40)).collect();
            assert_eq!(adjacent(&bytes, entry, 1 << 20), places);
            assert_eq!(adjacent(&bytes, entry, 104), places[..2], "behind the code");
            assert_eq!(adjacent(&bytes, entry + 4, 1 << 20).len(), 1);
        }
    }

    /// Files of `cargo xtask fixtures v8`.
    mod matrix {
        use std::collections::BTreeMap;
        use std::path::{Path, PathBuf};

        use super::*;

        type Places = BTreeMap<String, (u64, u64)>;

        fn fixture(path: &str) -> PathBuf {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures").join(path)
        }

        fn open(path: &Path) -> Elf {
            Elf::open(std::fs::File::open(path).unwrap()).unwrap()
        }

        fn embedded(elf: &Elf) -> Places {
            let mut places = Places::new();
            let add = |name: &[u8], symbol: Symbol| {
                let name = String::from_utf8_lossy(name).into_owned();
                places.insert(name, (symbol.address, symbol.size));
            };
            for_each(elf, add).unwrap();
            places
        }

        #[test]
        #[ignore = "needs Node.js: cargo xtask fixtures v8"]
        fn builtins_are_those_of_the_symbol_table() {
            for version in ["16", "18", "20", "22"] {
                let program = fixture(&format!("node-{version}/bin/node"));
                test_needs::file!(&program, "cargo xtask fixtures v8");
                let elf = open(&program);
                let mut symbols = Places::new();
                elf.for_each_symbol(|name, symbol| {
                    if let Some(name) = name.strip_prefix(b"Builtins_") {
                        let name = String::from_utf8_lossy(name).into_owned();
                        symbols.insert(name, (symbol.address, symbol.size));
                    }
                });
                assert!(symbols.len() > 1000, "{version}");
                assert_eq!(embedded(&elf), symbols, "{version}");
            }
        }

        #[test]
        #[ignore = "needs Debian's Node.js: cargo xtask fixtures v8"]
        fn library_without_symbols_has_builtins() {
            let library = fixture("node-debian/usr/lib/x86_64-linux-gnu/libnode.so.108");
            test_needs::file!(&library, "cargo xtask fixtures v8");
            let places = embedded(&open(&library));
            assert!(places.len() > 1000, "{}", places.len());
            for name in ["InterpreterEntryTrampoline", "WideHandler", "BaselineLeaveFrame", "ArrayMap"] {
                assert!(places.contains_key(name), "{name}");
            }
        }
    }
}
