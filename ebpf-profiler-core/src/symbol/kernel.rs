//! Kernel symbols by `/proc/kallsyms`.
//!
//! ```text
//!   ffffffff81000010 T __entry_text_start
//!   ffffffffc0a04000 t nft_do_chain  [nf_tables]
//!   ffffffffc0201b3c t bpf_prog_6deef7357e7b4530_sd_fw_ingress  [bpf]
//! ```
//!
//! The kernel takes about 40 ms to print the list. A live profiler therefore asks the kernel for
//! single names where it can. Otherwise the list is read for the first kernel address, and again
//! only for addresses that may belong to a module or program loaded later.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The functions of the running kernel, its modules and its BPF programs.
#[derive(Debug, Default)]
pub(super) struct KernelTable {
    /// The address that starts are relative to.
    base: u64,
    entries: Box<[Entry]>,
    /// The names, each terminated by a zero byte.
    names: Box<[u8]>,
    /// Module names; the first is empty and stands for the kernel itself.
    modules: Vec<Box<str>>,
    hidden: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    /// Offset of its name.
    name: u32,
    module: u16,
    global: bool,
}

/// A kernel that names single functions.
pub(crate) trait KernelNames: Send + std::fmt::Debug {
    /// Returns the function that contains `address`.
    fn name(&mut self, address: u64) -> Option<KernelName>;
}

/// The kernel's name of a function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelName {
    pub(crate) name: Box<str>,
    /// Empty for the kernel itself, `bpf` for its programs.
    pub(crate) module: Box<str>,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelFunction<'t> {
    pub(super) name: &'t str,
    /// Empty for the kernel itself, `bpf` for its programs.
    pub(super) module: &'t str,
    /// `true` if newer code may be at the address: the list has no sizes.
    pub(super) uncertain: bool,
}

/// Returns the boot id of the running kernel; empty if it is unknown.
pub(crate) fn boot_id() -> Box<str> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().into()
}

/// Maximum size of a function; an address further from any start has no name.
const MAX_SIZE: u32 = 1 << 20;

/// Maximum size of the list, in bytes.
const MAX_LIST: u64 = 256 << 20;

/// Names of section boundaries, which name no function.
const MARKS: [&str; 4] = ["_text", "_stext", "_etext", "__pi__text"];

impl KernelTable {
    /// Reads the list at `path`.
    pub(super) fn read(path: &Path) -> io::Result<KernelTable> {
        KernelTable::parse(File::open(path)?)
    }

    fn parse(source: impl Read) -> io::Result<KernelTable> {
        let mut lines = BufReader::with_capacity(64 << 10, source.take(MAX_LIST));
        let (mut builder, mut line) = (Builder::default(), Vec::new());
        while lines.read_until(b'\n', &mut line)? > 0 {
            builder.add(&line);
            line.clear();
        }
        Ok(builder.finish())
    }

    /// Returns `true` if the kernel hides the addresses from this process.
    pub(super) fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns the function that contains `address`.
    pub(super) fn find(&self, address: u64) -> Option<KernelFunction<'_>> {
        let address = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let behind = self.entries.partition_point(|entry| entry.start <= address);
        let start = self.entries.get(behind.checked_sub(1)?)?.start;
        if address - start >= MAX_SIZE {
            return None;
        }
        let first = self.entries[..behind].partition_point(|entry| entry.start < start);
        let best = self.entries[first..behind].iter().min_by_key(|entry| self.preference(entry))?;
        let module = &**self.modules.get(usize::from(best.module))?;
        let last = self.entries.get(behind).is_none_or(|next| next.module != best.module);
        let uncertain = module == "bpf" || (last && best.module != 0);
        Some(KernelFunction { name: self.name(best), module, uncertain })
    }

    /// Orders several names of one function: not a boundary, global, few leading underscores,
    /// short.
    fn preference(&self, entry: &Entry) -> (bool, bool, usize, usize, &str) {
        let name = self.name(entry);
        let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
        (MARKS.contains(&name), !entry.global, underscores, name.len(), name)
    }

    fn name(&self, entry: &Entry) -> &str {
        let rest = self.names.get(entry.name as usize..).unwrap_or_default();
        let name = rest.split(|&byte| byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }
}

/// Collects the functions of the list.
#[derive(Default)]
struct Builder {
    functions: Vec<(u64, Entry)>,
    names: Vec<u8>,
    modules: Vec<Box<str>>,
    zeros: u64,
}

