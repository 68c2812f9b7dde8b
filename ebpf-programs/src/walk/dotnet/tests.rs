//! Stacks in constructed memory.

extern crate std;

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::nibbles::start_in;
use super::*;
use crate::abi::dotnet::{LEVELS, parameter, shape};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::mapping::{Mapping, Process, kind};
use crate::abi::record::frame;
use crate::walk::arch::X86_64;

/// A code heap, and a precompiled image.
const HEAP_AT: u64 = 0x7f00_0000_0000;
const IMAGE: u64 = 0x7f00_1000_0000;
/// Native code that calls both.
const NATIVE: u64 = 0x5500_0000_0000;
/// Structures of the runtime.
const MAP: u64 = 0x6000_0000;
const DATA: u64 = 0x6010_0000;
const STACK: u64 = 0x7ffe_0000_0000;

const PRECOMPILED: u64 = 704;
const ENTRIES: u64 = 80;

/// Code of two methods in the heap, and of two in the image.
const FIRST: u64 = HEAP_AT + 0x140;
const SECOND: u64 = HEAP_AT + 0x1240;
const FRAMED: u64 = IMAGE + 0x1000;
const FRAMELESS: u64 = IMAGE + 0x2000;

/// `push rbp; push r15; sub rsp, 24`, 7 bytes; then `lea rbp, [rsp + 32]`.
const FRAMED_CODES: &[u8] = &[1, 7, 3, 0, 7, 0x22, 3, 0xf0, 1, 0x50];
/// `push rbp; sub rsp, 24; lea rbp, [rsp + 16]`, 10 bytes; then the stack pointer moves.
const MOVED_CODES: &[u8] = &[1, 10, 3, 0x15, 10, 0x03, 5, 0x22, 1, 0x50];
/// `push rbx; sub rsp, 8`, 5 bytes.
const FRAMELESS_CODES: &[u8] = &[1, 5, 2, 0, 5, 0x02, 1, 0x30];

/// Memory of bytes, by address.
#[derive(Default)]
struct Memory {
    bytes: BTreeMap<u64, u8>,
    object: [u64; FRAME_BYTES / 8],
    frames: Vec<(u8, u64)>,
    arena: Vec<u32>,
}

impl Memory {
    fn put(&mut self, address: u64, words: &[u64]) {
        words
            .iter()
            .zip((0..).step_by(8))
            .for_each(|(word, at)| self.bytes(address + at, &word.to_le_bytes()));
    }

    fn bytes(&mut self, address: u64, bytes: &[u8]) {
        self.bytes.extend((address..).zip(bytes.iter().copied()));
    }

    /// Adds a range to the map: levels, a fragment and a section.
    fn range(&mut self, start: u64, size: u64, module: u64, heap: u64) {
        let (fragment, section) = (DATA + (start >> 28 & 15) * 256, DATA + (start >> 28 & 15) * 256 + 64);
        let mut table = MAP;
        for (level, shift) in LEVELS.into_iter().enumerate() {
            let at = table + (start >> shift & 0xff) * 8;
            let next = match self.read_memory(at) {
                Some(next) => next & !1,
                None if level == 4 => fragment,
                None => MAP + 0x1000 * (self.bytes.len() as u64 + 1),
            };
            // The mark.
            self.put(at, &[next | 1]);
            table = next;
        }
        self.put(fragment, &[0, start, start + size, section | 1]);
        self.put(section, &[start, start + size, 2, 0, module, heap]);
    }

    /// Adds a method in the heap, with its unwind codes.
    fn method(&mut self, start: u64, end: u64, codes: &[u8]) {
        let header = DATA + 0x2000 + (start & 0xffff);
        let (begin, end) = (start - HEAP_AT, end - HEAP_AT);
        self.put(start - 8, &[header]);
        self.put(header, &[1, 2, 3, header + 128, 1 | begin << 32, end | (begin - 0x20) << 32]);
        self.put(header + 128 - 24, &[DATA + 0x1000, 0, 0, 0]);
        self.put(DATA + 0x1000 + 24, &[7]);
        self.bytes(start - 0x20, codes);
        self.bytes(start, &[0x90; 64]);
    }
}

