//! Frames that the walkers of the kernel side take in memory that lies.

use std::ops::Range;

use ebpf_programs::abi::mapping::{Mapping, Process, kind};
use ebpf_programs::abi::record::frame::{ADDRESS, CHECK, DETAIL, INTERPRETED, NAMED_BY_CALLER};
use ebpf_programs::abi::registers::{Registers, x86_64};
use ebpf_programs::walk::arch::X86_64;

use super::lies::{Lies, Noise, SIZE, START};
use crate::language::{Attachment, Memory};
use crate::tables::{MemoryTables, Tables};
use crate::trace::Walker;

/// Walks from each range.
const WALKS: u64 = 4;

/// Maximum number of frames.
const MAX_FRAMES: usize = 64;

/// Arena offset of the runtime's description, in bytes and as processes have it.
const DESCRIPTION: (u64, u32) = (4096, 64);

/// A frame, as [`Attached::function`](crate::language::Attached::function) gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TakenFrame {
    pub(super) address: u64,
    pub(super) check: u32,
    /// The function that called it and the position there, if its name depends on them.
    pub(super) caller: Option<(u64, u32)>,
}

/// Walks from the loops and the code of a runtime, through a stack of lies, and returns the frames
/// of its functions, each once.
pub(super) fn taken(attachment: &Attachment, loops: &[Range<u64>], lies: &Lies<'_>) -> Vec<TakenFrame> {
    let of_process = |range: &Range<u64>| range.start.wrapping_add(START)..range.end.wrapping_add(START);
    let loops: Vec<_> = loops.iter().map(of_process).collect();
    let code = attachment.code();
    let anonymous = (code.has_anonymous() || code.has_linked_areas()).then_some(START..START + SIZE);
    let code: Vec<_> = code.ranges().iter().cloned().chain(anonymous).collect();
    let Some((tables, process)) = publish(attachment, &loops, &code) else { return Vec::new() };
    let mut noise = Noise(lies.word(0));
    let mut frames = Vec::new();
    for range in loops.iter().chain(&code).filter(|range| !range.is_empty()) {
        for _ in 0..WALKS {
            let pc = range.start + noise.next() % (range.end - range.start);
            let registers = registers(pc, &mut noise, lies);
            let mut walker = Walker::default();
            let memory: &dyn Memory = lies;
            walker
                .walk::<X86_64>(&registers, &process, &tables, &mut |address: u64| memory.u64(address).ok());
            frames.extend(functions(walker.frames()));
        }
    }
    frames.sort_unstable_by_key(|frame: &TakenFrame| (frame.address, frame.check, frame.caller));
    frames.dedup();
    frames.truncate(MAX_FRAMES);
    frames
}

/// Returns registers at an instruction: a stack of lies, and words that lead somewhere.
fn registers(pc: u64, noise: &mut Noise, lies: &Lies<'_>) -> Registers {
    let mut registers = Registers { pc, thread: START + noise.next() % SIZE, ..Registers::default() };
    for value in &mut registers.values {
        *value = lies.word(noise.next());
    }
    let sp = (START + noise.next() % SIZE) & !7;
    registers.values[x86_64::SP] = sp;
    registers.values[x86_64::FP] = sp + 8 * (noise.next() % 16);
    registers.known = (1 << x86_64::COUNT) - 1;
    registers
}

/// Publishes a process with the runtime's description, its loops and its code.
fn publish(
    attachment: &Attachment,
    loops: &[Range<u64>],
    code: &[Range<u64>],
) -> Option<(MemoryTables, Process)> {
    let mapping = |range: &Range<u64>, kind| Mapping {
        start: range.start,
        end: range.end,
        kind,
        interpreter: 1,
        ..Mapping::default()
    };
    let mut mappings: Vec<Mapping> = loops.iter().map(|range| mapping(range, kind::BARE)).collect();
    mappings.extend(code.iter().map(|range| mapping(range, kind::RUNTIME)));
    mappings.sort_by_key(|mapping| mapping.start);
    let mut end = 0;
    mappings.retain(|mapping| {
        let is_behind = mapping.start >= end;
        end = end.max(mapping.end);
        is_behind
    });
    let mut tables = MemoryTables::default();
    tables.write(0, &mappings.iter().flat_map(bytes).collect::<Vec<u8>>()).ok()?;
    let walker = attachment.walker().with_ranges(loops.iter().cloned());
    tables.write(DESCRIPTION.0, &walker.abi().to_bytes()).ok()?;
    let (count, interpreters) = (mappings.len() as u32, DESCRIPTION.1);
    Some((tables, Process { mappings: 0, count, interpreters, ..Process::default() }))
}

/// Returns the bytes of a mapping as in the arena.
fn bytes(mapping: &Mapping) -> Vec<u8> {
    let Mapping { start, end, bias, table, kind, interpreter } = *mapping;
    let last = u64::from(table) | u64::from(kind) << 32 | u64::from(interpreter) << 48;
    [start, end, bias, last].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the functions of a runtime in the words of frames.
fn functions(words: &[u64]) -> impl Iterator<Item = TakenFrame> {
    let pairs = words.windows(2).enumerate();
    pairs.filter_map(|(index, pair)| {
        let [word, detail] = *pair else { return None };
        let (address, is_function) = (word & ADDRESS, word & INTERPRETED != 0 && detail & DETAIL != 0);
        let caller = match words.get(index + 2..index + 4) {
            Some(&[caller, of_caller]) if detail & NAMED_BY_CALLER != 0 && caller & INTERPRETED != 0 => {
                Some((caller & ADDRESS, of_caller as u32))
            }
            _ => None,
        };
        let check = (detail >> 32 & CHECK) as u32;
        (is_function && address != 0).then_some(TakenFrame { address, check, caller })
    })
}
