//! Frames in arrays and in compiled code, walked by the kernel side's walker from descriptions, in
//! made-up memory.

use std::collections::BTreeMap;

use ebpf_profiler_core::internal::tables::{MemoryTables, Tables};
use ebpf_profiler_core::internal::trace::Walker;
use ebpf_profiler_core::language::{ArrayWalker, CompiledWalker, FramePath, FrameWalker};
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::mapping::{Process, kind};
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::walk::arch::X86_64;

use crate::stack::{CODE, LOOP_CODE, RETURNS, STACK, table, text};

const COMPILED: u64 = 0x80_0000;
const VM: u64 = 0x5000;
const ARRAY: u64 = 0x1_0000;
const SIZE: u64 = 24;

/// Memory of a process, and its registers.
#[derive(Default)]
struct World {
    memory: BTreeMap<u64, u8>,
    registers: Registers,
}

impl World {
    fn put(&mut self, at: u64, words: &[u64]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        self.memory.extend((at..).zip(bytes));
    }

    fn read(&self, at: u64) -> Option<u64> {
        let bytes: Option<Vec<u8>> = (at..).take(8).map(|at| self.memory.get(&at).copied()).collect();
        Some(u64::from_le_bytes(bytes?.try_into().ok()?))
    }

    /// Returns the stack as text: native frames by address, `*` for a loop's, script frames as
    /// `function@position/check`.
    fn walk(&self, walker: FrameWalker) -> (String, Stop) {
        let mut tables = MemoryTables::default();
        for (at, words) in [(0, mappings()), (64, table())] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            tables.write(at, &bytes).unwrap();
        }
        tables.write(1024, &walker.with_ranges([LOOP_CODE]).abi().to_bytes()).unwrap();
        let process = Process { mappings: 0, count: 2, interpreters: 16, ..Process::default() };
        let mut walker = Walker::default();
        let stop = walker.walk::<X86_64>(&self.registers, &process, &tables, &mut |at: u64| self.read(at));
        (text(walker.frames(), 0), stop)
    }
}

/// Returns two mappings, of a file with interpreter 1 and of its memory: start, end, bias, table
/// offset, kind and interpreter.
fn mappings() -> Vec<u32> {
    let (code, compiled) = (CODE as u32, COMPILED as u32);
    let file =
        [code, 0, code + 0x1000, 0, code.wrapping_neg(), u32::MAX, 1, 1 << 16 | u32::from(kind::TABLE)];
    let memory = [compiled, 0, compiled + 0x2000, 0, 0, 0, 0, 1 << 16 | u32::from(kind::RUNTIME)];
    [file, memory].concat()
}

/// Returns a thread in `leaf, loop, helper, loop, start`, whose virtual machine has two words: of
/// the innermost frame, and of the end. The array has `count` frames of the functions 0xa000,
/// 0xa100, … in calling order, at positions 1, 2, …
fn interpreted(vm: [u64; 2], count: u64, grows_down: bool) -> World {
    let mut world = World::default();
    for (number, pc) in RETURNS.into_iter().enumerate() {
        world.put(STACK + 16 * number as u64, &[0, CODE + pc]);
    }
    world.put(VM, &vm);
    for index in 0..count {
        let at = if grows_down { ARRAY - SIZE * (index + 1) } else { ARRAY + SIZE * index };
        world.put(at, &[0xa000 + 0x100 * index, index + 1, 0]);
    }
    world.registers = Registers { pc: CODE + 0x100, thread: VM, ..Registers::default() };
    world.registers.values[x86_64::SP] = STACK;
    world.registers.known = 1 << x86_64::SP;
    world
}

fn array() -> ArrayWalker {
    let path = FramePath::from_address(VM, &[]);
    FrameWalker::array(path, SIZE as u32).outermost(8).position_number(8)
}

/// Both loops with their frames.
const TWO: &str = "400100 40020f* a100@2 40010f 40021f* a000@1 400400";

