//! Frames taken in runs are those taken one by one.
//!
//! There is a shorter way to take a frame, [`Walk::run`]: in the kernel for those like one that was
//! met before, elsewhere for all of the usual kind. Here both ways walk the same stacks, made up by
//! chance of what real tables describe and of nonsense.

mod random;

use std::array;
use std::collections::HashMap;
use std::ops::Range;

use ebpf_profiler_core::internal::tables::{MemoryTables, Tables};
use ebpf_profiler_core::internal::trace::Walker;
use ebpf_profiler_unwind::{Row, Table};
use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, Process, kind};
use ebpf_programs::abi::reason::Stop;
use ebpf_programs::abi::record::MAX_STEPS;
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::abi::table::{Rule, cfa, fp, kept, ra};
use ebpf_programs::machine::Machine;
use ebpf_programs::walk::Walk;
use ebpf_programs::walk::arch::X86_64;
use random::Random;

/// Mappings of the table's file, twice, and of code without unwind data.
const FILES: [u64; 2] = [0x1000_0000_0000, 0x2000_0000_0000];
const BARE: Range<u64> = 0x3000_0000_0000..0x3000_0010_0000;
const STACK: u64 = 0x7fff_0000_0000;
const WORDS: usize = 4096;

/// More frames than there are words on a stack: those that read none go on for ever.
const MAX_FRAMES: u32 = 2 * WORDS as u32;

/// The DWARF number of a register that is never known here.
const RBX: u8 = 3;

/// A machine that remembers some rules, and to which a part of the stack is near; one like the
/// kernel where it is `VERIFIED`.
struct World<'a, const VERIFIED: bool> {
    tables: &'a MemoryTables,
    stack: &'a [u64],
    near: Range<u64>,
    rules: &'a HashMap<u64, Rule>,
    frames: Vec<u64>,
}

impl<const VERIFIED: bool> Machine for World<'_, VERIFIED> {
    const VERIFIED: bool = VERIFIED;

    fn words_from(&self, word: u32) -> Option<&[u32]> {
        self.tables.piece(word)
    }
    fn cached_rule(&self, _: u32, key: u64) -> Option<Rule> {
        self.rules.get(&key).copied()
    }
    fn read_stack(&mut self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(STACK);
        let index = offset.is_multiple_of(8).then_some(offset as usize / 8)?;
        self.stack.get(index).copied()
    }
    fn read_cached(&mut self, address: u64) -> Option<u64> {
        if self.near.contains(&address) { self.read_stack(address) } else { None }
    }
    fn read_memory(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn push_frame(&mut self, frame: u64) {
        self.frames.push(frame);
    }
}

/// All that a walk leads to, but for registers that aren't known in the end.
type Outcome = (Vec<u64>, Stop, [u32; 3], Vec<Option<u64>>);

/// Walks by steps alone, or with a run behind each; how many frames came in runs, too.
fn walk<const VERIFIED: bool>(
    world: &mut World<'_, VERIFIED>,
    process: &Process,
    registers: &Registers,
    runs: bool,
) -> (Outcome, u32) {
    world.frames.clear();
    let mut walk = Walk::default();
    walk.registers = *registers;
    walk.process = *process;
    walk.begin();
    let mut by_runs = 0;
    let stop = loop {
        if let Some(stop) = walk.step::<X86_64, _>(world) {
            break stop;
        }
        if walk.taken >= MAX_FRAMES {
            break Stop::TooLong;
        }
        let before = walk.taken;
        if runs {
            walk.run::<X86_64, _>(world);
        }
        by_runs += walk.taken - before;
    };
    let Registers { known, values, .. } = walk.registers;
    let values =
        values.iter().enumerate().map(|(number, &value)| (known >> number & 1 == 1).then_some(value));
    let counts = [walk.taken, walk.words, walk.guessed];
    ((world.frames.clone(), stop, counts, values.collect()), by_runs)
}

/// Walks both ways, which lead to the same; how many frames there are, of walks that end, and how
/// many of them came in runs.
fn walk_twice<const VERIFIED: bool>(
    mut world: World<'_, VERIFIED>,
    process: &Process,
    registers: &Registers,
) -> [u32; 2] {
    let (expected, _) = walk(&mut world, process, registers, false);
    let (told, by_runs) = walk(&mut world, process, registers, true);
    assert_eq!(told, expected);
    if told.1 == Stop::TooLong { [0; 2] } else { [told.2[0], by_runs] }
}

/// Tables with this program's own, mapped twice.
fn tables(table: &Table) -> (MemoryTables, Process) {
    let mapping = |start: u64, end: u64, kind: u16| -> Vec<u8> {
        let mapping = Mapping { start, end, bias: start.wrapping_neg(), table: 0, kind, interpreter: 0 };
        let last = u64::from(mapping.table) | u64::from(mapping.kind) << 32;
        [mapping.start, mapping.end, mapping.bias, last].into_iter().flat_map(u64::to_le_bytes).collect()
    };
    let mut mappings: Vec<u8> =
        FILES.iter().flat_map(|&start| mapping(start, start + (1 << 32), kind::TABLE)).collect();
    mappings.extend(mapping(BARE.start, BARE.end, kind::BARE));
    let place = table.image().len().next_multiple_of(UNIT);
    let mut tables = MemoryTables::default();
    tables.write(0, table.image()).expect("memory is no bound");
    tables.write(place as u64, &mappings).expect("memory is no bound");
    (tables, Process { mappings: (place / UNIT) as u32, count: 3, ..Process::default() })
}

