//! A frame: from an address to its caller's, over a made-up stack in which every word is a return address.

use std::hint::black_box;

use benches::usage::on_cpu;
use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::tables::{MemoryTables, Tables};
use ebpf_profiler_core::trace::Walker;
use ebpf_profiler_unwind::{Row, Table};
use ebpf_programs::abi::arena::UNIT;
use ebpf_programs::abi::mapping::{Mapping, Process, kind};
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::abi::table::{cfa, ra};
use ebpf_programs::walk::arch::X86_64;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};

use crate::Outcome;
use crate::random::Random;

/// Where the stack begins, how many frames a walk takes, and how many are taken in all.
const STACK: u64 = 0x7fff_0000_0000;
const FRAMES: usize = 500;
const ALL: usize = 400_000;

/// Words of the made-up stack: no walk meets what another one met. Were it shorter, or were its words in an order that comes
/// again, a processor would remember which way each search went.
const WORDS: usize = 1 << 22;

/// Words from one walk's stack to the next one's, a little more than most walks need.
const APART: u64 = 4096;

/// So few addresses keep every cache of rules hot.
const FEW: usize = 16;

/// Nanoseconds of CPU time a frame: ours and framehop's at random addresses, then at a few that come again and again.
pub(crate) fn measure(elf: &Elf) -> Outcome<[f64; 4]> {
    if elf.arch() != Arch::X86_64 {
        return Err("framehop is compared on x86_64".into());
    }
    let table = Table::of(elf)?;
    let addresses = addresses(&table);
    if addresses.is_empty() {
        return Err("no row to walk from".into());
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut any = || addresses[random.below(addresses.len() as u64) as usize];
    let many: Vec<u32> = (0..WORDS).map(|_| any()).collect();
    let few: Vec<u32> = (0..FEW).map(|_| any()).collect();
    let ours = Ours::new(elf, &table)?;
    let theirs = module(elf)?;
    let (mut ns, rounds) = ([f64::INFINITY; 4], 3);
    for _ in 0..rounds {
        for (place, stack) in [(0, &many), (2, &few)] {
            ns[place] = ns[place].min(ours.time(stack)?);
            ns[place + 1] = ns[place + 1].min(framehop(&theirs, stack)?);
        }
    }
    Ok(ns)
}

/// An address in each plain row, of those whose frame starts at the stack pointer, since made-up frame pointers lead
/// nowhere. It isn't the first one, where no call ever ends.
fn addresses(table: &Table) -> Vec<u32> {
    let is_plain = |row: &Row| {
        let rule = row.rule.raw();
        let from_stack = rule.cfa == cfa::REGISTER && usize::from(rule.register) == x86_64::SP;
        from_stack && rule.ra & ra::KIND == ra::BELOW && rule.offset > 8
    };
    let rows = table.rows().zip(table.rows().skip(1));
    let long = rows.filter(|(row, next)| is_plain(row) && next.address - row.address > 1);
    long.filter_map(|(row, _)| u32::try_from(row.address + 1).ok()).collect()
}

/// The word at an address of the stack: what lies behind another call.
fn word(stack: &[u32], at: u64) -> u64 {
    u64::from(stack[(at >> 3) as usize & (stack.len() - 1)]) + 1
}

/// CPU nanoseconds a frame of walks that begin at one address after another.
fn time(whose: &str, stack: &[u32], mut walk: impl FnMut(u64, u64) -> usize) -> Outcome<f64> {
    let before = on_cpu();
    let (mut frames, mut walks) = (0, 0);
    while frames < ALL {
        let begin = STACK + walks * 8 * APART;
        let first = word(stack, begin);
        let taken = walk(first, begin);
        if taken == 0 {
            return Err(format!("{whose} walk from {first:#x} has no frames").into());
        }
        frames += taken;
        walks += 1;
    }
    Ok((on_cpu() - before).as_secs_f64() * 1e9 / frames as f64)
}

/// The walker that runs in the kernel, over the table.
struct Ours {
    tables: MemoryTables,
    process: Process,
}

impl Ours {
    fn new(elf: &Elf, table: &Table) -> Outcome<Ours> {
        let code = elf.segments().iter().filter(|segment| segment.is_code());
        let end = code.map(|segment| segment.address + segment.memory_size).max().ok_or("no code")?;
        let mut tables = MemoryTables::default();
        tables.write(0, table.image()).map_err(|_| "no room")?;
        let place = table.image().len().next_multiple_of(UNIT);
        let mapping = Mapping { start: 0, end, bias: 0, table: 0, kind: kind::TABLE, interpreter: 0 };
        tables.write(place as u64, &bytes(&mapping)).map_err(|_| "no room")?;
        let process = Process { mappings: u32::try_from(place / UNIT)?, count: 1, ..Process::default() };
        Ok(Ours { tables, process })
    }

    fn time(&self, stack: &[u32]) -> Outcome<f64> {
        let mut walker = Walker::default();
        time("our", stack, |pc, sp| {
            let mut registers =
                Registers { pc, known: 1 << x86_64::SP | 1 << x86_64::FP, ..Registers::default() };
            registers.values[x86_64::SP] = sp;
            registers.values[x86_64::FP] = sp;
            let mut left = 2 * FRAMES;
            let mut read = |at: u64| {
                left = left.checked_sub(1)?;
                Some(word(stack, at))
            };
            black_box(walker.walk::<X86_64>(&registers, &self.process, &self.tables, &mut read));
            walker.frames().len()
        })
    }
}

fn bytes(mapping: &Mapping) -> Vec<u8> {
    let words =
        [mapping.start, mapping.end, mapping.bias, u64::from(mapping.table) | u64::from(mapping.kind) << 32];
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

type Theirs = UnwinderX86_64<Vec<u8>>;

/// All that framehop knows of a file, at the addresses that the file itself names.
fn module(elf: &Elf) -> Outcome<Theirs> {
    let range = |name: &str| elf.section(name).map(|section| section.address..section.address + section.size);
    let data = |name: &str| elf.section(name).and_then(|section| elf.data(section).ok());
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    let end = elf.segments().iter().map(|segment| segment.address + segment.memory_size).max().unwrap_or(0);
    let mut unwinder = Theirs::new();
    unwinder.add_module(Module::new("measured".to_owned(), 0..end, 0, sections));
    Ok(unwinder)
}

fn framehop(unwinder: &Theirs, stack: &[u32]) -> Outcome<f64> {
    let mut cache = CacheX86_64::<_>::new();
    time("framehop's", stack, |pc, sp| {
        let mut left = 2 * FRAMES;
        let mut read = |at: u64| {
            left = left.checked_sub(1).ok_or(())?;
            Ok(word(stack, at))
        };
        let registers = UnwindRegsX86_64::new(pc, sp, sp);
        let mut frames = unwinder.iter_frames(pc, registers, &mut cache, &mut read);
        let mut taken = 0;
        while let Ok(Some(frame)) = frames.next() {
            black_box(frame);
            taken += 1;
        }
        taken
    })
}
