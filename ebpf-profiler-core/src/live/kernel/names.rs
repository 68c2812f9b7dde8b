//! Names of kernel functions from the running kernel.
//!
//! ```text
//!   address ──► program: bpf_snprintf("%ps") ──► map ──► nft_do_chain [nf_tables]
//! ```
//!
//! Printing `/proc/kallsyms` takes the kernel 40 ms and more, printing one name a microsecond. Code
//! that the kernel generates, such as trampolines for tracing, is only in the list.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aya_obj::generated::bpf_insn;

use super::bpf::{self, Code, Map, Shape};
use super::mmap::Mmap;
use crate::symbol::{KernelName, KernelNames};

/// Loads a program that names addresses of the running kernel.
///
/// # Errors
///
/// Fails if the kernel rejects the program.
pub(crate) fn load() -> io::Result<Box<dyn KernelNames>> {
    Ok(Box::new(LiveNames::load()?))
}

/// A program that names addresses, and its maps.
#[derive(Debug)]
pub(super) struct LiveNames {
    program: OwnedFd,
    text: Mmap,
    /// The program refers to its maps and keeps them alive.
    _maps: [Map; 2],
}

impl LiveNames {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the program.
    pub(super) fn load() -> io::Result<LiveNames> {
        let shape = Shape { kind: ARRAY, key_size: 4, entries: 1, ..Shape::default() };
        let format = Map::create("format", Shape { value_size: 8, flags: READ_ONLY, ..shape }, None)?;
        format.set(0, b"%ps\0\0\0\0\0")?;
        format.freeze()?;
        let text = Map::create("text", Shape { value_size: TEXT as u32, flags: MMAPABLE, ..shape }, None)?;
        let code = Code {
            name: "kernel_name",
            kind: RAW_TRACEPOINT,
            function: (0, 0),
            instructions: &instructions(&format, &text),
            license: c"Dual MIT/GPL",
            types: None,
            functions: &[],
        };
        let program = code.load(&mut [])?;
        Ok(LiveNames { program, text: Mmap::new(text.as_fd(), 0, TEXT, false)?, _maps: [format, text] })
    }
}

impl KernelNames for LiveNames {
    fn name(&mut self, address: u64) -> Option<KernelName> {
        let mut text = [0; TEXT];
        let length = bpf::run(&self.program, &[address]).ok()? as usize;
        let text = text.get_mut(..length.checked_sub(1)?)?;
        self.text.copy_out(0, text);
        parse(std::str::from_utf8(text).ok()?)
    }
}

/// Parses `name` or `name [module]`; `None` for an address, which the kernel prints without a name.
fn parse(text: &str) -> Option<KernelName> {
    if text.is_empty() || text.starts_with("0x") {
        return None;
    }
    let (name, module) = match text.strip_suffix(']').and_then(|text| text.split_once(" [")) {
        Some((name, module)) => (name, module),
        None if is_made_at_run_time(text) => (text, "bpf"),
        None => (text, ""),
    };
    Some(KernelName { name: name.into(), module: module.into() })
}

/// Returns `true` for the name of a BPF program: `bpf_prog_6deef7357e7b4530_one`.
fn is_made_at_run_time(name: &str) -> bool {
    let is_number = |rest: &str, digits: usize, is_digit: fn(char) -> bool| {
        rest.find(|character| !is_digit(character)).unwrap_or(rest.len()) >= digits
    };
    let hexadecimal = |character: char| character.is_ascii_hexdigit();
    let decimal = |character: char| character.is_ascii_digit();
    name.strip_prefix("bpf_prog_").is_some_and(|rest| is_number(rest, 16, hexadecimal))
        || name.strip_prefix("bpf_trampoline_").is_some_and(|rest| is_number(rest, 1, decimal))
}