impl Machine for Memory {
    fn words_from(&self, word: u32) -> Option<&[u32]> {
        self.arena.get(word as usize..)
    }

    fn read_stack(&mut self, address: u64) -> Option<u64> {
        self.read_memory(address)
    }

    fn read_memory(&mut self, address: u64) -> Option<u64> {
        self.bytes.get(&address)?;
        let bytes = (0..8).map(|index| self.bytes.get(&(address.wrapping_add(index))).copied().unwrap_or(0));
        Some(bytes.zip((0..).step_by(8)).fold(0, |word, (byte, shift)| word | u64::from(byte) << shift))
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        for index in 0..u64::from(size.div_ceil(8)) {
            self.object[index as usize] = self.read_memory(address.wrapping_add(index * 8)).unwrap_or(0);
        }
        self.bytes.get(&address)?;
        Some(&self.object)
    }

    fn push_frame(&mut self, frame: u64) {
        self.frames.push((u8::MAX, frame & frame::ADDRESS));
    }

    fn push_interpreter_frame(&mut self, function: u64, _: u64) {
        let shape = (function >> frame::SHAPE_SHIFT) as u8 & 0xf;
        self.frames.push((shape, function & ((1 << frame::SHAPE_SHIFT) - 1)));
    }
}

/// Two methods of each kind: one with and one without a frame pointer.
fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.range(HEAP_AT, 0x2000, 0, DATA + 0x800);
    memory.range(IMAGE, 0x1_0000, DATA + 0x4000, 0);
    memory.put(DATA + 0x800, &[0, 0, HEAP_AT, HEAP_AT + 0x2000, HEAP_AT, DATA + 0x900]);
    memory.bytes(DATA + 0x900, &[0; 64]);
    // Buckets 10 and 146: the start is their first byte.
    memory.bytes(DATA + 0x900 + 4, &0x0010_0000_u32.to_le_bytes());
    memory.bytes(DATA + 0x900 + 72, &0x0010_0000_u32.to_le_bytes());
    memory.method(FIRST, FIRST + 0x40, FRAMED_CODES);
    memory.method(SECOND, SECOND + 0x40, FRAMELESS_CODES);
    memory.put(DATA + 0x4000 + PRECOMPILED, &[DATA + 0x5000]);
    memory.put(DATA + 0x5000 + ENTRIES, &[IMAGE + 0x100, 3]);
    for (index, (begin, codes)) in [(0x800, 0x600), (0x1000, 0x600), (0x2000, 0x640)].into_iter().enumerate()
    {
        let words: [u32; 3] = [begin, begin + 0x40, codes];
        words.iter().zip((0..).step_by(4)).for_each(|(word, at)| {
            memory.bytes(IMAGE + 0x100 + index as u64 * 12 + at, &word.to_le_bytes());
        });
    }
    memory.bytes(IMAGE + 0x600, FRAMED_CODES);
    memory.bytes(IMAGE + 0x640, FRAMELESS_CODES);
    memory.bytes(FRAMED, &[0x90; 64]);
    memory.bytes(FRAMELESS, &[0x90; 64]);
    memory
}

/// A walk at an address in the code, with the mappings of code and native code.
fn walk(memory: &mut Memory, pc: u64, sp: u64, fp: u64) -> Walk {
    let mapping = |start: u64, end: u64, kind, interpreter| Mapping {
        start,
        end,
        kind,
        interpreter,
        bias: 0,
        table: 0,
    };
    let code = mapping(HEAP_AT, IMAGE + 0x1_0000, kind::RUNTIME, 1);
    let mut arena = vec![0u32; 1 << 14];
    for (index, it) in [mapping(NATIVE, NATIVE + 0x1000, kind::BARE, 0), code].into_iter().enumerate() {
        let words =
            [it.start, it.end, it.bias].into_iter().flat_map(|word| [word as u32, (word >> 32) as u32]);
        let last = [it.table, u32::from(it.kind) | u32::from(it.interpreter) << 16];
        for (to, from) in arena[16 + index * 8..].iter_mut().zip(words.chain(last)) {
            *to = from;
        }
    }
    memory.arena = arena;
    let mut walk =
        Walk { process: Process { mappings: 1, count: 2, ..Process::default() }, ..Walk::default() };
    walk.begin();
    walk.mapping = code;
    let parameters = &mut walk.interpreter.parameters;
    parameters[parameter::MAP] = MAP;
    parameters[parameter::PRECOMPILED] = PRECOMPILED;
    parameters[parameter::ENTRIES] = ENTRIES;
    walk.registers.pc = pc;
    walk.registers.values[X86_64::SP] = sp;
    walk.registers.values[X86_64::FP] = fp;
    walk.registers.known = 0xffff;
    walk
}

