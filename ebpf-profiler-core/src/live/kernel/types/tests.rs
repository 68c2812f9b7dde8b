//! Type information made by hand, and the running kernel's compared with bpftool.

use std::io::Cursor;
use std::process::Command;

use super::functions::Argument;
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
    let values = [w.name("RED"), 0, w.name("GREEN"), 1];
    w.add(kind::ENUM, 2, 4, "colour", &values); // 4
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
    functions(&mut w);
    w.bytes()
}

/// Functions with a value of each sort as an argument.
fn functions(w: &mut Writer) {
    w.add(kind::INT, 0, 4, "signed int", &[1 << 24 | 32]); // 19
    w.add(kind::CONST, 0, 19, "", &[]); // 20
    w.add(kind::STRUCT, 0, 12, "pair", &[]); // 21, of two words
    w.add(kind::FUNC_PROTO, 5, 20, "", &[0, 2, 0, 21, 0, 20, 0, 4, 0, 10]); // 22
    w.add(kind::FUNC, 0, 22, "store", &[]); // 23
    w.add(kind::FUNC_PROTO, 0, 0, "", &[]); // 24
    w.add(kind::FUNC, 0, 24, "store_none", &[]); // 25
    w.add(kind::FUNC, 0, 21, "broken", &[]); // 26, whose type is no prototype
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
fn functions_have_numbers_arguments_and_results() {
    let mut types = open(&world());
    let signed = Some(Integer { size: 2, is_signed: true });
    let values = [
        (0, Some(Integer { size: 3, is_signed: false })),
        (1, None),
        (3, signed),
        (4, Some(Integer { size: 2, is_signed: false })),
        (5, None),
    ];
    let arguments = values.map(|(word, integer)| Argument { word, integer }).to_vec();
    let store = KernelFunction { id: 23, name: "store".to_owned(), arguments, result: signed };
    let none = KernelFunction { id: 25, name: "store_none".to_owned(), arguments: vec![], result: None };
    assert_eq!(types.functions(|name| name == b"store"), std::slice::from_ref(&store));
    assert_eq!(types.functions(|name| name.starts_with(b"store")), [store, none]);
    assert_eq!(types.functions(|name| name == b"broken" || name == b"task"), []);
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
            types.functions(|_| true);
        }
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            if let Ok(mut types) = KernelTypes::new(Cursor::new(bytes.clone()), Cursor::new(bytes)) {
                types.offset("task", "thread.fsbase");
                types.functions(|_| true);
            }
        }
    }
}

/// bpftool is none of ours. Where it isn't, or the kernel has no description, there is nothing to
/// compare.
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
    for name in ["vfs_write", "kfree", "do_sys_openat2"] {
        let [found] = <[KernelFunction; 1]>::try_from(types.functions(|it| it == name.as_bytes())).unwrap();
        assert_eq!(Some((found.id, found.arguments.len())), function_in(&dump, name), "{name}");
    }
}

/// Returns number and count of parameters of a function in a dump.
///
/// ```text
///   [7] FUNC_PROTO '(anon)' ret_type_id=0 vlen=1
///   [8] FUNC 'kfree' type_id=7 linkage=static
/// ```
fn function_in(dump: &str, name: &str) -> Option<(u32, usize)> {
    let of = |text: &str, key: &str| text.split_once(key)?.1.split_whitespace().next().map(str::to_owned);
    let line = dump.lines().find(|line| line.contains(&format!("] FUNC '{name}' ")))?;
    let id = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
    let prototype = format!("[{}] FUNC_PROTO ", of(line, "type_id=")?);
    let prototype = dump.lines().find(|line| line.starts_with(&prototype))?;
    Some((id, of(prototype, "vlen=")?.parse().ok()?))
}

/// Returns the offset of a direct member in a dump.
fn bits_in(dump: &str, structure: &str, member: &str) -> Option<u32> {
    let begin = dump.split_once(structure)?.1;
    let body = begin.split_once("\n[")?.0;
    let line = body.lines().find(|line| line.contains(&format!("'{member}'")))?;
    line.split_once("bits_offset=")?.1.split_whitespace().next()?.parse().ok()
}

#[test]
fn values_and_unnamed_structures_are_found_by_their_names() {
    let types = || KernelTypes::new(Cursor::new(world()), Cursor::new(world())).unwrap();
    let found = ["RED", "GREEN", "BLUE"].map(|value| types().has_value("colour", value));
    assert_eq!(found, [Some(true), Some(true), Some(false)]);
    assert_eq!(types().has_value("thread", "sp"), None);
    let mut w = Writer::new();
    w.structure(kind::STRUCT, "", &[("one", 1, 0), ("other", 1, 32)]);
    w.structure(kind::STRUCT, "named", &[("one", 1, 0)]);
    let types = || KernelTypes::new(Cursor::new(w.bytes()), Cursor::new(w.bytes())).unwrap();
    assert!(types().has_unnamed(&["one", "other"]) && types().has_unnamed(&["one"]));
    assert!(!types().has_unnamed(&["other"]) && !types().has_unnamed(&["one", "other", "third"]));
}