impl Builder {
    /// Adds a line; skips those that are not `address type name` or `address type name [module]`.
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address = hexadecimal(words.next()?)?;
        let kind = words.next()?;
        let name = words.next()?;
        if address == 0 {
            self.zeros += 1;
            return None;
        }
        if !matches!(kind, [b't' | b'T' | b'w' | b'W']) {
            return None;
        }
        let module = self.module(words.next().unwrap_or_default())?;
        let start = u32::try_from(self.names.len()).ok()?;
        self.names.extend_from_slice(name);
        self.names.push(0);
        self.functions
            .push((address, Entry { start: 0, name: start, module, global: !matches!(kind, [b't']) }));
        Some(())
    }

    fn module(&mut self, word: &[u8]) -> Option<u16> {
        let name = std::str::from_utf8(word).ok()?.trim_start_matches('[').trim_end_matches(']');
        // Lines of a module are consecutive.
        let known = self.modules.iter().rposition(|module| **module == *name);
        let number = known.unwrap_or_else(|| {
            self.modules.push(name.into());
            self.modules.len() - 1
        });
        u16::try_from(number).ok()
    }

    fn finish(mut self) -> KernelTable {
        self.functions.sort_unstable_by_key(|&(address, entry)| (address, entry.name));
        let base = self.functions.first().map_or(0, |&(address, _)| address);
        let place = |&(address, entry): &(u64, Entry)| {
            Some(Entry { start: u32::try_from(address - base).ok()?, ..entry })
        };
        KernelTable {
            base,
            hidden: self.functions.is_empty() && self.zeros > 0,
            entries: self.functions.iter().filter_map(place).collect(),
            names: self.names.into(),
            modules: self.modules,
        }
    }
}

/// Parses hexadecimal digits.
fn hexadecimal(word: &[u8]) -> Option<u64> {
    let add = |number: u64, &digit: &u8| {
        let digit = char::from(digit).to_digit(16)?;
        number.checked_mul(16).map(|number| number + u64::from(digit))
    };
    word.iter().try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t __do_it
ffffffff81000100 T do_it
ffffffff81000200 D data
ffffffff81000300 T last
ffffffffc0a04000 t nft_do_chain\t[nf_tables]
ffffffffc0a05000 t nft_last\t[nf_tables]
ffffffffc0b00000 t bpf_prog_6deef7357e7b4530_one\t[bpf]
broken
ffffffffc0b00000
";

    fn find(table: &KernelTable, address: u64) -> Option<(&str, &str, bool)> {
        table.find(address).map(|found| (found.name, found.module, found.uncertain))
    }

    #[test]
    fn finds_function_by_any_of_its_addresses() {
        let table = KernelTable::parse(LIST.as_bytes()).unwrap();
        assert!(!table.is_hidden());
        assert_eq!(find(&table, 0xffffffff80ffffff), None);
        assert_eq!(find(&table, 0xffffffff81000000), Some(("startup_64", "", false)));
        assert_eq!(find(&table, 0xffffffff810000ff), Some(("startup_64", "", false)));
        assert_eq!(find(&table, 0xffffffff81000150), Some(("do_it", "", false)));
        assert_eq!(find(&table, 0xffffffff81000300), Some(("last", "", false)));
        assert_eq!(find(&table, 0xffffffff81100300), None, "too far from any start");
        assert_eq!(find(&table, 0xffffffffc0a04fff), Some(("nft_do_chain", "nf_tables", false)));
        assert_eq!(find(&table, 0xffffffffc0a05001), Some(("nft_last", "nf_tables", true)));
        assert_eq!(find(&table, 0xffffffffc0b00001), Some(("bpf_prog_6deef7357e7b4530_one", "bpf", true)));
        assert_eq!(find(&table, u64::MAX), None);
        assert_eq!(find(&table, 0), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let list = "0000000000000000 T _stext\n0000000000000000 T startup_64\n";
        let table = KernelTable::parse(list.as_bytes()).unwrap();
        assert!(table.is_hidden());
        assert_eq!(find(&table, 0), None);
        assert_eq!(find(&table, 0xffffffff81000000), None);
    }

    #[test]
    fn empty_list_is_not_hidden() {
        assert!(!KernelTable::parse(&b""[..]).unwrap().is_hidden());
    }
}
