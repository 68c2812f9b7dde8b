//! Time of unwinding a frame, on synthetic stacks in which every word that is read is a return
//! address.

use std::hint::black_box;

use benches::usage::on_cpu;
use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_core::internal::tables::{MemoryTables, Tables};
use ebpf_profiler_core::internal::trace::Walker;
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

/// Stack pointer at the start of each walk.
const STACK: u64 = 0x7fff_0000_0000;

/// Words of all stacks, words of one walk, and number of frames: few enough that no walk reads a
/// word of another one, because branch prediction would learn its search.
const WORDS: usize = 1 << 20;
const A_WALK: usize = 1 << 10;
const FRAMES: usize = 400_000;

/// Number of addresses that fit into every rule cache.
const CACHED_ADDRESSES: usize = 16;

/// Returns CPU nanoseconds per frame: ours and framehop's at random addresses, then at few repeated
/// ones.
pub(crate) fn measure(elf: &Elf) -> Outcome<[f64; 4]> {
    if elf.arch() != Arch::X86_64 {
        return Err("framehop is compared on x86_64".into());
    }
    let table = Table::of(elf)?;
    let code = Code::of(&table);
    if code.bytes == 0 {
        return Err("no row to walk from".into());
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    let many: Vec<u32> = (0..WORDS).map(|_| code.address(random.below(code.bytes))).collect();
    let few: Vec<u32> = (0..WORDS).map(|_| many[random.below(CACHED_ADDRESSES as u64) as usize]).collect();
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

/// Code whose frames are relative to the stack pointer, because synthetic frame pointers are
/// invalid.
struct Code {
    /// Start of each range, and the bytes in the ranges before it.
    stretches: Vec<(u32, u64)>,
    bytes: u64,
}

impl Code {
    fn of(table: &Table) -> Code {
        let is_plain = |row: &Row| {
            let rule = row.rule.raw();
            let from_stack = rule.cfa == cfa::REGISTER && usize::from(rule.register) == x86_64::SP;
            from_stack && rule.ra & ra::KIND == ra::BELOW && rule.offset > 8
        };
        let mut code = Code { stretches: Vec::new(), bytes: 0 };
        for (row, next) in table.rows().zip(table.rows().skip(1)).filter(|(row, _)| is_plain(row)) {
            let Ok(address) = u32::try_from(row.address) else { break };
            code.stretches.push((address, code.bytes));
            code.bytes += next.address - row.address;
        }
        code
    }

    /// Returns the address of one byte.
    fn address(&self, number: u64) -> u32 {
        let behind = self.stretches.partition_point(|&(_, before)| before <= number);
        let (address, before) = self.stretches[behind - 1];
        address + (number - before) as u32
    }
}

/// Stack words, returned one after the other for any address: the walk is measured, not the latency
/// of its stack.
struct Words<'a> {
    rest: &'a [u32],
    /// Number of words left for the walk.
    left: usize,
}

impl Words<'_> {
    /// Returns the next word. It depends on the address as far as the processor can tell, so a
    /// frame waits for the previous one, as on a real stack.
    #[inline]
    fn at(&mut self, address: u64) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let none_is_so_high = (address >> 63) as usize;
        let word = *self.rest.get(none_is_so_high)?;
        self.rest = self.rest.get(1..)?;
        // A return address follows its call.
        Some(u64::from(word) + 1)
    }
}

/// Returns CPU nanoseconds per frame of walks from one address after another.
fn time(whose: &str, stack: &[u32], mut walk: impl FnMut(u64, &mut Words<'_>) -> usize) -> Outcome<f64> {
    let mut words = Words { rest: stack, left: 0 };
    let before = on_cpu();
    let mut frames = 0;
    while frames < FRAMES {
        words.left = A_WALK;
        let first = words.at(STACK).ok_or_else(|| format!("{whose} walks end too early"))?;
        frames += walk(first, &mut words);
    }
    Ok((on_cpu() - before).as_secs_f64() * 1e9 / frames as f64)
}

/// The walker of the kernel side, on the table.
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
        time("our", stack, |pc, words| {
            let mut registers =
                Registers { pc, known: 1 << x86_64::SP | 1 << x86_64::FP, ..Registers::default() };
            registers.values[x86_64::SP] = STACK;
            registers.values[x86_64::FP] = STACK;
            let mut read = |address: u64| words.at(address);
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

/// Framehop's module of a file, at the file's virtual addresses.
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
    time("framehop's", stack, |pc, words| {
        let mut read = |address: u64| words.at(address).ok_or(());
        let registers = UnwindRegsX86_64::new(pc, STACK, STACK);
        let mut frames = unwinder.iter_frames(pc, registers, &mut cache, &mut read);
        let mut taken = 0;
        while let Ok(Some(frame)) = frames.next() {
            black_box(frame);
            taken += 1;
        }
        taken
    })
}
