//! Interpreter frames, walked by the kernel side's walker in made-up lists.
//!
//! The native stack has two frames of an interpreter loop: `leaf, loop, helper, loop, start`. The
//! list differs in each test; all native frames are present in all of them.

use std::collections::BTreeMap;

use ebpf_profiler_core::internal::tables::{MemoryTables, Tables};
use ebpf_profiler_core::internal::trace::Walker;
use ebpf_profiler_core::trace::Stop;
use ebpf_programs::abi::interpreter::{
    Frames, Interpreter, MAX_INTERPRETER_FRAMES, NO_CHECK, Others, Path, fold, from, position, run,
};
use ebpf_programs::abi::mapping::Process;
use ebpf_programs::abi::record::frame::CHECK;
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::walk::arch::X86_64;

use crate::stack::{CODE, LOOP_CODE, RETURNS, STACK, table, text};

const THREAD: u64 = 0x5000;

/// Offsets of a frame's fields; the byte at 24 holds the mark.
const FRAMES: Frames = Frames {
    function_mask: !0x7,
    size: 32,
    caller: 0,
    function: 8,
    position: 16,
    position_kind: position::NUMBER,
    check: NO_CHECK,
    run: run::ONE,
    end: 24,
    end_mask: 0xff,
    end_value: 3,
};

/// Path from the thread to its innermost frame, in two hops.
const TOP: Path =
    Path { from: from::THREAD, hops: 2, next: 0, thread: 0, offsets: [16, 8, 0, 0, 0, 0, 0, 0] };

/// A program whose thread's innermost frame is at 0x1000.
struct World {
    memory: BTreeMap<u64, u64>,
    interpreter: Interpreter,
}

impl World {
    fn new() -> World {
        let loops = [[LOOP_CODE.start, LOOP_CODE.end], [0; 2], [0; 2], [0; 2]];
        let mut memory = BTreeMap::from([(THREAD + 16, 0x6000), (0x6008, 0x1000)]);
        // Each native frame has 16 bytes: `cfa = rsp + 16, ra = [cfa - 8]`.
        for (number, pc) in RETURNS.into_iter().enumerate() {
            memory.insert(STACK + 16 * number as u64 + 8, CODE + pc);
        }
        World {
            memory,
            interpreter: Interpreter { loops, top: TOP, frames: FRAMES, ..Interpreter::default() },
        }
    }

    /// Adds a frame of `function` at `position`, called by the frame at `caller`.
    fn frame(mut self, at: u64, caller: u64, function: u64, position: u64, mark: u64) -> World {
        for (index, word) in [caller, function, position, mark].into_iter().enumerate() {
            self.memory.insert(at + 8 * index as u64, word);
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Interpreter)) -> World {
        change(&mut self.interpreter);
        self
    }

    /// Returns the stack as text: native frames by code offset, `*` for a loop's, script frames as
    /// `function@position`.
    fn walk(&self) -> String {
        let mut tables = MemoryTables::default();
        for (at, words) in [(0, mapping()), (64, table())] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            tables.write(at, &bytes).unwrap();
        }
        tables.write(1024, &self.interpreter.to_bytes()).unwrap();
        let process = Process { mappings: 0, count: 1, interpreters: 16, ..Process::default() };
        let mut registers = Registers { pc: CODE + 0x100, thread: THREAD, ..Registers::default() };
        registers.values[x86_64::SP] = STACK;
        registers.known = 1 << x86_64::SP;
        let mut walker = Walker::default();
        let mut memory = |address: u64| self.memory.get(&address).copied();
        let stop = walker.walk::<X86_64>(&registers, &process, &tables, &mut memory);
        assert_eq!(stop, Stop::Root);
        text(walker.frames(), CODE)
    }
}

/// Returns one mapping, whose file holds interpreter 1: start, end, bias, table offset, kind and
/// interpreter.
fn mapping() -> Vec<u32> {
    vec![CODE as u32, 0, CODE as u32 + 0x1000, 0, (CODE as u32).wrapping_neg(), u32::MAX, 1, 1 | 1 << 16]
}