/// `return bpf_snprintf(text, TEXT, format, &argument, 8)`.
fn instructions(format: &Map, text: &Map) -> Vec<bpf_insn> {
    const LOAD: u8 = 0x79;
    const STORE: u8 = 0x7b;
    const MOVE: u8 = 0xbf;
    const MOVE_NUMBER: u8 = 0xb7;
    const ADD_NUMBER: u8 = 0x07;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const SNPRINTF: i32 = 165;
    const STACK: u8 = 10;
    let [to, format] = [(1, text), (3, format)].map(|(register, map)| address_of_value(register, map));
    [
        vec![instruction(LOAD, 1, 1, 0, 0), instruction(STORE, STACK, 1, -8, 0)],
        to.into(),
        vec![instruction(MOVE_NUMBER, 2, 0, 0, TEXT as i32)],
        format.into(),
        vec![
            instruction(MOVE, 4, STACK, 0, 0),
            instruction(ADD_NUMBER, 4, 0, 0, -8),
            instruction(MOVE_NUMBER, 5, 0, 0, 8),
            instruction(CALL, 0, 0, 0, SNPRINTF),
            instruction(EXIT, 0, 0, 0, 0),
        ],
    ]
    .concat()
}

/// Loads the address of the only value of a map.
fn address_of_value(register: u8, map: &Map) -> [bpf_insn; 2] {
    const LOAD_WIDE: u8 = 0x18;
    const VALUE_OF_MAP: u8 = 2;
    let fd = map.as_fd().as_raw_fd();
    [instruction(LOAD_WIDE, register, VALUE_OF_MAP, 0, fd), instruction(0, 0, 0, 0, 0)]
}

fn instruction(code: u8, to: u8, from: u8, off: i16, imm: i32) -> bpf_insn {
    let _bitfield_1 = bpf_insn::new_bitfield_1(to, from);
    bpf_insn { code, _bitfield_align_1: [], _bitfield_1, off, imm }
}

/// Size of the longest text in bytes: a name has at most 512, a module's less.
const TEXT: usize = 1024;

const RAW_TRACEPOINT: u32 = 17;
const ARRAY: u32 = 2;
/// Flag of a map that is read-only for programs; user space may write until the map is frozen.
const READ_ONLY: u32 = 1 << 7;
const MMAPABLE: u32 = 1 << 10;

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn found(text: &str) -> Option<(String, String)> {
        parse(text).map(|found| (found.name.into(), found.module.into()))
    }

    #[test]
    fn what_the_kernel_prints_is_understood() {
        let some = |name: &str, module: &str| Some((name.to_owned(), module.to_owned()));
        assert_eq!(found("do_idle"), some("do_idle", ""));
        assert_eq!(found("nft_do_chain [nf_tables]"), some("nft_do_chain", "nf_tables"));
        let program = "bpf_prog_6deef7357e7b4530_one";
        assert_eq!(found(program), some(program, "bpf"));
        assert_eq!(found("bpf_trampoline_6442505669"), some("bpf_trampoline_6442505669", "bpf"));
        for function in ["bpf_prog_run_array_cg", "bpf_prog_add", "bpf_trampoline_link_prog"] {
            assert_eq!(found(function), some(function, ""));
        }
        assert_eq!(found("0xffffffffa0000000"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    #[ignore = "loads a program, so it wants root"]
    fn names_are_those_of_the_kernels_list() {
        test_needs::root!();
        let list = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let mut listed: HashMap<u64, Vec<(&str, &str)>> = HashMap::new();
        let mut functions = HashSet::new();
        for line in list.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let address = u64::from_str_radix(words[0], 16).unwrap();
            let module = words.get(3).map_or("", |word| word.trim_matches(['[', ']']));
            listed.entry(address).or_default().push((words[2], module));
            // Generated code may be freed, and the end of a range is in no function.
            let is_made = module == "bpf" || module.starts_with("__builtin__");
            let is_end = words[2].starts_with("_e") || words[2].ends_with("_end");
            if matches!(words[1], "t" | "T") && !is_made && !is_end {
                functions.insert(address);
            }
        }
        let mut names = LiveNames::load().unwrap();
        for address in &functions {
            let listed = &listed[address];
            let found = names.name(*address).unwrap_or_else(|| panic!("{address:#x}: no name, {listed:?}"));
            assert!(listed.contains(&(&*found.name, &*found.module)), "{address:#x}: {found:?}, {listed:?}");
        }
        assert!(functions.len() > 10_000, "{}", functions.len());
        assert_eq!(names.name(0x1000), None);
        assert_eq!(names.name(u64::MAX), None);
    }
}
