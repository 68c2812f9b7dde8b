//! Processes whose memory is hostile.
#![expect(clippy::unwrap_used, reason = "a test")]

mod fake;

use ebpf_profiler_core::language::{
    Attachment, FramePath, FrameWalker, Function, Language, Memory, Reason, Target, ThreadLists, Unreadable,
};
use ebpf_profiler_core::process::LoadBias;
use ebpf_profiler_core::testing;
use ebpf_profiler_hll::python::Python;
use fake::{BIAS, CODE_TYPE, INTERPRETERS, KEY, RUNTIME, World};

/// Addresses in the process: a code object, its strings, its line table.
const CODE: u64 = 0x20_0000;
const NAME: u64 = 0x21_0000;
const FILE: u64 = 0x22_0000;
const TABLE: u64 = 0x23_0000;
const MEMBERS: u64 = 0x24_0000;

const LINE: u32 = 7;

/// The check of the code object: its version number.
const CHECK: u32 = 4711;

/// Offsets of 3.12.
const FIRST_LINE: u64 = 68;
const VERSION: u64 = 92;

/// Returns a valid process: `def f` in `a.py` on line 7, two words of code on line 8.
fn valid() -> World {
    let mut world = World::default();
    world.put(BIAS + CODE_TYPE, &[0; 512]);
    world.put_word(BIAS + CODE_TYPE + 240, MEMBERS);
    world.put(MEMBERS, &[0; 40]);
    world.put(BIAS + KEY - 12, &[0; 16]);
    world.put(BIAS + KEY - 12, &[1]);
    world.put(BIAS + KEY, &[3]);
    world.put(CODE, &[0; 200]);
    let words = [(0, 1), (8, BIAS + CODE_TYPE), (112, FILE), (120, NAME), (128, NAME), (136, TABLE)];
    for (at, word) in words {
        world.put_word(CODE + at, word);
    }
    world.put(CODE + FIRST_LINE, &LINE.to_le_bytes());
    world.put(CODE + VERSION, &CHECK.to_le_bytes());
    text(&mut world, NAME, "f");
    text(&mut world, FILE, "a.py");
    bytes(&mut world, TABLE, &[0x80 | 13 << 3 | 1, 2]);
    world
}

