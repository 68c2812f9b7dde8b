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

/// Returns the major version of the JDK.
///
/// Java 8 is recognized by its single code heap: its virtual machine counts versions differently.
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
    let (blob, nmethod, method) = (&layout.blob, &layout.nmethod, &layout.method);
    let Parts { first, second, handlers, in_second } = Parts::new(layout)?;
    let flags = [
        (blob.is_relative, RELATIVE),
        (in_second, HANDLERS_IN_SECOND),
        (layout.version <= 8, BYTECODE_IN_SLOT_7),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
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
            handlers[0],
            handlers[1],
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

/// The two parts of compiled code's blob that the walker reads.
struct Parts {
    first: Part,
    second: Part,
    /// Offsets of the deoptimization handlers in their part.
    handlers: [u64; 2],
    /// The handlers are in the second part.
    in_second: bool,
}

impl Parts {
    /// Divides the fields; `None` if they are too far apart.
    fn new(layout: &Layout) -> Option<Parts> {
        let (blob, nmethod) = (&layout.blob, &layout.nmethod);
        let mut first = Part::new();
        first.add(blob.frame_size, 4)?;
        first.add(blob.frame_complete, 4)?;
        first.add(blob.code, 8)?;
        let mut second = Part::new();
        nmethod.deopt.iter().try_for_each(|deopt| second.add(deopt.orig_pc, 4))?;
        second.add(nmethod.compile_id, 4)?;
        let none = [NONE.into(); 2];
        let Some(deopt) = &nmethod.deopt else {
            return Some(Parts { first, second, handlers: none, in_second: false });
        };
        let handlers: Vec<u32> = iter::once(deopt.handler).chain(deopt.handler_mh).collect();
        let size = if blob.is_relative { 4 } else { 8 };
        let in_first = first.with_most(&handlers, size);
        let (part, count) = in_first.or_else(|| second.with_most(&handlers, size))?;
        let mut offsets = none;
        for (offset, &at) in offsets.iter_mut().zip(&handlers[..count]) {
            *offset = part.offset(at);
        }
        let in_second = in_first.is_none();
        *(if in_second { &mut second } else { &mut first }) = part;
        Some(Parts { first, second, handlers: offsets, in_second })
    }
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

    /// Returns the part extended by the first of some fields, as many as fit, and their number;
    /// `None` if none does.
    fn with_most(self, fields: &[u32], size: u32) -> Option<(Part, usize)> {
        let with = |count: usize| {
            let mut part = self;
            fields[..count].iter().try_for_each(|&at| part.add(at, size))?;
            Some((part, count))
        };
        (1..=fields.len()).rev().find_map(with)
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