#[test]
fn arrays_have_ends_of_all_forms() {
    let top = |index: u64| ARRAY + SIZE * index;
    for (walker, world) in [
        (array(), interpreted([top(1), top(0)], 2, false)),
        (array().path_to_free(), interpreted([top(2), top(0)], 2, false)),
        (array().path_to_count(), interpreted([u64::MAX << 32 | 2, top(0)], 2, false)),
        (array().grows_down(), interpreted([ARRAY - 2 * SIZE, ARRAY - SIZE], 2, true)),
        (array().grows_down().end(8), interpreted([ARRAY - 2 * SIZE, ARRAY], 2, true)),
        (array().grows_down().end(8).path_to_free(), interpreted([ARRAY - 3 * SIZE, ARRAY], 2, true)),
        (array().grows_down().end(8).path_to_count(), interpreted([2, ARRAY], 2, true)),
    ] {
        assert_eq!(world.walk(walker.clone().build().unwrap()), (TWO.to_owned(), Stop::Root), "{walker:?}");
    }
}

#[test]
fn empty_arrays_have_no_frames() {
    let none = "400100 40020f* 40010f 40021f* 400400";
    for (walker, vm) in [
        (array(), [0, ARRAY]),
        (array().path_to_free(), [ARRAY, ARRAY]),
        (array().path_to_count(), [0, ARRAY]),
        (array().grows_down().end(8), [ARRAY, ARRAY]),
    ] {
        let world = interpreted(vm, 0, false);
        assert_eq!(world.walk(walker.clone().build().unwrap()).0, none, "{walker:?}");
    }
}

#[test]
fn loops_beyond_the_outermost_frame_stand_for_themselves() {
    let world = interpreted([ARRAY, ARRAY], 1, false);
    assert_eq!(world.walk(array().build().unwrap()).0, "400100 40020f* a000@1 40010f 40021f* 400400");
}

#[test]
fn runs_and_checks_are_those_of_lists() {
    let mut world = interpreted([ARRAY + SIZE, ARRAY], 2, false);
    world.put(0xa000, &[0, 0x77]);
    world.put(0xa100, &[0, 0x88]);
    let walker = array().identity_number(8).run_ends_with(16, 1, 1).build().unwrap();
    assert_eq!(world.walk(walker).0, "400100 40020f* a100@2/88 a000@1/77 40010f 40021f* 400400");
}

/// A top and an end that are not of one array: the frames are marked as missing, the native ones
/// are all there.
#[test]
fn arrays_that_contradict_themselves_end_with_marked_frame() {
    let missing = "400100 40020f* 0@0 40010f 40021f* 400400";
    for (walker, vm) in [
        (array(), [ARRAY - 5 * SIZE, ARRAY]),
        (array().grows_down(), [ARRAY + 5 * SIZE, ARRAY]),
        // No frame is readable there.
        (array(), [ARRAY + 100 * SIZE, ARRAY]),
        (array().path_to_count(), [u64::from(u32::MAX), ARRAY]),
    ] {
        let (text, stop) = interpreted(vm, 2, false).walk(walker.clone().build().unwrap());
        assert_eq!((text.as_str(), stop), (missing, Stop::Root), "{walker:?}");
    }
}

/// Instructions of a compiled function, at their distances: `push rbp; mov rbp, rsp; push rdi; nop;
/// nop; nop; leave; ret`, and what fills the last word.
const SOURCE: &[u8] = b"\x55\x48\x89\xe5\x57\x90\x90\x90\xc9\xc3\xcc\xcc\xcc\xcc\xcc\xcc";

/// The function of the leaf, that of its caller, and the one that was called before at the leaf's
/// place.
const LEAF: u64 = 0xa000;
const CALLER: u64 = 0xb000;
const STALE: u64 = 0xc000;

const WHOLE: u64 = 5;
const RETURN: u64 = 9;

