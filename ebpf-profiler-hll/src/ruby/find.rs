//! Recognizes files that hold Ruby.
//!
//! All builds export the C interface of extensions. The loop is exported up to 3.2; later ones are
//! found by their code: no other function has as many indirect jumps, one for each instruction of
//! the virtual machine.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf, Exports, Segment};
use ebpf_profiler_core::language::{Attachment, MAX_RANGES, Reason, Runtime, Target};

use super::attach::{self, RuntimeFacts};
use super::collection::Collection;
use super::offsets::Offsets;
use crate::accessor;
use crate::fde::Fdes;
use crate::split;

/// A file that holds Ruby.
#[derive(Debug)]
pub(super) struct File {
    loops: Vec<Range<u64>>,
    /// Facts needed to attach, or the reason why they are missing.
    facts: Result<RuntimeFacts, Reason>,
}

/// Returns the runtime in a file, `None` if it holds none.
pub(super) fn find(elf: &Elf) -> Option<File> {
    let exports = elf.exports()?;
    let version = exports.get("ruby_version")?.address;
    exports.get("rb_errinfo")?;
    let code = code(elf);
    let Some(main) = loop_range(elf, &code) else {
        // Built without computed jumps, or otherwise than any known build.
        return Some(File { loops: Vec::new(), facts: Err(Reason::Unsupported) });
    };
    let mut loops = split::parts(elf, main.clone());
    let mut callers = caller(elf, &code, main.start).map_or(Vec::new(), |range| split::parts(elf, range));
    callers.truncate(CALLERS.min(MAX_RANGES.saturating_sub(loops.len())));
    loops.extend_from_slice(&callers);
    let text = text(elf);
    Some(File { loops, facts: facts(elf, &exports, version, callers, text) })
}

fn facts(
    elf: &Elf,
    exports: &Exports<'_>,
    version: u64,
    callers: Vec<Range<u64>>,
    text: Range<u64>,
) -> Result<RuntimeFacts, Reason> {
    let offsets = version_text(elf, version).and_then(|text| Offsets::find(&text));
    let offsets = offsets.ok_or(Reason::Unsupported)?;
    let address = |name: &str| exports.get(name).map(|symbol| symbol.address);
    // Up to 2.7 the context in use is a global variable, and each thread has its own structure.
    let context = match offsets.thread_context {
        None => address("rb_errinfo").and_then(|at| accessor::dereferenced(elf, at)),
        Some(_) => address("ruby_native_thread_p").and_then(|at| accessor::returned(elf, at, &|_| false)),
    };
    let context = context.ok_or(Reason::Unsupported)?;
    let tables = address("rb_id2str").map(|at| accessor::loads(elf, at)).unwrap_or_default();
    let collection = address("rb_during_gc").and_then(|at| Collection::find(elf, at));
    Ok(RuntimeFacts { offsets, context, tables, callers, text, collection })
}