#[test]
fn runs_take_the_frames_that_steps_take() {
    let table = Table::from_elf(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
    // So few places in the code that rules are met again, and most of them lead on, whatever the stack
    // says.
    let leads_on =
        |row: &Row| row.rule.raw().cfa == cfa::REGISTER && row.rule.raw().register == x86_64::SP as u8;
    let (good, other): (Vec<Row>, Vec<Row>) = table.rows().partition(leads_on);
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut place = |number| {
        let rows = if number % 20 == 19 { &other } else { &good };
        rows[random.below(rows.len() as u64) as usize].address
    };
    let places: Vec<u64> = (0..80).map(&mut place).collect();
    // What is remembered of a call there; of some what this program has no example of.
    let unusual = |number: usize, rule: Rule| match number % 40 {
        0 => Rule { cfa: cfa::DEREF, ..rule },
        1 => Rule { cfa: cfa::END, ..rule },
        2 => Rule { register: x86_64::FP as u8, ..rule },
        3 => Rule { ra: ra::SAVED, aux: -16, ..rule },
        4 => Rule { ra: rule.ra | (x86_64::FP as u8) << kept::SHIFT, ..rule },
        5 => Rule { fp: fp::DIRECT, ..rule },
        6 => Rule { fp: fp::UNKNOWN, ..rule },
        7 => Rule { fp: fp::SAVED, fp_offset: -24, ..rule },
        8 => Rule { fp: fp::SAVED | 1 << kept::SHIFT, ..rule },
        9 => Rule { offset: 0, ..rule },
        10 => Rule { offset: -8, ..rule },
        11 => Rule { register: RBX, ..rule },
        12 => Rule { ra: ra::SAVED | ra::SIGNED, aux: -8, ..rule },
        13 => Rule { ra: ra::REGISTER, aux: x86_64::FP as i32, ..rule },
        14 => Rule { ra: ra::SAVED | (x86_64::FP as u8) << kept::SHIFT, aux: -8, ..rule },
        _ => rule,
    };
    let rule = |place: u64| table.rule(place).map_or(Rule::NO_DATA, |rule| rule.raw());
    let rules: HashMap<u64, Rule> = places
        .iter()
        .enumerate()
        .map(|(number, &place)| (place << 1 | 1, unusual(number, rule(place))))
        .collect();
    let (tables, process) = tables(&table);
    let nothing = HashMap::new();
    let (mut kernel, mut host) = ([0; 2], [0; 2]);
    for _ in 0..3000 {
        let nonsense = [30, 300, 3000][random.below(3) as usize];
        let file = FILES[random.below(2) as usize];
        let stack: Vec<u64> = (0..WORDS)
            .map(|_| match random.below(nonsense) {
                0 => 0,
                1 => random.below(1 << 48),
                2 => BARE.start + random.below(1 << 20),
                3 => STACK + 8 * random.below(WORDS as u64),
                4 => FILES[random.below(2) as usize] + random.below(1 << 24),
                number => file + places[(number % 80) as usize] + 1,
            })
            .collect();
        let mut registers =
            Registers { pc: file + places[0], known: 1 << x86_64::SP, ..Registers::default() };
        registers.values[x86_64::SP] = STACK + 8 * random.below(64);
        registers.values[x86_64::FP] = STACK + 8 * random.below(WORDS as u64);
        registers.known |= random.below(2) << x86_64::FP;
        let near = STACK + random.below(512)..STACK + 512 + 8 * random.below(WORDS as u64);
        let world = World::<true> { tables: &tables, stack: &stack, near, rules: &rules, frames: Vec::new() };
        let numbers = walk_twice(world, &process, &registers);
        kernel = array::from_fn(|index| kernel[index] + numbers[index]);
        let (near, rules) = (STACK..u64::MAX, [&rules, &nothing][random.below(2) as usize]);
        let world = World::<false> { tables: &tables, stack: &stack, near, rules, frames: Vec::new() };
        let numbers = walk_twice(world, &process, &registers);
        host = array::from_fn(|index| host[index] + numbers[index]);
    }
    for [frames, by_runs] in [kernel, host] {
        assert!(by_runs > frames / 4, "{by_runs} of {frames} frames in runs");
        assert!(by_runs < frames, "{by_runs} of {frames} frames in runs");
    }
}

#[test]
fn deep_stacks_have_a_root_and_endless_ones_an_end() {
    let table = Table::from_elf(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
    let frame = Rule { cfa: cfa::REGISTER, register: x86_64::SP as u8, offset: 16, ..Rule::default() };
    let rows = table.rows().zip(table.rows().skip(1));
    let mut long = rows.filter(|(row, next)| row.rule.raw() == frame && next.address - row.address > 1);
    let pc = FILES[0] + long.next().expect("most programs have one").0.address + 1;
    let (tables, process) = tables(&table);
    let mut registers = Registers { pc, known: 1 << x86_64::SP, ..Registers::default() };
    registers.values[x86_64::SP] = STACK;
    for (depth, expected) in [(12_000, Stop::Root), (u64::from(u32::MAX), Stop::TooLong)] {
        let mut memory = |at: u64| Some(if at < STACK + 16 * (depth - 1) { pc } else { 0 });
        let mut walker = Walker::default();
        let stop = walker.walk::<X86_64>(&registers, &process, &tables, &mut memory);
        let frames = walker.frames().len() as u64;
        assert_eq!(stop, expected, "after {frames} frames");
        assert!(frames == depth || stop == Stop::TooLong && frames < 2 * u64::from(MAX_STEPS), "{frames}");
    }
}
