//! Stacks in constructed memory.

extern crate std;

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::abi::beam::{ATOM, CODE, LINE_TABLE, NAME};
use crate::abi::interpreter::FRAME_BYTES;
use crate::abi::mapping::{Mapping, Process};
use crate::walk::arch::X86_64;

/// Generated code: two modules behind shared fragments.
const CODE_AT: u64 = 0x7f00_0000_0000;
const MODULES: [u64; 2] = [CODE_AT + 0x2000, CODE_AT + 0x4000];
/// The file, with the tables of modules.
const FILE: u64 = 0x5500_0000_0000;
const TABLES_AT: u64 = FILE + 0x1000;
const ACTIVE_AT: u64 = FILE + 0x2000;
/// Data of a scheduler, its registers on the thread's stack, and a process with its stack.
const SCHEDULER: u64 = 0x6000_0000;
const BLOCK: u64 = 0x7ffe_0000_0000;
const PROCESS: u64 = 0x6100_0000;
const STACK: u64 = 0x6200_0000;
const THREAD: u64 = 0x6300_0000;

const FUNCTIONS: u64 = 96;
const STOP: u64 = 0x58;
const CURRENT: u64 = 168;
const REGISTERS: u64 = 0x80;
const ROOT: u64 = 0x148;
const NORMAL_EXIT: u64 = CODE_AT + 0x500;
const MAIN: u64 = CODE_AT + 0x600;

/// Memory of words, by address.
#[derive(Default)]
struct Memory {
    words: BTreeMap<u64, u64>,
    object: [u64; FRAME_BYTES / 8],
    frames: Vec<(u8, u64)>,
    arena: Vec<u32>,
}

impl Memory {
    fn put(&mut self, address: u64, words: &[u64]) {
        for (index, &word) in (0..).zip(words) {
            self.words.insert(address + index * 8, word);
        }
    }

    /// Writes a function with a call, which its return address follows.
    fn function(&mut self, info: u64, module: u64, name: u64, arity: u64) {
        self.put(info + NAME, &[module << 6 | ATOM, name << 6 | ATOM, arity]);
        self.put(info + CODE, &[0x9090_9090_9090_9090; 8]);
    }

    /// Writes the call that a return address is behind.
    fn call(&mut self, return_address: u64) {
        let at = return_address & !7;
        self.put(at - 8, &[0xe8 << 24]);
        assert_eq!(return_address, at);
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
        let low = *self.words.get(&(address & !7))?;
        let shift = address % 8 * 8;
        if shift == 0 {
            return Some(low);
        }
        let high = self.words.get(&((address & !7) + 8)).copied().unwrap_or(0);
        Some(low >> shift | high << (64 - shift))
    }

    fn read_object(&mut self, address: u64, size: u32) -> Option<&[u64; FRAME_BYTES / 8]> {
        for index in 0..u64::from(size.div_ceil(8)) {
            self.object[index as usize] = self.read_memory(address + index * 8)?;
        }
        Some(&self.object)
    }

    fn thread_pointer(&mut self) -> Option<u64> {
        Some(THREAD)
    }

    fn push_frame(&mut self, frame: u64) {
        self.frames.push((u8::MAX, frame & frame::ADDRESS));
    }

    fn push_interpreter_frame(&mut self, function: u64, _: u64) {
        let shape = (function >> frame::SHAPE_SHIFT) as u8;
        self.frames.push((shape, function & ((1 << frame::SHAPE_SHIFT) - 1)));
    }
}

/// Two modules with two functions each, whose headers have no lines.
fn memory() -> Memory {
    let mut memory = Memory::default();
    for table in 0..3 {
        memory.put(TABLES_AT + table * 32, &[FILE + 0x3000, 2, 2, FILE + 0x3000]);
    }
    memory.put(ACTIVE_AT, &[1]);
    for (index, module) in (0..).zip(MODULES) {
        memory.put(FILE + 0x3000 + index * 16, &[module, module + 0x1000]);
        memory.put(module, &[2]);
        memory.put(module + LINE_TABLE, &[0]);
        memory.put(module + FUNCTIONS, &[module + 0x100, module + 0x400, module + 0x800]);
        memory.function(module + 0x100, index, 10, 2);
        memory.function(module + 0x400, index, 11, 1);
    }
    memory.put(THREAD + 0x10, &[SCHEDULER]);
    memory.put(SCHEDULER, &[BLOCK]);
    memory.put(SCHEDULER + CURRENT, &[PROCESS]);
    memory.put(PROCESS + STOP, &[STACK]);
    memory.put(BLOCK + ROOT, &[FILE + 0x800]);
    memory.call(FILE + 0x800);
    memory
}

