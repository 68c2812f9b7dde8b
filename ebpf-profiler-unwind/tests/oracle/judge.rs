//! Compares a table with gimli's rows, instruction by instruction.

use std::ops::Range;

use ebpf_profiler_core::elf::{Arch, Elf};
use ebpf_profiler_unwind::{Row, Rule, Table};
use ebpf_programs::abi::table::{self, cfa, ra};
use gimli::{
    BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection, Vendor,
};

use super::machine::{Bytes, Context, Frame, Said, kept_by, ours};
use super::sections::{self, Fde, functions};

/// Result of the comparison for one or more files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Files that have unwind data.
    pub(crate) files: u64,
    /// gimli's rows.
    pub(crate) rows: u64,
    /// Rows that mean something else in the table.
    pub(crate) unequal: u64,
    /// Rows that the table can't say, or not wholly.
    pub(crate) unsaid: u64,
    /// Bytes of all tables, but for their rules.
    pub(crate) bytes: u64,
    pub(crate) table_rows: u64,
    /// Bytes a row, but for rules, of the table that takes most of those that have more than a few.
    pub(crate) most_bytes: f64,
    /// The first few unequal rows.
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: Verdict) {
        self.files += other.files;
        self.rows += other.rows;
        self.unequal += other.unequal;
        self.unsaid += other.unsaid;
        self.bytes += other.bytes;
        self.table_rows += other.table_rows;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.examples.extend(other.examples);
        self.examples.truncate(20);
    }
}

/// Compares the table of a file's `.eh_frame` with what gimli makes of it.
pub(crate) fn eh_frame(elf: &Elf, table: &Table) -> Verdict {
    let Some(section) = elf.section(".eh_frame") else { return Verdict::default() };
    let Ok(data) = elf.data(section) else { return Verdict::default() };
    let mut frames = EhFrame::new(&data, LittleEndian);
    frames.set_address_size(8);
    frames.set_vendor(vendor(elf));
    let bases = BaseAddresses::default().set_eh_frame(section.address);
    // Other sources may fill the gaps.
    let alone = elf.section(".debug_frame").is_none() && !is_go(elf);
    judge(&frames, &data, &bases, elf, Judge::new(table, elf.arch(), Compare { gaps: alone, is_go: false }))
}

/// Compares the table with `.debug_frame`.
///
/// Go's linker derives its own from the same numbers as the table that we read, in a way of its
/// own; it says nothing about frame pointers.
pub(crate) fn debug_frame(elf: &Elf, table: &Table) -> Verdict {
    let Some(data) = sections::debug_frame(elf) else { return Verdict::default() };
    let mut frames = DebugFrame::new(&data, LittleEndian);
    frames.set_address_size(8);
    frames.set_vendor(vendor(elf));
    let how = Compare { gaps: false, is_go: is_go(elf) };
    judge(&frames, &data, &BaseAddresses::default(), elf, Judge::new(table, elf.arch(), how))
}

fn is_go(elf: &Elf) -> bool {
    elf.sections().iter().any(|section| section.name.ends_with(".gopclntab"))
}

fn vendor(elf: &Elf) -> Vendor {
    if elf.arch() == Arch::Aarch64 { Vendor::AArch64 } else { Vendor::Default }
}

/// Compares a table with what gimli makes of a section.
fn judge<'a, S>(section: &S, data: &'a [u8], bases: &BaseAddresses, elf: &Elf, mut judge: Judge) -> Verdict
where
    S: UnwindSection<Bytes<'a>>,
    S::Offset: std::hash::Hash + Eq,
{
    let functions = functions(section, bases, elf);
    let mut context = UnwindContext::new();
    let mut end = 0;
    for (number, fde) in functions.iter().enumerate() {
        let next = functions.get(number + 1).map_or(u64::MAX, Fde::initial_address);
        judge.gap(end..fde.initial_address());
        end = fde.end_address().min(next);
        judge.function(fde, end, section, data, bases, &mut context);
    }
    judge.gap(end..u64::MAX);
    judge.verdict
}

/// The compared parts of a row.
#[derive(Clone, Copy, Debug)]
struct Compare {
    gaps: bool,
    is_go: bool,
}

struct Judge {
    rows: Vec<Row>,
    /// The next of our rows.
    next: usize,
    arch: Arch,
    compare: Compare,
    verdict: Verdict,
}

impl Judge {
    fn new(table: &Table, arch: Arch, compare: Compare) -> Judge {
        let rows: Vec<Row> = table.rows().collect();
        let bytes = (table.image().len() - table.rules().count() * size_of::<table::Rule>()) as u64;
        let has_many = rows.len() >= 300;
        let verdict = Verdict {
            files: 1,
            bytes,
            table_rows: rows.len() as u64,
            most_bytes: if has_many { bytes as f64 / rows.len() as f64 } else { 0.0 },
            ..Verdict::default()
        };
        Judge { rows, next: 0, arch, compare, verdict }
    }

