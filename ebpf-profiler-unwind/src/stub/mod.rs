//! Code without unwind data that is recognized by its instructions: entries of programs and threads, and the return from
//! signal handlers.
//!
//! C libraries other than glibc usually have no unwind data, and a walk through most of their functions has to guess. Without
//! these stubs it continues wrongly or stops one frame short.
//!
//! | stub | recognized by | rule |
//! | --- | --- | --- |
//! | entry | the file header's entry, up to its call of the first C function | outermost frame |
//! | first function of a thread | a call followed by the system call `exit`, as in musl's `clone` | outermost frame |
//! | base of a [coroutine] | its address, its name, or its instructions | outermost frame of a coroutine |
//! | signal return | the system call `rt_sigreturn`, with its number loaded just before | all registers in the signal frame |

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, EXECUTABLE, Elf};
use ebpf_programs::abi::table::{Rule, cfa};

use crate::table::rules::Packed;

mod aarch64;

mod coroutine;

mod x86_64;

/// A range of code with one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub(crate) range: Range<u64>,
    pub(crate) rule: Packed,
}

/// The stubs of an instruction set.
struct Recognizer {
    /// Finds the first system call of a stub, with the instructions before it that belong to it.
    system_call: fn(&[u8]) -> Option<Found>,
    /// The rule of the signal frame.
    context: Rule,
    /// Returns the size of the code of an entry.
    entry: fn(&[u8]) -> usize,
    /// Finds the code to which the first function of a coroutine returns, with the instructions before it.
    coroutine: fn(&[u8]) -> Option<Range<usize>>,
}

/// A range of code and its kind.
type Found = (Range<usize>, Kind);

/// The kind of a stub with a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Return from a signal handler.
    SignalReturn,
    /// End of a thread, behind the call of its first function.
    ThreadEnd,
}

impl Recognizer {
    fn of(arch: Arch) -> Option<&'static Recognizer> {
        match arch {
            Arch::X86_64 => Some(&x86_64::RECOGNIZER),
            Arch::Aarch64 => Some(&aarch64::RECOGNIZER),
            _ => None,
        }
    }
}

/// Searches for stubs in code without unwind data.
pub(crate) struct Stubs<'a> {
    elf: &'a Elf,
    /// The entry in the file's header.
    entry: u64,
    /// `true` if the file names no dynamic linker: only then its signal handlers may return to its own code, else they return to
    /// the C library. Searching all of chromium would take twenty times as long as building its table.
    is_alone: bool,
    /// The executable sections, sorted: many files have constants in the same segment as code.
    sections: Vec<Range<u64>>,
    /// Functions at the base of a coroutine's stack, sorted.
    coroutines: Vec<u64>,
    /// Number of bytes that may still be searched.
    budget: u64,
    /// Of those, for the bases of coroutines.
    coroutine_budget: u64,
}

/// Type of the segment that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// Maximum number of bytes to search. In most files such code is padding; few files without any unwind data have more code.
const BUDGET: u64 = 64 << 20;

/// Minimum size of a gap to search. Smaller ones are padding, and reading each would take longer than the rest of the build.
/// A library without unwind data leaves a large gap.
const MIN_GAP_SIZE: u64 = 64;

/// Maximum size of a gap that is searched for the base of coroutines: it is in a file of its own, written in assembler. And the
/// maximum number of bytes of all such gaps.
const MAX_ASSEMBLER: u64 = 4 << 10;
const COROUTINE_BUDGET: u64 = 1 << 20;

/// Bytes per read. Pieces overlap by the longest system call.
const PIECE: u64 = 64 << 10;
const OVERLAP: u64 = 16;

/// Maximum size of an entry, in bytes.
const ENTRY: u64 = 128;

impl<'a> Stubs<'a> {
    pub(crate) fn new(elf: &'a Elf) -> Stubs<'a> {
        let code = elf.sections().iter().filter(|section| section.flags & EXECUTABLE != 0);
        let mut sections: Vec<Range<u64>> =
            code.map(|section| section.address..section.address.saturating_add(section.size)).collect();
        sections.sort_by_key(|section| section.start);
        // Merges overlapping sections: each section and each gap is searched once.
        sections.dedup_by(|next, section| {
            let joined = next.start <= section.end;
            if joined {
                section.end = section.end.max(next.end);
            }
            joined
        });
        let is_alone = elf.segments().iter().all(|segment| segment.kind != INTERPRETER);
        Stubs {
            elf,
            entry: elf.entry(),
            is_alone,
            sections,
            coroutines: coroutine::functions(elf),
            budget: BUDGET,
            coroutine_budget: COROUTINE_BUDGET,
        }
    }

    /// Returns `true` if a gap is large enough to search, or contains the file's entry.
    #[inline]
    pub(crate) fn may_be_in(&self, gap: &Range<u64>) -> bool {
        self.may_have_system_calls(gap)
            || gap.contains(&self.entry)
            || self.may_have_coroutine(gap)
            || !self.coroutines.is_empty() && self.starts(gap).next().is_some()
    }

    /// Returns `true` if the function at `address` is the base of a coroutine's stack.
    #[inline]
    pub(crate) fn is_coroutine(&self, address: u64) -> bool {
        !self.coroutines.is_empty() && self.coroutines.binary_search(&address).is_ok()
    }

    /// Returns the parts of a gap in executable sections, in order; all of it if the file has none.
    pub(crate) fn executable(&self, gap: &Range<u64>) -> Vec<Range<u64>> {
        if self.sections.is_empty() {
            return vec![gap.clone()];
        }
        let from = self.sections.partition_point(|section| section.end <= gap.start);
        let sections = self.sections[from..].iter().take_while(|section| section.start < gap.end);
        sections.map(|section| section.start.max(gap.start)..section.end.min(gap.end)).collect()
    }

    #[inline]
    fn may_have_coroutine(&self, gap: &Range<u64>) -> bool {
        let size = gap.end.saturating_sub(gap.start);
        (MIN_GAP_SIZE..=MAX_ASSEMBLER).contains(&size) && size <= self.coroutine_budget
    }

    /// Returns the functions at the base of a coroutine's stack that begin behind a byte of a gap. Their callers' rows are those of
    /// the byte before them, because coroutines return to their first instruction.
    fn starts(&self, gap: &Range<u64>) -> impl Iterator<Item = u64> + use<'_> {
        let Range { start, end } = *gap;
        self.coroutines.iter().copied().filter(move |&at| start < at && at <= end)
    }