/// Returns a thread at a distance of a function's code, which was called by compiled code, which
/// native code called. Its frame is as the instructions before have built it.
fn compiled(distance: u64) -> World {
    let mut world = World::default();
    // The end of another function stands before it.
    world.memory.extend((COMPILED + 0xff..).zip([0xc3].iter().chain(SOURCE).copied()));
    world.memory.extend((COMPILED + 0x200..).zip(SOURCE.iter().copied()));
    for (function, start) in [(LEAF, 0x100), (CALLER, 0x200), (STALE, 0x300)] {
        world.put(function, &[COMPILED + start, function >> 4]);
    }
    // From the caller's frame on: its function, its link, its return address to native code, and the
    // outermost frame.
    let link = STACK + 0x100;
    world.put(link - 8, &[CALLER, 0, CODE + 0x110, 0, CODE + 0x401]);
    // The return address of the leaf, the saved frame pointer, and a word that is the function's or an
    // earlier one's.
    let function = if distance >= WHOLE { LEAF } else { STALE };
    world.put(link - 0x30, &[0, function, link, COMPILED + 0x206]);
    let sp = link - 0x18;
    let (sp, fp) = match distance {
        0 | RETURN => (sp, link),
        1 => (sp - 8, link),
        4 => (sp - 8, sp - 8),
        _ => (sp - 16, sp - 8),
    };
    world.registers.pc = COMPILED + 0x100 + distance;
    (world.registers.values[x86_64::SP], world.registers.values[x86_64::FP]) = (sp, fp);
    world.registers.values[5] = if distance < WHOLE { LEAF } else { 0x1234 };
    world.registers.known = u64::MAX;
    world
}

fn in_frame() -> CompiledWalker {
    FrameWalker::compiled().function_in_frame(-8).prologue(5).position_code(0).identity_number(8)
}

#[test]
fn functions_are_right_at_each_instruction() {
    for distance in [0, 1, 4, 5, 6, 7, 8, RETURN] {
        let world = compiled(distance);
        let (stack, stop) = world.walk(in_frame().function_at_entry(5).build().unwrap());
        assert_eq!(stack, format!("a000@{distance}/a00 b000@5/b00 40010f 400400"));
        assert_eq!(stop, Stop::Root);
        // Without the register, a function in its prologue is native code, never the one that was called
        // before.
        let leaf = if distance < WHOLE {
            format!("{:x}", COMPILED + 0x100 + distance)
        } else {
            format!("a000@{distance}/a00")
        };
        let (stack, _) = world.walk(in_frame().build().unwrap());
        assert_eq!(stack, format!("{leaf} b000@5/b00 40010f 400400"));
    }
}

#[test]
fn functions_are_named_by_blocks_and_by_code() {
    let mut world = compiled(6);
    world.put(COMPILED, &[0xd000]);
    world.put(0xd008, &[0xd5]);
    let block = FrameWalker::compiled().function_in_block(4096, 0).identity_number(8).build().unwrap();
    let distance = |at: u64| (COMPILED + at - 0xd000) as u32;
    let expected = format!("d000@{}/d5 d000@{}/d5 40010f 400400", distance(0x106), distance(0x205));
    assert_eq!(world.walk(block).0, expected);
    let code = FrameWalker::compiled().function_by_code().build().unwrap();
    assert_eq!(world.walk(code).0, "800106@0 800205@0 40010f 400400");
}

#[test]
fn positions_in_frames_are_not_read_in_prologue() {
    let position = |distance: u64| {
        let mut world = compiled(distance);
        world.put(STACK + 0x100 - 0x30, &[77]);
        world.put(STACK + 0x100 - 0x10, &[88]);
        world.walk(in_frame().function_at_entry(5).position_number(-16).build().unwrap()).0
    };
    assert_eq!(position(6), "a000@77/a00 b000@88/b00 40010f 400400");
    assert_eq!(position(4), "a000@0/a00 b000@88/b00 40010f 400400");
}

#[test]
fn compiled_code_without_function_or_link_is_native() {
    let mut world = compiled(6);
    world.put(STACK + 0x100 - 0x28, &[0]);
    assert_eq!(world.walk(in_frame().build().unwrap()).0, "800106 b000@5/b00 40010f 400400");
    // A function that isn't readable.
    world.put(STACK + 0x100 - 0x28, &[0xffff_0000]);
    assert_eq!(world.walk(in_frame().build().unwrap()).0, "0@0 b000@5/b00 40010f 400400");
    world.registers.values[x86_64::FP] = 0x10;
    let (stack, _) = world.walk(in_frame().build().unwrap());
    assert!(stack.starts_with("800106"), "{stack}");
}
