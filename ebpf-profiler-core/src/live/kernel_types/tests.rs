//! Type information made by hand, and the running kernel's compared with bpftool.

use std::io::Cursor;
use std::process::Command;

use super::*;

/// Type information under construction.
struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Writer {
    fn new() -> Writer {
        Writer { types: Vec::new(), strings: vec![0] }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    /// Appends a type with the part that depends on its kind.
    fn add(&mut self, kind: u32, count: u32, of: u32, name: &str, rest: &[u32]) {
        let name = self.name(name);
        self.words(&[name, kind << 24 | count, of]);
        self.words(rest);
    }

    fn structure(&mut self, kind: u32, name: &str, members: &[(&str, u32, u32)]) {
        self.add(kind, members.len() as u32, 64, name, &[]);
        for &(name, of, bits) in members {
            let name = self.name(name);
            self.words(&[name, of, bits]);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [HEADER as u32, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// One type of each kind before the structure that is searched.
fn world() -> Vec<u8> {
    let mut w = Writer::new();
    w.add(kind::INT, 0, 4, "int", &[32]); // 1
    w.add(2, 0, 1, "", &[]); // 2: int *
    w.add(kind::ARRAY, 0, 0, "", &[1, 1, 4]); // 3: int[4]
    w.add(kind::ENUM, 2, 4, "colour", &[0, 0, 0, 1]); // 4
    w.add(7, 0, 0, "forward", &[]); // 5
    w.add(12, 0, 7, "function", &[]); // 6
    w.add(kind::FUNC_PROTO, 1, 1, "", &[0, 1]); // 7
    w.add(kind::VAR, 0, 1, "variable", &[1]); // 8
    w.add(kind::DATASEC, 1, 4, ".data", &[8, 0, 4]); // 9
    w.add(16, 0, 8, "double", &[]); // 10
    w.add(kind::DECL_TAG, 0, 1, "tag", &[0]); // 11
    w.add(kind::ENUM64, 1, 8, "wide", &[0, 0, 0]); // 12
    w.structure(kind::UNION, "", &[("word", 1, 0), ("half", 1, 16)]); // 13
    w.structure(kind::STRUCT, "thread", &[("sp", 1, 0), ("", 13, 64), ("fsbase", 1, 128)]); // 14
    w.add(kind::TYPEDEF, 0, 14, "thread_t", &[]); // 15
    w.add(kind::VOLATILE, 0, 15, "", &[]); // 16
    w.structure(kind::STRUCT, "task", &[("", 13, 32), ("state", 1, 0), ("thread", 16, 640), ("next", 2, 96)]);
    w.add(kind::STRUCT, 2, 4, "flags", &[]); // 18, with bit fields
    w.types.iter_mut().rev().nth(4).map(|info| *info |= 0x80).unwrap();
    let (low, whole) = (w.name("low"), w.name("whole"));
    w.words(&[low, 1, 3 << 24 | 8, whole, 1, 32]);
    w.bytes()
}

fn open(bytes: &[u8]) -> KernelTypes<Cursor<Vec<u8>>> {
    KernelTypes::new(Cursor::new(bytes.to_vec()), Cursor::new(bytes.to_vec())).unwrap()
}

#[test]
fn members_lie_where_the_description_says() {
    let mut types = open(&world());
    assert_eq!(types.offset("task", "state"), Some(0));
    assert_eq!(types.offset("task", "next"), Some(12));
    assert_eq!(types.offset("task", "thread"), Some(80));
    assert_eq!(types.offset("task", "thread.fsbase"), Some(96), "through a typedef and a qualifier");
    assert_eq!(types.offset("task", "half"), Some(6), "in a union without a name");
    assert_eq!(types.offset("task", "thread.half"), Some(90));
    assert_eq!(types.offset("flags", "whole"), Some(4));
}

#[test]
fn what_isnt_there_is_nowhere() {
    let mut types = open(&world());
    for (structure, path) in [
        ("task", "thread.gs"),
        ("task", "next.state"),
        ("task", ""),
        ("task", "."),
        ("tas", "state"),
        ("task_", "state"),
        ("int", "state"),
        ("flags", "low"),
    ] {
        assert_eq!(types.offset(structure, path), None, "{structure}.{path}");
    }
}

#[test]
fn a_structure_in_itself_ends() {
    let mut w = Writer::new();
    w.structure(kind::STRUCT, "knot", &[("", 1, 0), ("", 1, 0), ("", 1, 8)]);
    w.add(kind::TYPEDEF, 0, 2, "circle", &[]);
    w.structure(kind::STRUCT, "round", &[("x", 2, 0)]);
    let mut types = open(&w.bytes());
    assert_eq!(types.offset("knot", "rope"), None);
    assert_eq!(types.offset("round", "x.y"), None);
}

#[test]
fn damage_is_survived() {
    let whole = world();
    for end in 0..whole.len() {
        let bytes = whole[..end].to_vec();
        if let Ok(mut types) = KernelTypes::new(Cursor::new(bytes.clone()), Cursor::new(bytes)) {
            types.offset("task", "thread.fsbase");
        }
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            if let Ok(mut types) = KernelTypes::new(Cursor::new(bytes.clone()), Cursor::new(bytes)) {
                types.offset("task", "thread.fsbase");
            }
        }
    }
}

/// bpftool is none of ours. Where it isn't, or the kernel has no description, there is nothing to compare.
#[test]
fn the_running_kernel_is_read_as_bpftool_reads_it() {
    let dump = Command::new("bpftool").args(["btf", "dump", "file", VMLINUX]).output();
    let (Ok(mut types), Ok(dump)) = (KernelTypes::of_this_kernel(), dump) else { return };
    let dump = String::from_utf8_lossy(&dump.stdout);
    let Some(task) = bits_in(&dump, "STRUCT 'task_struct'", "thread") else { return };
    let fsbase = bits_in(&dump, "STRUCT 'thread_struct'", "fsbase");
    assert_eq!(types.offset("task_struct", "thread"), Some(task / 8));
    assert_eq!(types.offset("task_struct", "thread.fsbase"), fsbase.map(|bits| (task + bits) / 8));
    for member in ["pid", "tgid", "comm", "start_time", "group_leader"] {
        let bits = bits_in(&dump, "STRUCT 'task_struct'", member).unwrap();
        assert_eq!(types.offset("task_struct", member), Some(bits / 8), "{member}");
    }
}

/// Returns the offset of a direct member in a dump.
fn bits_in(dump: &str, structure: &str, member: &str) -> Option<u32> {
    let begin = dump.split_once(structure)?.1;
    let body = begin.split_once("\n[")?.0;
    let line = body.lines().find(|line| line.contains(&format!("'{member}'")))?;
    line.split_once("bits_offset=")?.1.split_whitespace().next()?.parse().ok()
}
