//! Code that nothing describes and that is known by what it is: where programs and threads begin, where signal handlers
//! return to.
//!
//! C libraries other than glibc come without unwind data in general. A walk through most of their functions has to
//! guess; these few can be told by their instructions, and without them a walk goes astray or stops one frame short.
//!
//! | stub | is | rule |
//! | --- | --- | --- |
//! | entry | what the file's header names, up to its call of the first C function | the outermost frame |
//! | first function of a thread | a call, and then the system call `exit`, as in musl's `clone` | the outermost frame |
//! | signal return | the system call `rt_sigreturn`, its number put into the register just before | all registers in the signal frame |

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, EXECUTABLE, Elf};
use ebpf_programs::abi::table::{Rule, cfa};

use crate::table::rules::Packed;

mod aarch64;

mod x86_64;

/// A piece of code and what holds in all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub(crate) range: Range<u64>,
    pub(crate) rule: Packed,
}

/// How an instruction set's stubs look.
struct Look {
    /// Where the first system call is that tells what the code is, with the instructions before it that belong to it.
    system_call: fn(&[u8]) -> Option<Found>,
    /// Where the signal frame is then.
    context: Rule,
    /// How far the code of an entry reaches.
    entry: fn(&[u8]) -> usize,
}

/// Bytes of code, and what they are.
type Found = (Range<usize>, Known);

/// What code is by its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It goes back to what a signal interrupted.
    SignalReturn,
    /// It called the first function of a thread.
    ThreadEnd,
}

impl Look {
    fn of(arch: Arch) -> Option<&'static Look> {
        match arch {
            Arch::X86_64 => Some(&x86_64::LOOK),
            Arch::Aarch64 => Some(&aarch64::LOOK),
            _ => None,
        }
    }
}

/// Looks for stubs in code that nothing describes.
pub(crate) struct Stubs<'a> {
    elf: &'a Elf,
    /// Where the file's header says that it begins.
    entry: u64,
    /// Whether it names no dynamic linker: then its signal handlers may return to code of its own. Those of other
    /// programs return to the C library, and to search all of chromium would take twenty times as long as its table.
    is_alone: bool,
    /// The executable sections by their addresses: many a file has its constants in a segment with its code.
    sections: Vec<Range<u64>>,
    /// How many bytes may still be looked at.
    budget: u64,
}

/// The segment that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// What isn't described is padding in most files; of those that describe nothing few have more code than this.
const BUDGET: u64 = 64 << 20;

/// Smaller gaps are padding: reading each of them would take longer than all the rest of building a table. A library
/// without unwind data leaves a large one.
const LEAST: u64 = 64;

/// Bytes that are looked at in one go; pieces overlap by the longest of those system calls.
const PIECE: u64 = 64 << 10;
const OVERLAP: u64 = 16;

/// Bytes of an entry at most.
const ENTRY: u64 = 128;

impl<'a> Stubs<'a> {
    pub(crate) fn new(elf: &'a Elf) -> Stubs<'a> {
        let code = elf.sections().iter().filter(|section| section.flags & EXECUTABLE != 0);
        let mut sections: Vec<Range<u64>> =
            code.map(|section| section.address..section.address.saturating_add(section.size)).collect();
        sections.sort_by_key(|section| section.start);
        // What overlaps counts once: each section is looked at in turn, and so is each gap.
        sections.dedup_by(|next, section| {
            let joined = next.start <= section.end;
            if joined {
                section.end = section.end.max(next.end);
            }
            joined
        });
        let is_alone = elf.segments().iter().all(|segment| segment.kind != INTERPRETER);
        Stubs { elf, entry: elf.entry(), is_alone, sections, budget: BUDGET }
    }

    /// Whether a gap is large enough to be looked at, or the file's header names a place in it.
    #[inline]
    pub(crate) fn may_be_in(&self, gap: &Range<u64>) -> bool {
        self.may_have_system_calls(gap) || gap.contains(&self.entry)
    }

    #[inline]
    fn may_have_system_calls(&self, gap: &Range<u64>) -> bool {
        self.is_alone && gap.end.saturating_sub(gap.start) >= LEAST
    }

    /// The stubs in a gap, in order, without overlap.
    #[cold]
    pub(crate) fn find(&mut self, gap: Range<u64>) -> Vec<Stub> {
        let Some(look) = Look::of(self.elf.arch()) else { return Vec::new() };
        if self.sections.is_empty() {
            return self.find_in(look, &gap);
        }
        let mut stubs = Vec::new();
        let from = self.sections.partition_point(|section| section.end <= gap.start);
        for number in from..self.sections.len() {
            let section = &self.sections[number];
            let part = section.start.max(gap.start)..section.end.min(gap.end);
            if section.start >= gap.end {
                break;
            }
            stubs.extend(self.find_in(look, &part));
        }
        ordered(stubs)
    }

    fn find_in(&mut self, look: &Look, gap: &Range<u64>) -> Vec<Stub> {
        let size = gap.end.saturating_sub(gap.start);
        if !self.may_be_in(gap) || size > self.budget {
            return Vec::new();
        }
        self.budget -= size;
        let mut stubs = Vec::from_iter(self.entry(look, gap));
        if self.may_have_system_calls(gap) {
            self.system_calls(look, gap, &mut stubs);
        }
        ordered(stubs)
    }

    fn entry(&self, look: &Look, gap: &Range<u64>) -> Option<Stub> {
        let begin = Some(self.entry).filter(|entry| gap.contains(entry))?;
        let code = self.code(begin..gap.end.min(begin + ENTRY))?;
        let end = begin + (look.entry)(&code) as u64;
        (end > begin).then_some(Stub { range: begin..end, rule: Packed::END })
    }

    fn system_calls(&self, look: &Look, gap: &Range<u64>, stubs: &mut Vec<Stub>) {
        let mut at = gap.start;
        while at < gap.end {
            let end = gap.end.min(at + PIECE + OVERLAP);
            let Some(code) = self.code(at..end) else { return };
            let mut from = 0;
            while let Some((found, known)) = code.get(from..).and_then(look.system_call) {
                let range = at + (from + found.start) as u64..at + (from + found.end) as u64;
                stubs.push(match known {
                    Known::ThreadEnd => Stub { range, rule: Packed::END },
                    Known::SignalReturn => signal_return(look, range, gap.start),
                });
                from += found.end;
            }
            at += PIECE;
        }
    }

    fn code(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let mut code = vec![0; usize::try_from(range.end - range.start).ok()?];
        self.elf.read(range.start, &mut code).ok()?;
        Some(code)
    }
}

/// The kernel enters it at its first instruction, and whoever looks for a caller looks in front of the return address.
fn signal_return(look: &Look, range: Range<u64>, least: u64) -> Stub {
    let before = u64::from(range.start > least);
    Stub { range: range.start - before..range.end, rule: Packed::of(&look.context) }
}

/// Stubs by their addresses; of such as overlap the first holds.
fn ordered(mut stubs: Vec<Stub>) -> Vec<Stub> {
    stubs.sort_by_key(|stub| stub.range.start);
    stubs.dedup_by(|next, stub| next.range.start < stub.range.end);
    stubs
}

/// All registers are in the signal frame at a distance from this one.
const fn signal(register: u8, offset: i32) -> Rule {
    Rule { cfa: cfa::SIGNAL, register, offset, ..Rule::CANNOT }
}