#[test]
fn each_loop_runs_one_frame() {
    let world = World::new().frame(0x1000, 0x2000, 0xa000, 7, 0).frame(0x2000, 0, 0xb001, 9, 0);
    // The low bits of a function's address may have another meaning.
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* b000@9 400");
}

#[test]
fn a_run_ends_with_a_marked_frame() {
    let world = World::new().with(|it| it.frames.run = run::WITH_MARKED);
    let world = world.frame(0x1000, 0x2000, 0xa000, 1, 0).frame(0x2000, 0x3000, 0xb000, 2, 3);
    let world = world.frame(0x3000, 0, 0xc000, 3, 4);
    assert_eq!(world.walk(), "100 20f* a000@1 b000@2 10f 21f* c000@3 400");
}

#[test]
fn a_run_ends_before_a_marked_frame() {
    let world = World::new().with(|it| it.frames.run = run::BEFORE_MARKED);
    let world = world.frame(0x1000, 0x2000, 0xa000, 1, 2).frame(0x2000, 0x3000, 0xb000, 2, 3);
    let world = world.frame(0x3000, 0x4000, 0xc000, 3, 0).frame(0x4000, 0, 0xd000, 3, 3);
    assert_eq!(world.walk(), "100 20f* a000@1 10f 21f* c000@3 400");
}

#[test]
fn a_position_may_be_an_address_and_a_function_have_a_check() {
    let world = World::new().with(|it| {
        it.frames.position_kind = position::ADDRESS;
        it.frames.check = 0x44;
    });
    let mut world = world.frame(0x1000, 0, 0xa000, 0xa088, 0);
    world.memory.insert(0xa044, 0x9999_9912_3456);
    assert_eq!(world.walk(), "100 20f* a000@136/123456 10f 21f* 400");
}

#[test]
fn several_words_may_identify_a_function() {
    let check = |last: u64| {
        let world = World::new().with(|it| (it.frames.check, it.check_words) = (0x40, 3));
        let mut world = world.frame(0x1000, 0, 0xa000, 7, 0);
        world.memory.extend([(0xa040, 1), (0xa048, 2), (0xa050, last), (0xa058, 9)]);
        world.walk()
    };
    let folded = u64::from(fold(&[1, 2, 3], 3)) & CHECK;
    assert_eq!(check(3), format!("100 20f* a000@7/{folded:x} 10f 21f* 400"));
    assert_ne!(check(3), check(4));
}

#[test]
fn a_number_may_lie_in_the_upper_half_of_a_word() {
    let world = World::new().with(|it| it.frames.position = 20).frame(0x1000, 0, 0xa000, 5 << 32 | 1, 0);
    assert_eq!(world.walk(), "100 20f* a000@5 10f 21f* 400");
}

#[test]
fn a_thread_that_runs_no_script_has_no_calls() {
    let mut world = World::new().frame(0x1000, 0, 0xa000, 1, 0);
    world.memory.insert(THREAD + 16, 0);
    assert_eq!(world.walk(), "100 20f* 10f 21f* 400");
    assert_eq!(world.with(|it| it.top.from = from::NOWHERE).walk(), "100 20f* 10f 21f* 400");
}

/// Returns a list of threads at 0x700: two others, then this one, whose innermost frame is at
/// 0x1000.
fn listed() -> World {
    let world = World::new().with(|it| {
        it.top = Path { from: from::LIST, next: 8, thread: 24, ..TOP };
        it.top.offsets = [0x700, 16, 0, 0, 0, 0, 0, 0];
    });
    let mut world = world.frame(0x1000, 0, 0xa000, 7, 0);
    let entries = [(0x8000, 0x8100, 0x2000, 1), (0x8100, 0x8200, 0x3000, 2), (0x8200, 0, 0x1000, THREAD)];
    for (at, next, frame, thread) in entries {
        world.memory.extend([(at + 8, next), (at + 16, frame), (at + 24, thread)]);
    }
    world.memory.insert(0x700, 0x8000);
    world
}

#[test]
fn finds_thread_in_a_list() {
    assert_eq!(listed().walk(), "100 20f* a000@7 10f 21f* 400");
    let mut world = listed();
    world.memory.insert(0x8108, 0);
    assert_eq!(world.walk(), "100 20f* 10f 21f* 400");
    world.memory.insert(0x700, 0);
    assert_eq!(world.walk(), "100 20f* 10f 21f* 400");
}