/// A `str` of 3.12: ASCII, or with two bytes a character.
fn text(world: &mut World, at: u64, text: &str) {
    let (state, data, content): (u32, usize, Vec<u8>) = match text.is_ascii() {
        true => (1 << 2 | 1 << 5 | 1 << 6, 40, text.bytes().collect()),
        false => (2 << 2 | 1 << 5, 56, text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    };
    let mut object = vec![0; data];
    object[16..24].copy_from_slice(&(text.chars().count() as u64).to_le_bytes());
    object[32..36].copy_from_slice(&state.to_le_bytes());
    object.extend(content);
    object.resize(object.len().max(64), 0);
    world.put(at, &object);
}

fn bytes(world: &mut World, at: u64, content: &[u8]) {
    let mut object = vec![0; 32];
    object[16..24].copy_from_slice(&(content.len() as u64).to_le_bytes());
    object.extend(content);
    world.put(at, &object);
}

fn attach(world: &World) -> Result<Attachment, Reason> {
    let file = fake::file((3, 12), &[]);
    let runtime = Python.find(&fake::open(&file)).unwrap();
    runtime.attach(&Target::new(world, LoadBias::new(BIAS), fake::loaded(&file)))
}

fn function(world: &World) -> Result<Function, Reason> {
    attach(world).unwrap().names().function(CODE, CHECK, world)
}

#[test]
fn attaches_to_valid_process_and_names_function() {
    let world = valid();
    let list = FrameWalker::list(FramePath::from_thread_pointer(&[0x80, 24, 56, 0]));
    let lists = ThreadLists::new(BIAS + INTERPRETERS).next(0).entries(72).link(8).thread(136);
    let expected = list
        .caller(8)
        .function(0)
        .position_address(56)
        .identity_number(92)
        .run_ends_before(70, 0xff, 3)
        .thread_lists(lists, 2)
        .build();
    assert_eq!(*attach(&world).unwrap().walker(), expected.unwrap());
    let function = function(&world).unwrap();
    assert_eq!((&*function.name, &*function.file, function.start_line), ("f", "a.py", 7));
    assert_eq!([0, 192, 195, 196, u32::MAX].map(|at| function.lines.at(at)), [7, 8, 8, 0, 0]);
}

#[test]
fn attaches_only_to_initialized_runtime() {
    let mut world = valid();
    world.put(BIAS + KEY - 12, &[0]);
    assert_eq!(attach(&world).unwrap_err(), Reason::NotReady);
    let mut world = valid();
    world.put(BIAS + KEY, &u32::MAX.to_le_bytes());
    assert_eq!(attach(&world).unwrap_err(), Reason::NotReady);
    world.put(BIAS + KEY, &77_777u32.to_le_bytes());
    assert_eq!(attach(&world).unwrap_err(), Reason::Implausible);
    let mut world = valid();
    world.put_word(BIAS + CODE_TYPE + 240, 0);
    assert_eq!(attach(&world).unwrap_err(), Reason::NotReady);
    assert_eq!(attach(&World::default()).unwrap_err(), Reason::Unreadable);
}

/// 2.7 keeps thread states in a separate list; the state in use has a symbol.
#[test]
fn searches_threads_of_2_7_that_are_not_in_use() {
    let file = fake::file((2, 7), &[]);
    let runtime = Python.find(&fake::open(&file)).unwrap();
    let attach =
        |world: &World| runtime.attach(&Target::new(world, LoadBias::new(BIAS), fake::loaded(&file)));
    let mut world = valid();
    assert_eq!(attach(&world).unwrap_err(), Reason::Unreadable);
    world.put_word(BIAS + INTERPRETERS, 0);
    assert_eq!(attach(&world).unwrap_err(), Reason::NotReady);
    world.put_word(BIAS + INTERPRETERS, 0x40_0000);
    let text = attach(&world).unwrap().walker().to_string();
    let head = BIAS + RUNTIME;
    let lists = BIAS + INTERPRETERS;
    for part in [
        format!("start=4 hop={head:x} hop=10 start_thread=90 "),
        " lists_entries=8 lists_thread=90 lists_hop=1 ".to_owned(),
        format!(" lists_head={lists:x}"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
}

#[test]
fn bounds_members_of_code_type() {
    // Endless members: each is named co_name, at an offset beyond a code object.
    let mut world = valid();
    world.put(0x30_0000, b"co_name\0\0\0\0\0\0\0\0\0");
    let member: Vec<u8> =
        [0x30_0000u64, 0, 1 << 20, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    world.put(MEMBERS + 40, &member.repeat(1000));
    world.put_word(MEMBERS, 0x30_0000);
    assert_eq!(attach(&world).unwrap_err(), Reason::Implausible);
    assert!(world.reads.get() < 300);
}

#[test]
fn reads_names_of_any_script_and_length() {
    let mut world = valid();
    text(&mut world, NAME, "größe名前");
    assert_eq!(&*function(&world).unwrap().name, "größe名前");
    text(&mut world, NAME, &"x".repeat(4096));
    assert_eq!(function(&world).unwrap().name.len(), 4096);
    text(&mut world, NAME, &"x".repeat(10_000));
    assert_eq!(*function(&world).unwrap().name, *format!("{}…", "x".repeat(4096)));
    text(&mut world, NAME, &"名".repeat(10_000));
    assert_eq!(*function(&world).unwrap().name, *format!("{}…", "名".repeat(1365)));
    // Half of a surrogate pair.
    text(&mut world, NAME, "名前");
    world.put(NAME + 56, &0xd800u16.to_le_bytes());
    assert_eq!(&*function(&world).unwrap().name, "\u{fffd}前");
}

#[test]
fn detects_replaced_function() {
    let world = valid();
    let mut attachment = attach(&world).unwrap();
    let names = attachment.names();
    assert_eq!(names.function(CODE, CHECK + 1, &world), Err(Reason::Replaced));
    // The check has 24 bits.
    assert!(names.function(CODE, CHECK | 0xff00_0000, &world).is_ok());
    // Freed: the reference count is overwritten by the address of the next free block.
    for word in [0, 0x7f12_3456_7890] {
        let mut world = valid();
        world.put_word(CODE, word);
        assert_eq!(function(&world), Err(Reason::Replaced));
    }
    // Statically allocated; with flags, as in 3.14.
    for word in [u64::from(u32::MAX), 0x0005_0000_c000_0000] {
        let mut world = valid();
        world.put_word(CODE, word);
        assert!(function(&world).is_ok());
    }
    // Another version number on the same line.
    let mut world = valid();
    world.put(CODE + VERSION, &(CHECK + 1).to_le_bytes());
    assert_eq!(names.function(CODE, CHECK, &world), Err(Reason::Replaced));
}

#[test]
fn rejects_objects_of_other_types() {
    let mut world = valid();
    world.put(0x31_0000, &[0; 64]);
    world.put_word(CODE + 8, 0x31_0000);
    assert_eq!(function(&world), Err(Reason::Implausible));
    world.put_word(0x31_0000 + 24, 0x32_0000);
    world.put(0x32_0000, b"dict\0");
    assert_eq!(function(&world), Err(Reason::Implausible));
    // A copy of the type, in a program that isn't position-independent.
    world.put(0x32_0000, b"code\0");
    assert_eq!(&*function(&world).unwrap().name, "f");
}

#[test]
fn hides_shim_frames() {
    let mut world = valid();
    world.put_word(CODE + 112, NAME);
    // Equal name and file, but with lines.
    assert_eq!(&*function(&world).unwrap().name, "f");
    bytes(&mut world, TABLE, &[0x80 | 15 << 3 | 7, 0x80 | 15 << 3]);
    assert_eq!(&*function(&world).unwrap().name, "");
}

#[test]
fn rejects_dangling_and_cyclic_pointers() {
    for (at, word) in
        [(112, 0), (112, 8), (112, u64::MAX), (112, u64::MAX - 7), (120, CODE), (112, 0x7777_7000)]
    {
        let mut world = valid();
        world.put_word(CODE + at, word);
        world.put_word(CODE + 128, if at == 120 { CODE } else { NAME });
        assert!(function(&world).is_err(), "{at} {word:x}");
    }
    for address in [0, 1, 8, CODE + 1, u64::MAX, u64::MAX - 7, 1 << 47] {
        let world = valid();
        assert!(attach(&world).unwrap().names().function(address, CHECK, &world).is_err(), "{address:x}");
    }
}

#[test]
fn rejects_huge_lengths() {
    for length in [u64::MAX, i64::MAX as u64, 1 << 33] {
        let mut world = valid();
        world.put_word(NAME + 16, length);
        assert_eq!(function(&world), Err(Reason::Implausible));
        // Without lines there is still a name.
        let mut world = valid();
        world.put_word(TABLE + 16, length);
        let function = function(&world).unwrap();
        assert_eq!((&*function.name, function.lines.at(192)), ("f", 0));
    }
    let mut world = valid();
    world.put_word(NAME + 16, 4000);
    assert_eq!(function(&world), Err(Reason::Unreadable));
}

#[test]
fn bounds_reads_of_noise_in_all_versions() {
    for version in [(2, 7), (3, 6), (3, 7), (3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 14)] {
        let file = fake::file(version, &fake::debug_offsets());
        let runtime = Python.find(&fake::open(&file)).unwrap();
        for seed in 0..2000 {
            let noise = Noise { seed, reads: 0.into(), bytes: 0.into() };
            let target = Target::new(&noise, LoadBias::new(BIAS), fake::loaded(&file));
            let Ok(mut attachment) = runtime.attach(&target) else { continue };
            for address in [CODE, 0, u64::MAX - 7] {
                let memory: &dyn Memory = &noise;
                let check = attachment.walker().check(address, |at| memory.u64(at)).unwrap_or(0);
                let _ = attachment.names().function(address, check, &noise);
            }
            assert!(noise.reads.get() < 2000 && noise.bytes.get() < 8 << 20);
        }
    }
}

/// Memory of pseudo-random words with many small numbers, in which each type is named `code`.
struct Noise {
    seed: u64,
    reads: std::cell::Cell<u64>,
    bytes: std::cell::Cell<u64>,
}

impl Memory for Noise {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        if buffer.len() == 5 {
            buffer.copy_from_slice(b"code\0");
            return Ok(());
        }
        for (index, byte) in (0..).zip(buffer) {
            let at = address.wrapping_add(index);
            let word = ((at / 8) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = if word >> 62 == 0 { word >> 33 } else { word >> 52 & !7 };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        if address >> 60 == 0xf { Err(Unreadable) } else { Ok(()) }
    }
}

/// `SEEDS=write` stores the synthetic files as seeds of the fuzz target `find`.
#[test]
fn synthetic_runtimes_pass_conformance_test() {
    for version in [(2, 7), (3, 8), (3, 12), (3, 14)] {
        let file = fake::file(version, &fake::debug_offsets());
        assert_eq!(testing::language(&Python, &file), Ok(()), "{version:?}");
        if std::env::var_os("SEEDS").is_some_and(|what| what == "write") {
            let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/find");
            std::fs::create_dir_all(seeds).unwrap();
            std::fs::write(format!("{seeds}/{}.{}", version.0, version.1), file).unwrap();
        }
    }
}