    #[inline]
    fn may_have_system_calls(&self, gap: &Range<u64>) -> bool {
        self.is_alone && gap.end.saturating_sub(gap.start) >= MIN_GAP_SIZE
    }

    /// Returns the stubs in a gap, in order, without overlap.
    #[cold]
    pub(crate) fn find(&mut self, gap: Range<u64>) -> Vec<Stub> {
        let Some(recognizer) = Recognizer::of(self.elf.arch()) else { return Vec::new() };
        let starts = |at: u64| Stub { range: at - 1..at, rule: Packed::COROUTINE };
        let mut stubs: Vec<Stub> = self.starts(&gap).map(starts).collect();
        if self.sections.is_empty() {
            stubs.extend(self.find_in(recognizer, &gap));
            return ordered(stubs);
        }
        let from = self.sections.partition_point(|section| section.end <= gap.start);
        for number in from..self.sections.len() {
            let section = &self.sections[number];
            let part = section.start.max(gap.start)..section.end.min(gap.end);
            if section.start >= gap.end {
                break;
            }
            stubs.extend(self.find_in(recognizer, &part));
        }
        ordered(stubs)
    }

    fn find_in(&mut self, recognizer: &Recognizer, gap: &Range<u64>) -> Vec<Stub> {
        let size = gap.end.saturating_sub(gap.start);
        if !self.may_be_in(gap) || size > self.budget {
            return Vec::new();
        }
        self.budget -= size;
        let mut stubs = Vec::from_iter(self.entry(recognizer, gap));
        if self.may_have_coroutine(gap) {
            self.coroutine_budget -= size;
            stubs.extend(self.coroutine(recognizer, gap));
        }
        if self.may_have_system_calls(gap) {
            self.system_calls(recognizer, gap, &mut stubs);
        }
        ordered(stubs)
    }

    fn entry(&self, recognizer: &Recognizer, gap: &Range<u64>) -> Option<Stub> {
        let begin = Some(self.entry).filter(|entry| gap.contains(entry))?;
        let code = self.code(begin..gap.end.min(begin + ENTRY))?;
        let end = begin + (recognizer.entry)(&code) as u64;
        (end > begin).then_some(Stub { range: begin..end, rule: Packed::END })
    }

    fn coroutine(&self, recognizer: &Recognizer, gap: &Range<u64>) -> Option<Stub> {
        let found = (recognizer.coroutine)(&self.code(gap.clone())?)?;
        let range = gap.start + found.start as u64..gap.start + found.end as u64;
        Some(Stub { range, rule: Packed::COROUTINE })
    }

    fn system_calls(&self, recognizer: &Recognizer, gap: &Range<u64>, stubs: &mut Vec<Stub>) {
        let mut at = gap.start;
        while at < gap.end {
            let end = gap.end.min(at + PIECE + OVERLAP);
            let Some(code) = self.code(at..end) else { return };
            let mut from = 0;
            while let Some((found, kind)) = code.get(from..).and_then(recognizer.system_call) {
                let range = at + (from + found.start) as u64..at + (from + found.end) as u64;
                stubs.push(match kind {
                    Kind::ThreadEnd => Stub { range, rule: Packed::END },
                    Kind::SignalReturn => signal_return(recognizer, range, gap),
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

/// Extends the range by the byte before it: a handler returns to the first instruction, and callers are looked up there. And by the one
/// behind it, where a thread is while it executes the system call.
fn signal_return(recognizer: &Recognizer, range: Range<u64>, gap: &Range<u64>) -> Stub {
    let (before, behind) = (u64::from(range.start > gap.start), u64::from(range.end < gap.end));
    Stub { range: range.start - before..range.end + behind, rule: Packed::of(&recognizer.context) }
}

/// Sorts stubs by address. Of overlapping ones the first is used.
fn ordered(mut stubs: Vec<Stub>) -> Vec<Stub> {
    stubs.sort_by_key(|stub| stub.range.start);
    stubs.dedup_by(|next, stub| next.range.start < stub.range.end);
    stubs
}

/// Returns the rule of a signal frame at this distance from a register.
const fn signal(register: u8, offset: i32) -> Rule {
    Rule { cfa: cfa::SIGNAL, register, offset, ..Rule::CANNOT }
}