/// Reads a version such as `3.3.8`.
fn version_text(elf: &Elf, address: u64) -> Option<String> {
    let mut bytes = [0; 8];
    elf.read(address, &mut bytes).ok()?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// Minimum number of indirect jumps of the loop: it has 121 to 145 in gcc builds of 2.7 to 3.4,
/// other functions up to 55.
const MIN_JUMPS: usize = 80;

/// Upper bound of the size of the loop, in bytes: it has 17 to 27 kB.
const MAX_LOOP: u64 = 48 << 10;

/// Maximum number of ranges of the loop's caller.
const CALLERS: usize = 2;

/// Maximum number of bytes of code that are searched.
const MAX_CODE: u64 = 64 << 20;

/// Returns the range that covers all code of a file.
fn text(elf: &Elf) -> Range<u64> {
    let segments = || elf.segments().iter().filter(|segment| segment.is_code());
    let start = segments().map(|segment| segment.address).min().unwrap_or(0);
    let end = segments().map(|segment| segment.address.saturating_add(segment.file_size)).max();
    start..end.unwrap_or(0)
}

/// Reads the code of a file: its addresses and bytes.
fn code(elf: &Elf) -> Vec<(u64, Vec<u8>)> {
    let segments = elf.segments().iter().filter(|segment| segment.is_code());
    let bytes = |segment: &Segment| elf.bytes(segment.offset, segment.file_size.min(MAX_CODE)).ok();
    segments.filter_map(|segment| Some((segment.address, bytes(segment)?))).collect()
}

/// Returns the range of the loop's caller, `rb_vm_exec`: the function that calls the address.
fn caller(elf: &Elf, code: &[(u64, Vec<u8>)], callee: u64) -> Option<Range<u64>> {
    let fdes = Fdes::open(elf)?;
    let calls = |(start, code): &(u64, Vec<u8>)| accessor::calls(elf.arch(), code, *start, callee);
    let site = code.iter().flat_map(calls).next()?;
    fdes.at(site).map(|fde| fde.range)
}

/// Returns the range of the loop: the function with the most indirect jumps.
fn loop_range(elf: &Elf, code: &[(u64, Vec<u8>)]) -> Option<Range<u64>> {
    let fdes = Fdes::open(elf)?;
    let mut jumps = Vec::new();
    for (start, code) in code {
        jumps.extend(indirect_jumps(elf.arch(), code).map(|at| start.wrapping_add(at)));
    }
    jumps.sort_unstable();
    let count = |range: &Range<u64>| {
        jumps.partition_point(|&at| at < range.end) - jumps.partition_point(|&at| at < range.start)
    };
    let start = jumps.iter().max_by_key(|&&at| count(&(at..at.saturating_add(MAX_LOOP / 2))))?;
    // The functions around the densest part: their number is small.
    let mut best: Option<(usize, Range<u64>)> = None;
    let mut next = *start;
    while next < start.saturating_add(MAX_LOOP / 2) {
        let Some(index) = jumps.get(jumps.partition_point(|&at| at < next)) else { break };
        let Some(fde) = fdes.at(*index) else {
            next = index.saturating_add(1);
            continue;
        };
        next = fde.range.end.max(index.saturating_add(1));
        let jumps = count(&fde.range);
        if best.as_ref().is_none_or(|(most, _)| jumps > *most) {
            best = Some((jumps, fde.range));
        }
    }
    best.filter(|(jumps, _)| *jumps >= MIN_JUMPS).map(|(_, range)| range)
}

/// Returns the distances of what looks like indirect jumps through a register, or through the word
/// at one.
fn indirect_jumps(arch: Arch, code: &[u8]) -> Box<dyn Iterator<Item = u64> + '_> {
    match arch {
        Arch::X86_64 => {
            // Through a register; through the word at a register, with a distance or not.
            let is_jump = |code: &[u8]| match code {
                [0xff, 0x20..=0x23 | 0x26 | 0x27 | 0xe0..=0xe7, ..] | [0xff, 0x24, 0x24, _] => true,
                [0xff, 0x60..=0x63 | 0x65, distance, _] | [0xff, 0x64, 0x24, distance] => {
                    distance.is_multiple_of(8) && *distance < 0x80
                }
                _ => false,
            };
            let windows = code.windows(4).enumerate();
            Box::new(windows.filter(move |(_, code)| is_jump(code)).map(|(at, _)| at as u64))
        }
        _ => {
            let words = code.as_chunks::<4>().0.iter().enumerate();
            let jumps = words.filter(|(_, word)| u32::from_le_bytes(**word) & 0xffff_fc1f == 0xd61f_0000);
            Box::new(jumps.map(|(index, _)| 4 * index as u64))
        }
    }
}

impl Runtime for File {
    fn loops(&self) -> &[Range<u64>] {
        &self.loops
    }

    fn attach(&self, target: &Target<'_>) -> Result<Attachment, Reason> {
        let facts = self.facts.as_ref().map_err(|reason| *reason)?;
        attach::attach(facts, target)
    }
}