/// Takes the frames in code of .NET, leaf first: shape and address. The walk ends in native code.
fn frames(memory: &mut Memory, walk: &mut Walk) -> Vec<(u8, u64)> {
    memory.frames.clear();
    for _ in 0..1000 {
        let after_call = u64::from(walk.flags & frame::EXACT == 0);
        let pc = walk.registers.pc - after_call;
        match walk.mapping_of(memory, pc).map(|mapping| mapping.kind) {
            Some(kind::RUNTIME) => {}
            _ => break,
        }
        if !matches!(step::<X86_64, _>(walk, memory, pc), Ok(true)) {
            break;
        }
    }
    memory.frames.clone()
}

/// The stack of a framed method at `sp + 40`: saved frame pointer and return address.
fn framed(memory: &mut Memory, sp: u64, saved: u64, returns: u64) -> (u64, u64) {
    memory.put(sp, &[1, 2, 3, 4, saved, returns]);
    (sp + 32, sp + 48)
}

#[test]
fn methods_with_and_without_frame_pointer_call_each_other() {
    let mut memory = memory();
    // Leaf without frame pointer, called by a framed method, by one without frame pointer in the image, by a framed one there.
    memory.put(STACK, &[9, 8, FIRST + 0x20]);
    let (inner, sp) = framed(&mut memory, STACK + 24, STACK + 0x80, FRAMELESS + 0x20);
    memory.put(sp, &[9, 8, FRAMED + 0x20]);
    let (outer, sp) = framed(&mut memory, sp + 24, 0x1234, NATIVE + 0x10);
    memory.put(inner, &[outer]);
    let mut walk = walk(&mut memory, SECOND + 0x20, STACK, inner);
    let expected = [
        (shape::METHOD, SECOND),
        (shape::METHOD, FIRST),
        (shape::PRECOMPILED, FRAMELESS),
        (shape::PRECOMPILED, FRAMED),
    ];
    assert_eq!(frames(&mut memory, &mut walk), expected);
    assert_eq!(walk.registers.pc, NATIVE + 0x10);
    assert_eq!(walk.registers.values[X86_64::SP], sp);
    assert_eq!(walk.registers.values[X86_64::FP], 0x1234);
}

#[test]
fn prologue_and_epilogue_of_a_leaf() {
    // Bytes of the prologue that were executed, words on the stack, whether the frame pointer is the caller's.
    for (within, words) in [(0, 0), (1, 1), (3, 2), (7, 5)] {
        let mut memory = memory();
        let mut stack = vec![0; words];
        if let Some(last) = stack.last_mut() {
            *last = 0x4321;
        }
        stack.push(NATIVE + 0x10);
        memory.put(STACK, &stack);
        let fp = if words == 0 { 0x4321 } else { STACK + 0x100 };
        let mut walk = walk(&mut memory, FIRST + within, STACK, fp);
        assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, FIRST)]);
        assert_eq!(
            (walk.registers.pc, walk.registers.values[X86_64::FP]),
            (NATIVE + 0x10, 0x4321),
            "{within}"
        );
    }
    // `pop rbx; ret`, `ret`, a jump behind `pop rbp`.
    for (start, code, back, words) in
        [(SECOND, &[0x5b, 0xc3][..], 0, 1), (SECOND, &[0xc3], 0, 0), (FIRST, &[0x5d, 0xff, 0x25], 1, 0)]
    {
        let mut memory = memory();
        memory.bytes(start + 0x20, code);
        let mut stack = vec![0; words];
        stack.push(NATIVE + 0x10);
        memory.put(STACK, &stack);
        let mut walk = walk(&mut memory, start + 0x20 + back, STACK, STACK + 64);
        assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, start)]);
        assert_eq!(walk.registers.pc, NATIVE + 0x10, "{code:?}");
    }
}