    /// Our rules for all parts of `range`; ranges must come in order.
    fn ours(&mut self, range: Range<u64>) -> Vec<(Range<u64>, Option<Rule>)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            while self.rows.get(self.next).is_some_and(|row| row.address <= at) {
                self.next += 1;
            }
            let rule = self.next.checked_sub(1).map(|row| self.rows[row].rule);
            let end = self.rows.get(self.next).map_or(range.end, |row| row.address.min(range.end));
            parts.push((at..end, rule.filter(Rule::is_described)));
            at = end;
        }
        parts
    }

    /// Between functions there is nothing, but for the padding of the next, and for what is known
    /// by its instructions: gimli is no judge of that.
    fn gap(&mut self, range: Range<u64>) {
        let is_stub = |rule: &Rule| matches!(rule.raw().cfa, cfa::END | cfa::SIGNAL);
        let is_padding = |range: &Range<u64>| range.end.wrapping_sub(range.start) < 16;
        let allowed = !self.compare.gaps || is_padding(&range);
        let mut parts = self.ours(range.clone()).into_iter().peekable();
        while let Some((part, rule)) = parts.next() {
            let before_stub = parts.peek().is_some_and(|(_, next)| next.as_ref().is_some_and(is_stub));
            let allowed = allowed || before_stub && is_padding(&part);
            if let Some(rule) = rule.filter(|rule| !allowed && !is_stub(rule)) {
                self.unequal(part.start, format!("{rule} in the gap {range:x?}"));
            }
        }
    }

    fn function<'a, S: UnwindSection<Bytes<'a>>>(
        &mut self,
        fde: &Fde<'a>,
        end: u64,
        section: &S,
        data: &'a [u8],
        bases: &BaseAddresses,
        unwind: &mut UnwindContext<usize>,
    ) {
        let context = Context {
            data: EndianSlice::new(data, LittleEndian),
            encoding: fde.cie().encoding(),
            arch: self.arch,
            ra: fde.cie().return_address_register(),
        };
        let signal = fde.is_signal_trampoline() && self.arch == Arch::Aarch64;
        let mut at = fde.initial_address();
        let mut rows = fde.rows(section, bases, unwind).ok();
        while at < end {
            let row = rows.as_mut().and_then(|rows| rows.next_row().ok().flatten());
            let range = row.map_or(at..end, |row| row.start_address()..row.end_address().min(end));
            at = range.end.max(at);
            if range.is_empty() {
                continue;
            }
            self.verdict.rows += 1;
            // The return address of glibc's `rawmemchr` is in x15, which no rule says.
            if self.arch == Arch::Aarch64 && context.ra != gimli::AArch64::X30 {
                self.ours(range);
                self.verdict.unsaid += 1;
                continue;
            }
            let theirs = |pc, kept| row.map_or(Said::Nothing, |row| context.theirs(row, pc, kept));
            self.row(range, theirs, signal);
        }
    }

    fn row(&mut self, range: Range<u64>, theirs: impl Fn(u64, Option<u16>) -> Said, signal: bool) {
        let mut worst = Equality::Equal;
        for (part, rule) in self.ours(range) {
            let kept = rule.and_then(|rule| kept_by(rule.raw()));
            for pc in [part.start, part.end - 1] {
                let equality = match rule {
                    Some(rule) if signal && rule.raw().cfa == cfa::SIGNAL => Equality::Equal,
                    Some(rule) if self.compare.is_go && is_special_in_go(rule) => Equality::Equal,
                    Some(rule) if is_eh_return(rule) || rule.raw() == table::Rule::COROUTINE => {
                        Equality::Unsaid
                    }
                    Some(rule) => self.compare(ours(rule.raw(), self.arch, pc), theirs(pc, kept)),
                    // On arm64 nothing is said about Go's changes of stack.
                    None if self.compare.is_go => Equality::Equal,
                    None => Equality::Unequal,
                };
                if equality == Equality::Unequal && worst != Equality::Unequal {
                    let rule = rule.map_or("nothing".into(), |rule| rule.to_string());
                    self.unequal(pc, format!("{rule}, but gimli: {:x?}", theirs(pc, kept)));
                }
                worst = worst.max(equality);
            }
        }
        self.verdict.unsaid += u64::from(worst == Equality::Unsaid);
    }

    fn compare(&self, ours: Said, theirs: Said) -> Equality {
        // What we don't say is taken out of what they say.
        let as_far_as_said = match (ours, theirs) {
            (Said::Frame(our), Said::Frame(their)) => {
                Said::Frame(Frame { fp: our.fp.and(their.fp), kept: our.kept.and(their.kept), ..their })
            }
            (_, theirs) => theirs,
        };
        let without_fp = |said| match said {
            Said::Frame(frame) => Said::Frame(Frame { fp: None, ..frame }),
            other => other,
        };
        match ours {
            Said::Nothing => Equality::Unsaid,
            _ if ours == theirs => Equality::Equal,
            _ if self.compare.is_go && without_fp(ours) == without_fp(theirs) => Equality::Equal,
            _ if ours == as_far_as_said => Equality::Unsaid,
            _ => Equality::Unequal,
        }
    }

    fn unequal(&mut self, pc: u64, what: String) {
        self.verdict.unequal += 1;
        if self.verdict.examples.len() < 20 {
            self.verdict.examples.push(format!("{pc:#x}: {what}"));
        }
    }
}

/// Outermost functions, returns from signals, and changes of stack, which its call frame
/// information leaves out.
fn is_special_in_go(rule: Rule) -> bool {
    let raw = rule.raw();
    let rbp = raw.cfa == cfa::REGISTER && raw.register == 6;
    rbp || raw.cfa == cfa::SIGNAL || raw.cfa == cfa::END
}

/// The frames that libgcc overwrites before it resumes at a landing pad, whose call frame
/// information describes them as they were.
fn is_eh_return(rule: Rule) -> bool {
    let raw = rule.raw();
    raw.cfa == cfa::REGISTER
        && (raw.register, raw.offset) == (6, 16)
        && raw.ra & ra::KIND == ra::SAVED
        && raw.aux < -152
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Equality {
    Equal,
    Unsaid,
    Unequal,
}
