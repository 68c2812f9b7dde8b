//! Attaches to a process that runs BEAM.

use ebpf_profiler_core::language::{Attachment, CodeRanges, FramePath, FrameWalker, Memory, Reason, Target};
use ebpf_programs::abi::beam::{MAX_COUNT, parameter};
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::walk::arch::{Arch, CallInstruction, X86_64};
use ebpf_programs::walk::identity::beam::modules;

use super::atom::Atoms;
use super::find::Facts;
use super::main_code::MainCode;
use super::modules::{Modules, array, functions_offset, tables, words};
use super::name::Names;
use crate::accessor::{Location, Origin};
use crate::thread_local;
use ebpf_profiler_core::language::Words;

/// Alignment of the data and of the registers of a scheduler.
const ALIGNMENT: u64 = 64;

/// Offset of the registers in a scheduler's data, a pointer.
const REGISTERS: u64 = 0;

/// Maximum number of pointers that are followed to find a scheduler's data.
const MAX_CANDIDATES: usize = 4096;

/// Distances from the end of `process_main`'s frame to its return address: the frame is aligned to
/// 64 bytes, and that of the caller to 16.
const ROOTS: [u64; 4] = [8, 24, 40, 56];

pub(super) fn attach(facts: &Facts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let memory = target.memory();
    let start = target.address(facts.data.start);
    let data = array(start, (facts.data.end - facts.data.start) / 8, u64::MAX, memory)?;
    let tables = tables(&data, start, memory).ok_or(Reason::NotReady)?;
    let atoms = Atoms::new(target.address(facts.atoms), memory)?;
    let ranges = first_ranges(tables, memory)?;
    let main = MainCode::find(&ranges, memory)?;
    let functions = functions_offset(&ranges, memory)?;
    let modules = Modules { tables, active: main.active, functions };
    // The active table, by the index that the code of `process_main` reads.
    self::modules(&mut Words::new(memory), tables, main.active).ok_or(Reason::Implausible)?;
    let registers = registers(&data, facts, memory).ok_or(Reason::NotReady)?;
    let root = root(registers, &main, memory)?;
    let normal_exit = match facts.normal_exit {
        Some(pointer) => target.word(pointer)?,
        None => 0,
    };
    let mut parameters = [0; parameter::COUNT];
    parameters[parameter::RANGES] = tables;
    parameters[parameter::ACTIVE] = main.active;
    parameters[parameter::FUNCTIONS] = functions;
    parameters[parameter::STOP] = main.stop;
    parameters[parameter::CURRENT] = facts.kind - 8;
    parameters[parameter::REGISTERS] = main.registers;
    parameters[parameter::ROOT] = root;
    parameters[parameter::MAIN] = main.start;
    parameters[parameter::MAIN_END] = main.end;
    parameters[parameter::NORMAL_EXIT] = normal_exit;
    let origin = Origin::Key { number: Location::at(facts.key), created: None };
    let path = FramePath::from_thread_pointer(&thread_local::path(origin, target)?);
    let walker = FrameWalker::with_parameters(walker::BEAM, Some(path), &parameters)
        .map_err(|_| Reason::Unsupported)?;
    let names = Names { modules, atoms, shared: main.shared };
    let code = CodeRanges::new([]).with_anonymous().with_shared_memory();
    Ok(Attachment::new(walker, names).with_code(code))
}

/// Returns start and end of the modules in the first table.
fn first_ranges(tables: u64, memory: &dyn Memory) -> Result<Vec<(u64, u64)>, Reason> {
    let [modules, count] = words(tables, memory)?;
    let words = array(modules, count.saturating_mul(2), MAX_COUNT, memory)?;
    Ok(words.as_chunks().0.iter().map(|&[start, end]| (start, end)).filter(|it| it.0 < it.1).collect())
}

/// Returns the address of the registers of the first scheduler, whose data a pointer of the file
/// leads to: `{registers, …, current process, kind 0, number 1, number among dirty ones 0}`.
fn registers(data: &[u64], facts: &Facts, memory: &dyn Memory) -> Option<u64> {
    let is_aligned = |word: &&u64| word.is_multiple_of(ALIGNMENT) && **word != 0 && **word >> 47 == 0;
    data.iter().filter(is_aligned).take(MAX_CANDIDATES).find_map(|&scheduler| {
        let [current, kind, number, dirty] = words(scheduler.wrapping_add(facts.kind - 8), memory).ok()?;
        let is_first = kind as u32 == 0 && number == 1 && dirty == 0;
        // An internal process identifier.
        let is_process = current == 0 || memory.u64(current).is_ok_and(|id| id & 15 == 3);
        if !is_first || !is_process {
            return None;
        }
        let registers = memory.u64(scheduler.wrapping_add(REGISTERS)).ok()?;
        (registers != 0 && registers % ALIGNMENT == 0 && memory.u64(registers).is_ok()).then_some(registers)
    })
}

/// Returns the distance from a scheduler's registers to the return address of `process_main`.
///
/// Calls that it made before it built its frame have left their return addresses there, too. The
/// function in C that the right one belongs to jumps to the generated code.
fn root(registers: u64, main: &MainCode, memory: &dyn Memory) -> Result<u64, Reason> {
    let (mut callers, mut jumping) = (Vec::new(), Vec::new());
    for root in ROOTS.map(|distance| main.frame + distance) {
        let Ok(word) = memory.u64(registers.wrapping_add(root)) else { continue };
        match X86_64::call_before(&mut Words::new(memory), word) {
            CallInstruction::None => continue,
            CallInstruction::Direct(callee) if ends_with_jump(callee, memory) => jumping.push(root),
            _ => {}
        }
        callers.push(root);
    }
    match (jumping.as_slice(), callers.as_slice()) {
        ([root], _) | ([], [root]) => Ok(*root),
        ([], []) => Err(Reason::NotReady),
        _ => Err(Reason::Implausible),
    }
}

/// Returns `true` if a function jumps to an address that it computes, `jmp rax`, in its first 64
/// bytes.
fn ends_with_jump(function: u64, memory: &dyn Memory) -> bool {
    let code: Result<[u8; 64], _> = memory.array(function);
    code.is_ok_and(|code| code.windows(2).any(|bytes| bytes == [0xff, 0xe0]))
}