#[test]
fn handler_of_exceptions_returns_to_the_caller_of_its_method() {
    let mut memory = memory();
    memory.put(STACK, &[1, 2, 3, 4, 5, FRAMED + 0x20]);
    memory.put(STACK + 0x100, &[0x4321, NATIVE + 0x10]);
    let mut walk = walk(&mut memory, FIRST + 0x20, STACK, STACK + 0x100);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, FIRST)]);
    assert_eq!((walk.registers.pc, walk.registers.values[X86_64::FP]), (NATIVE + 0x10, 0x4321));
}

#[test]
fn handler_without_saved_frame_pointer() {
    let mut memory = memory();
    let header = DATA + 0x2000 + (FIRST & 0xffff);
    let words: [u32; 7] = [2, 0x140, 0x160, 0x120, 0x160, 0x180, 0x1220];
    words.iter().zip((32..).step_by(4)).for_each(|(word, at)| memory.bytes(header + at, &word.to_le_bytes()));
    memory.put(STACK, &[1, 2, FRAMED + 0x20]);
    memory.put(STACK + 0x100, &[0x4321, NATIVE + 0x10]);
    let mut walk = walk(&mut memory, FIRST + 0x38, STACK, STACK + 0x100);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, FIRST)]);
    assert_eq!((walk.registers.pc, walk.registers.values[X86_64::FP]), (NATIVE + 0x10, 0x4321));
}

#[test]
fn moved_stack_pointer() {
    let mut memory = memory();
    memory.method(FIRST, FIRST + 0x40, MOVED_CODES);
    memory.put(STACK, &[0; 16]);
    memory.put(STACK + 64, &[1, 0x4321, NATIVE + 0x10]);
    let mut walk = walk(&mut memory, FIRST + 0x20, STACK, STACK + 64);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, FIRST)]);
    assert_eq!((walk.registers.pc, walk.registers.values[X86_64::FP]), (NATIVE + 0x10, 0x4321));
    assert_eq!(walk.registers.values[X86_64::SP], STACK + 64 + 24);
}

#[test]
fn nibbles_lead_to_the_last_start() {
    // Starts at 4 in bucket 2 and at 0 in bucket 5.
    let word = 2 << 20 | 1 << 8;
    assert_eq!(start_in(word, 256, 5 * 32), 256 + 160);
    assert_eq!(start_in(word, 256, 5 * 32 - 1), 256 + 68);
    assert_eq!(start_in(word, 256, 2 * 32 + 4), 256 + 68);
    assert_eq!(start_in(word, 256, 2 * 32 + 3), u64::MAX);
    assert_eq!(start_in(word, 256, 1000), 256 + 160);
    assert_eq!(start_in(0, 256, 1000), u64::MAX);
    for bucket in 0..8 {
        assert_eq!(start_in(8 << (28 - 4 * bucket), 0, 255), bucket * 32 + 28);
    }
}

#[test]
fn distances_lead_to_the_start() {
    let mut memory = memory();
    // Bucket 11 and those behind it are in a word of its own, which has the distance of the start.
    memory.bytes(DATA + 0x900 + 4, &(0x140_u32 + 9).to_le_bytes());
    memory.put(STACK, &[1, 2, 3, 4, 0x1234, NATIVE + 0x10]);
    let mut walk = walk(&mut memory, FIRST + 0x20, STACK, STACK + 32);
    walk.interpreter.parameters[parameter::HAS_DISTANCES] = 1;
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, FIRST)]);
    assert_eq!(walk.registers.pc, NATIVE + 0x10);
}