/// The entry in use is at 0x8000; the thread's entry leads to a frame at 0x2000, the one in use to
/// one at 0x1000.
fn in_use(thread: u64) -> World {
    let world = World::new().with(|it| {
        it.top = Path { from: from::CURRENT, next: 2, thread: 24, hops: 4, ..TOP };
        it.top.offsets = [0x700, 16, 8, 32, 0, 0, 0, 0];
    });
    let mut world = world.frame(0x1000, 0, 0xa000, 7, 0).frame(0x2000, 0, 0xb000, 7, 0);
    world.memory.extend([(0x700, 0x8000), (0x8000 + 24, thread), (0x8000 + 32, 0x1000)]);
    world.memory.extend([(THREAD + 16, 0x6000), (0x6008, 0x9000), (0x9000 + 32, 0x2000)]);
    world
}

#[test]
fn an_entry_may_be_in_use_by_this_thread_or_another() {
    assert_eq!(in_use(THREAD).walk(), "100 20f* a000@7 10f 21f* 400");
    assert_eq!(in_use(THREAD + 8).walk(), "100 20f* b000@7 10f 21f* 400");
    let mut world = in_use(THREAD);
    world.memory.insert(0x700, 0);
    assert_eq!(world.walk(), "100 20f* b000@7 10f 21f* 400");
    world.memory.insert(THREAD + 16, 0);
    assert_eq!(world.walk(), "100 20f* 10f 21f* 400");
}

/// After a fork the page that holds the entry in use may be in the middle of its copy.
#[test]
fn finds_entry_of_thread_if_entry_in_use_is_unreadable() {
    let mut world = in_use(THREAD);
    world.memory.remove(&0x700);
    assert_eq!(world.walk(), "100 20f* b000@7 10f 21f* 400");
    world.memory.remove(&(THREAD + 16));
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
}

/// Two interpreters with two entries each; of this thread's entries, the one in use has one frame,
/// at 0x1000.
fn nested() -> World {
    let mut world = in_use(THREAD).with(|it| {
        it.others = Others { head: 0x740, next: 0, entries: 8, link: 0, thread: 24, hop: 3, reserved: 0 };
    });
    let interpreters = [(0x740, 0x7000), (0x7000, 0x7100), (0x7008, 0x8100), (0x7100, 0), (0x7108, 0x8000)];
    world.memory.extend(interpreters);
    for (at, link, thread, frame) in [
        (0x8000, 0x8200, THREAD, 0x1000),
        (0x8100, 0x8300, 1, 0x3000),
        (0x8200, 0, 2, 0x3000),
        (0x8300, 0, THREAD, 0x2000),
    ] {
        world.memory.extend([(at, link), (at + 24, thread), (at + 32, frame)]);
    }
    world
}

#[test]
fn the_frames_of_the_interpreter_that_called_come_next() {
    assert_eq!(nested().walk(), "100 20f* a000@7 10f 21f* b000@7 400");
    // The interpreter runs nothing.
    let mut world = nested();
    world.memory.insert(0x8300 + 32, 0);
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* 400");
    // The entry belongs to another thread.
    let mut world = nested();
    world.memory.insert(0x8300 + 24, 3);
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* 400");
    // The entry in use runs nothing yet: the sampled loop is the caller's.
    let mut world = nested();
    world.memory.insert(0x8000 + 32, 0);
    assert_eq!(world.walk(), "100 20f* b000@7 10f 21f* 400");
}

/// Each list ends with the frame of its loop, and one that belongs to no loop.
#[test]
fn a_list_may_end_with_a_frame_of_no_loop() {
    let world = [0x1000, 0x2000].into_iter().fold(nested(), |world, at| {
        let function = 0x9000 + at;
        let world = world.frame(at, at + 0x100, function, 7, 0);
        world.frame(at + 0x100, at + 0x200, 0xc000, 0, 3).frame(at + 0x200, 0, 0xc000, 0, 3)
    });
    let world = world.with(|it| it.frames.run = run::BEFORE_MARKED);
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* 400");
    let world = world.with(|it| it.frames.run = run::BEFORE_MARKED_TO_BASE);
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* b000@7 400");
}

