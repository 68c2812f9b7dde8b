//! Attaches to a process that runs HotSpot.

use std::iter;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::{Attachment, CodeRanges, FrameWalker, Memory, Reason, Target};
use ebpf_programs::abi::hotspot::flag::{BYTECODE_IN_SLOT_7, HANDLERS_IN_SECOND, RELATIVE};
use ebpf_programs::abi::hotspot::{HEAPS, NONE, parameter};
use ebpf_programs::abi::interpreter::walker;

use super::find::File;
use super::heap::CodeMemory;
use super::layout::{self, Layout};
use super::name::Names;
use super::stub::Stubs;
use super::tables::Tables;

/// Maximum number of bytes of a part of a blob that the kernel side reads at once.
const PART: u32 = 128;

pub(super) fn attach(file: &File, target: &Target<'_>) -> Result<Attachment, Reason> {
    if file.arch != Arch::X86_64 {
        return Err(Reason::Unsupported);
    }
    let memory = target.memory();
    let tables = Tables::read(&file.tables, target, layout::is_needed)?;
    let version = version(&tables, memory)?;
    let layout = Layout::of(&tables, version)?;
    let code = CodeMemory::read(&tables, &layout, memory)?;
    let virtual_threads = file.hidden.virtual_threads.parameters(&tables, target)?;
    let parameters = parameters(&layout, &code, virtual_threads).ok_or(Reason::Unsupported)?;
    let walker =
        FrameWalker::with_parameters(walker::HOTSPOT, None, &parameters).map_err(|_| Reason::Unsupported)?;
    let ranges = code.heaps.iter().map(|heap| heap.low..heap.high);
    let ranges = CodeRanges::new(ranges);
    let stubs = Stubs::new(file.hidden.stubs.map_or(0, |list| target.address(list)));
    Ok(Attachment::new(walker, Names::new(layout, code, stubs)).with_code(ranges))
}

/// Returns the major version of the JDK. HotSpot of Java 8, which has one code heap, has a number of its own.
fn version(tables: &Tables, memory: &dyn Memory) -> Result<i32, Reason> {
    if tables.address("CodeCache", "_heaps").is_some() {
        let at = tables.address("Abstract_VM_Version", "_vm_major_version").ok_or(Reason::Unsupported)?;
        return Ok(memory.u32(at)? as i32);
    }
    let current = tables.address("JDK_Version", "_current").ok_or(Reason::Unsupported)?;
    let major = tables.offset("JDK_Version", "_major").ok_or(Reason::Unsupported)?;
    match memory.array(current.wrapping_add(major.into()))? {
        [0] => Err(Reason::NotReady),
        [version] => Ok(version.into()),
    }
}

/// Returns the parameters of the kernel side's walker; `None` if fields are too far apart.
fn parameters(layout: &Layout, code: &CodeMemory, virtual_threads: [u64; 6]) -> Option<Vec<u64>> {
    let (blob, nmethod) = (&layout.blob, &layout.nmethod);
    let deopt = nmethod.deopt.as_slice();
    let handlers: Vec<u32> =
        deopt.iter().flat_map(|deopt| iter::once(deopt.handler).chain(deopt.handler_mh)).collect();
    let handler_size = if blob.is_relative { 4 } else { 8 };
    let mut first = Part::new();
    first.add(blob.frame_size, 4)?;
    first.add(blob.frame_complete, 4)?;
    first.add(blob.code, 8)?;
    let mut second = Part::new();
    deopt.iter().try_for_each(|deopt| second.add(deopt.orig_pc, 4))?;
    second.add(nmethod.compile_id, 4)?;
    // The second handler is rarely used, and left out where it doesn't fit.
    let with_handlers = |part: Part, count: usize| {
        let mut part = part;
        handlers[..count].iter().try_for_each(|&at| part.add(at, handler_size))?;
        Some((part, count))
    };
    let fitting = |part: Part| (1..=handlers.len()).rev().find_map(|count| with_handlers(part, count));
    let (count, in_second) = match (fitting(first), fitting(second)) {
        (Some((part, count)), _) => {
            first = part;
            (count, false)
        }
        (None, Some((part, count))) => {
            second = part;
            (count, true)
        }
        (None, None) if handlers.is_empty() => (0, false),
        (None, None) => return None,
    };
    let of_handlers = if in_second { &second } else { &first };
    let handler = |index: usize| match handlers[..count].get(index) {
        Some(&at) => of_handlers.offset(at),
        None => NONE.into(),
    };
    let flags = [
        (blob.is_relative, RELATIVE),
        (in_second, HANDLERS_IN_SECOND),
        (layout.version <= 8, BYTECODE_IN_SLOT_7),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
    let method = &layout.method;
    let mut parameters = vec![
        code.interpreter[0],
        code.interpreter[1],
        code.call_stub,
        u64::from(layout.heap.header)
            | u64::from(code.log2_segment) << 8
            | flags << 16
            | u64::from(method.bytecode) << 32
            | u64::from(method.const_method) << 48,
        fields([first.start.into(), first.size(), second.start.into(), second.size()]),
        fields([
            first.offset(blob.frame_size),
            first.offset(blob.code),
            first.offset(blob.frame_complete),
            0,
        ]),
        fields([
            handler(0),
            handler(1),
            nmethod.deopt.map_or(NONE.into(), |deopt| second.offset(deopt.orig_pc)),
            second.offset(nmethod.compile_id),
        ]),
    ];
    parameters.extend(virtual_threads);
    for heap in code.heaps.iter().take(HEAPS) {
        parameters.extend([heap.low, heap.high, heap.segments]);
    }
    parameters.resize(parameter::IDENTITY, 0);
    parameters.extend(method.identity().pack());
    Some(parameters)
}

/// Packs four numbers of 16 bits.
fn fields(numbers: [u64; 4]) -> u64 {
    numbers.iter().rev().fold(0, |word, number| word << 16 | number & 0xffff)
}

/// A part of a blob that is read at once: whole words of eight bytes.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u32,
    end: u32,
}

impl Part {
    fn new() -> Part {
        Part { start: u32::MAX, end: 0 }
    }

    /// Extends the part by a field; `None` if it becomes too large.
    fn add(&mut self, at: u32, size: u32) -> Option<()> {
        let start = self.start.min(at & !7);
        let end = self.end.max(at.checked_add(size)?.next_multiple_of(8));
        *self = Part { start, end };
        (end - start <= PART).then_some(())
    }

    fn size(&self) -> u64 {
        u64::from(self.end - self.start)
    }

    /// Returns the offset of a field in the part.
    fn offset(&self, at: u32) -> u64 {
        u64::from(at - self.start)
    }
}

#[test]
fn extends_parts_by_whole_words() {
    let mut part = Part::new();
    assert_eq!(part.add(28, 4), Some(()));
    assert_eq!(part.add(136, 8), Some(()));
    assert_eq!((part.start, part.size(), part.offset(28)), (24, 120, 4));
    assert_eq!(part.add(0, 8), None);
}