#[test]
fn stubs_return_by_the_stack_pointer() {
    let mut memory = memory();
    memory.put(NATIVE + 8, &[0xe8 << 24]);
    memory.put(STACK, &[NATIVE + 0x10]);
    memory.put(FIRST - 8, &[5]);
    let mut walk = walk(&mut memory, FIRST + 0x20, STACK, 0);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::STUB, FIRST & !4095)]);
    assert_eq!(walk.registers.pc, NATIVE + 0x10);
}

#[test]
fn corrupt_memory_is_bounded() {
    let mut memory = memory();
    let section = DATA + 64;
    let fragment = DATA;
    for (address, word) in [
        // A fragment that is its own successor.
        (fragment + 16, HEAP_AT),
        (section + 40, 8),
        (DATA + 0x800 + 40, 8),
        (FIRST - 8, 99),
        (FIRST - 8, DATA + 0x900),
    ] {
        let mut memory = self::memory();
        memory.put(fragment, &[fragment]);
        memory.put(address, &[word]);
        memory.put(STACK, &[0]);
        let mut walk = walk(&mut memory, FIRST + 0x20, STACK, 0);
        assert_eq!(frames(&mut memory, &mut walk).len(), 1, "{address:x} {word:x}");
    }
    // An image with more entries than there are.
    memory.put(DATA + 0x5000 + ENTRIES, &[IMAGE + 0x100, u64::MAX]);
    memory.put(STACK, &[0]);
    let mut walk = walk(&mut memory, FRAMED + 0x20, STACK, 0);
    assert_eq!(frames(&mut memory, &mut walk).len(), 1);
}

/// A function that the runtime writes over return addresses, and threads: link 0, original 40, replaced word 48.
const HIJACK: u64 = NATIVE + 0x800;
const THREADS: u64 = DATA + 0x8000;

/// A walk from a method whose return address was replaced by the second thread, at `word`.
fn hijacked(memory: &mut Memory, word: u64) -> Walk {
    memory.put(THREADS, &[THREADS + 0x100]);
    memory.put(THREADS + 0x100, &[THREADS + 0x200, 0, 0, 0, 0, 7, 8]);
    memory.put(THREADS + 0x200, &[0, 0, 0, 0, 0, FIRST + 0x20, word]);
    memory.put(STACK, &[9, 8, HIJACK]);
    let (fp, _) = framed(memory, STACK + 24, 0x1234, NATIVE + 0x10);
    let mut walk = walk(memory, SECOND + 0x20, STACK, fp);
    for (index, value) in
        [(parameter::HIJACKED, HIJACK), (parameter::THREADS, THREADS), (parameter::ORIGINAL, 40)]
    {
        walk.interpreter.parameters[index] = value;
    }
    walk
}

#[test]
fn replaced_return_address_has_its_original_in_a_thread() {
    let mut memory = memory();
    let mut walk = hijacked(&mut memory, STACK + 16);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, SECOND), (shape::METHOD, FIRST)]);
    assert_eq!((walk.registers.pc, walk.registers.values[X86_64::FP]), (NATIVE + 0x10, 0x1234));
}

#[test]
fn replaced_return_address_of_no_thread_is_read_again() {
    let mut memory = memory();
    let mut walk = hijacked(&mut memory, STACK + 8);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, SECOND)]);
    // Restored between two steps.
    let mut walk = hijacked(&mut memory, STACK + 8);
    while walk.dotnet.phase != phase::HIJACKED {
        assert_eq!(step::<X86_64, _>(&mut walk, &mut memory, SECOND + 0x20), Ok(true));
    }
    memory.put(STACK + 16, &[FIRST + 0x20]);
    assert_eq!(step::<X86_64, _>(&mut walk, &mut memory, SECOND + 0x20), Ok(true));
    assert_eq!(walk.registers.pc, FIRST + 0x20);
}

#[test]
fn circular_list_of_threads_is_bounded() {
    let mut memory = memory();
    let mut walk = hijacked(&mut memory, STACK + 8);
    memory.put(THREADS + 0x200, &[THREADS + 0x100]);
    assert_eq!(frames(&mut memory, &mut walk), [(shape::METHOD, SECOND)]);
}