#[test]
fn returns_no_frames_if_the_first_are_unreadable() {
    for from in [from::NOWHERE, from::UNKNOWN] {
        assert_eq!(nested().with(|it| it.top.from = from).walk(), "100 20f* 10f 21f* 400");
    }
}

#[test]
fn takes_neither_of_two_possible_callers() {
    let mut world = nested();
    world.memory.insert(0x8100 + 24, THREAD);
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* 0@0 400");
}

#[test]
fn searches_all_entries_if_none_is_in_use() {
    let mut world = nested().with(|it| {
        it.top = Path { from: from::CURRENT, next: 0, thread: 24, hops: 2, ..TOP };
        it.top.offsets = [0x700, 32, 0, 0, 0, 0, 0, 0];
        it.others.hop = 1;
    });
    assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* b000@7 400");
    // Two have frames of this thread, and neither is in use.
    world.memory.insert(0x700, 0);
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
    world.memory.insert(0x8000 + 32, 0);
    assert_eq!(world.walk(), "100 20f* b000@7 10f 21f* 400");
    world.memory.insert(0x8300 + 32, 0);
    assert_eq!(world.walk(), "100 20f* 10f 21f* 400");
}

#[test]
fn lists_of_interpreters_may_be_circles_or_torn() {
    for (at, to) in [(0x7100, 0x7000), (0x8300, 0x8100), (0x8200, 0x8200), (0x7108, 0x9998), (0x740, 0x9998)]
    {
        let mut world = nested();
        world.memory.insert(at, to);
        assert_eq!(world.walk(), "100 20f* a000@7 10f 21f* 0@0 400");
    }
}

#[test]
fn a_list_of_threads_may_be_a_circle_or_torn() {
    let mut world = listed();
    world.memory.insert(0x8108, 0x8000);
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
    world.memory.insert(0x8108, 0x9999);
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
}

#[test]
fn marks_unreadable_frames_and_continues_native_stack() {
    let world = World::new().frame(0x1000, 0x2000, 0xa000, 1, 0);
    assert_eq!(world.walk(), "100 20f* a000@1 10f 21f* 0@0 400");
    let mut world = World::new();
    world.memory.remove(&(THREAD + 16));
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
    let world = World::new().frame(0x1000, 0, 0xa000, 1, 0).with(|it| it.frames.check = 0);
    assert_eq!(world.walk(), "100 20f* 0@0 10f 21f* 400");
}

#[test]
fn bounds_circular_list_and_continues_native_stack() {
    let world = World::new().with(|it| it.frames.run = run::WITH_MARKED).frame(0x1000, 0x1000, 0xa000, 1, 0);
    let text = world.walk();
    assert_eq!(text.matches("a000@1").count(), MAX_INTERPRETER_FRAMES as usize);
    assert!(text.ends_with(" 0@0 10f 21f* 400"), "{}", &text[text.len() - 60..]);
}

#[test]
fn tolerates_out_of_range_numbers() {
    for value in [0, 1, 7, 127, 128, 4096, u32::MAX] {
        let world = World::new().frame(0x1000, 0x1000, 0xa000, 1, 0).with(|it| {
            let f = &mut it.frames;
            (f.size, f.caller, f.function, f.position) = (value, value, value, value);
            (f.check, f.run, f.end, f.end_mask, f.end_value) = (value, value, value, value, value);
            (it.top.from, it.top.hops) = (from::THREAD, value);
        });
        assert!(world.walk().ends_with("400"));
        for from in [from::LIST, from::CURRENT, value] {
            let world = in_use(THREAD).with(|it| {
                it.top.from = from;
                (it.top.hops, it.top.next, it.check_words) = (value, value, value);
            });
            assert!(world.walk().ends_with("400"));
            let world = nested().with(|it| {
                it.top.from = from;
                let o = &mut it.others;
                (o.next, o.entries, o.link, o.thread, o.hop) = (value, value, value, value, value);
            });
            assert!(world.walk().ends_with("400"));
        }
    }
}