/// A walk at an address in the code, with the mappings of code and file.
fn walk(memory: &mut Memory, pc: u64, sp: u64) -> Walk {
    let mapping = |start: u64, end: u64, kind, interpreter| Mapping {
        start,
        end,
        kind,
        interpreter,
        bias: 0,
        table: 0,
    };
    let code = mapping(CODE_AT, CODE_AT + 0x10000, kind::RUNTIME, 1);
    let mut arena = vec![0u32; 1 << 14];
    for (index, it) in [mapping(FILE, FILE + 0x1000, kind::BARE, 0), code].into_iter().enumerate() {
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
    walk.interpreter.loaded.top.hops = 1;
    walk.interpreter.loaded.top.offsets[0] = 0x10;
    let parameters = &mut walk.interpreter.parameters;
    parameters[parameter::RANGES] = TABLES_AT;
    parameters[parameter::ACTIVE] = ACTIVE_AT;
    parameters[parameter::FUNCTIONS] = FUNCTIONS;
    parameters[parameter::STOP] = STOP;
    parameters[parameter::CURRENT] = CURRENT;
    parameters[parameter::REGISTERS] = REGISTERS;
    parameters[parameter::ROOT] = ROOT;
    parameters[parameter::MAIN] = MAIN;
    parameters[parameter::MAIN_END] = MAIN + 0x80;
    parameters[parameter::NORMAL_EXIT] = NORMAL_EXIT;
    walk.registers.pc = pc;
    walk.registers.values[X86_64::SP] = sp;
    walk.registers.values[X86_64::BEAM_REGISTERS] = BLOCK + REGISTERS;
    walk.registers.known = 0xffff;
    walk
}

/// Takes the frames in generated code, leaf first: shape and address. The walk ends in the file.
fn frames(memory: &mut Memory, walk: &mut Walk) -> Vec<(u8, u64)> {
    memory.frames.clear();
    for _ in 0..10_000 {
        let after_call = u64::from(walk.flags & frame::EXACT == 0);
        let pc = walk.registers.pc - after_call;
        match find(walk, memory, pc) {
            Some(kind::RUNTIME) => {}
            _ => break,
        }
        if step::<X86_64, _>(walk, memory, pc).is_err() {
            break;
        }
    }
    memory.frames.clone()
}

fn find(walk: &Walk, memory: &Memory, pc: u64) -> Option<u16> {
    walk.mapping_of(memory, pc).map(|mapping| mapping.kind)
}

const FIRST: u64 = MODULES[0] + 0x100;
const SECOND: u64 = MODULES[1] + 0x400;

/// A small integer.
const TERM: u64 = 5 << 4 | 15;

#[test]
fn leaf_in_a_function() {
    let mut memory = memory();
    memory.put(
        STACK,
        &[TERM, SECOND + CODE + 16, TERM, TERM | 2, FIRST + CODE + 8, NORMAL_EXIT, 0, 0, 0, 0, 0, 0],
    );
    let mut walk = walk(&mut memory, FIRST + CODE + 4, STACK);
    assert_eq!(frames(&mut memory, &mut walk), [(0, FIRST), (0, SECOND), (0, FIRST)]);
    assert_eq!(walk.registers.pc, FILE + 0x800);
    assert_eq!(walk.registers.values[X86_64::SP], BLOCK + ROOT + 8);
}

#[test]
fn leaf_in_a_fragment() {
    let mut memory = memory();
    // The return address of the call isn't aligned.
    let unaligned = SECOND + CODE + 17;
    memory.put(SECOND + CODE + 8, &[0xe8 << 32]);
    memory.put(STACK, &[unaligned, TERM, FIRST + CODE + 8, NORMAL_EXIT, 0, 0, 0, 0, 0, 0, 0]);
    let mut walk = walk(&mut memory, CODE_AT + 0x120, STACK);
    let fragment = (shape::FRAGMENT, CODE_AT);
    assert_eq!(frames(&mut memory, &mut walk), [fragment, (0, SECOND), (0, FIRST)]);
}

#[test]
fn leaf_in_a_jump_to_a_fragment() {
    let mut memory = memory();
    let unaligned = SECOND + CODE + 17;
    memory.put(SECOND + CODE + 8, &[0xe8 << 32]);
    memory.put(STACK, &[unaligned, TERM, FIRST + CODE + 8, NORMAL_EXIT, 0, 0, 0, 0, 0, 0, 0]);
    // The last two of them, at 12 and 6 bytes before the end of the module's last function.
    let end = MODULES[0] + 0x800;
    memory.put(end - 16, &[0xe940 << 32, 0xe940 << 16]);
    for at in [end - 12, end - 6] {
        let mut walk = walk(&mut memory, at, STACK);
        let jump = (shape::ADDRESS, at);
        assert_eq!(frames(&mut memory, &mut walk), [jump, (0, SECOND), (0, FIRST)]);
    }
    let mut walk = walk(&mut memory, end - 8, STACK);
    assert_eq!(frames(&mut memory, &mut walk)[0], (0, MODULES[0] + 0x400));
}

#[test]
fn callee_on_the_stack_of_the_thread() {
    let mut memory = memory();
    memory.put(STACK, &[TERM, FIRST + CODE + 8, NORMAL_EXIT, 0, 0, 0, 0, 0, 0, 0]);
    let at = SECOND + CODE + 16;
    // mov rsp, [r13 + 0x58], behind the call.
    memory.put(at, &[0x5865_8b49, 0, 0, 0, 0, 0, 0]);
    let mut walk = walk(&mut memory, at, BLOCK);
    walk.flags = 0;
    walk.registers.known = 1 << X86_64::SP;
    assert_eq!(frames(&mut memory, &mut walk), [(0, SECOND), (0, FIRST)]);
    assert_eq!(walk.registers.pc, FILE + 0x800);
    // mov rsp, rbp: the process has an older one.
    memory.put(at, &[0xec_8948]);
    memory.put(PROCESS + STOP, &[STACK + 8]);
    let mut walk = self::walk(&mut memory, at, BLOCK);
    walk.flags = 0;
    walk.registers.values[X86_64::FP] = STACK;
    assert_eq!(frames(&mut memory, &mut walk), [(0, SECOND), (0, FIRST)]);
    // Without a process its frames are missing, and the thread's stay.
    memory.put(at, &[0x5865_8b49]);
    memory.put(SCHEDULER + CURRENT, &[0]);
    let mut walk = self::walk(&mut memory, at, BLOCK);
    walk.flags = 0;
    assert_eq!(frames(&mut memory, &mut walk), [(0, SECOND), (0, 0)]);
    assert_eq!(walk.registers.pc, FILE + 0x800);
}

#[test]
fn scheduler_without_a_process() {
    let mut memory = memory();
    let mut walk = walk(&mut memory, MAIN + 0x20, BLOCK);
    walk.flags = 0;
    assert_eq!(frames(&mut memory, &mut walk), [(shape::MAIN, MAIN)]);
    assert_eq!(walk.registers.pc, FILE + 0x800);
}

#[test]
fn corrupt_memory_is_bounded() {
    let mut memory = memory();
    // No return address.
    let terms = vec![TERM; 4096];
    memory.put(STACK, &terms);
    let mut walk = walk(&mut memory, FIRST + CODE + 4, STACK);
    assert_eq!(frames(&mut memory, &mut walk), [(0, FIRST), (0, 0)]);
    assert_eq!(walk.registers.pc, FILE + 0x800);
    // A table that isn't readable, and one with too many modules.
    for table in [[8, 2], [FILE + 0x3000, u64::MAX]] {
        let mut memory = self::memory();
        memory.put(STACK, &[NORMAL_EXIT, 0, 0, 0, 0, 0, 0, 0]);
        memory.put(TABLES_AT + 32, &table);
        let mut walk = self::walk(&mut memory, FIRST + CODE + 4, STACK);
        assert_eq!(frames(&mut memory, &mut walk), [(shape::ADDRESS, FIRST + CODE + 4)]);
    }
}
