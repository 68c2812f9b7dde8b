//! Compiles the unwind data of a file to a table.
//!
//! ```text
//!   .eh_frame ──┐           functions              rows               pages
//!   .debug_frame├──► Index ───────────► Frames, Go ──────► Output ──────────► image
//!   .gopclntab ─┘   by address     │     one at a time    gaps, counts
//!   .eh_frame_hdr ─────────────────┘                        ▲
//!                          functions without unwind data ───┘ in gaps
//! ```

use ebpf_profiler_core::elf::{Elf, ElfError};
use ebpf_profiler_core::unwind::{BareFunction, Compiled, UnwindCompiler};

use crate::arch::Registers;
use crate::code::Code;
use crate::eh_frame::cies::Cies;
use crate::eh_frame::section::Reader;
use crate::eh_frame::starts::Starts;
use crate::index::{Index, Item, Place};
use crate::listed::Listed;
use crate::source::Sources;
use crate::table::rules::Packed;

mod bare;

mod frames;

mod go;

mod output;

use bare::Gaps;
use frames::Frames;
use go::Go;
use output::Output;

/// Compiler from ELF files to unwind tables.
///
/// Reads `.eh_frame`, found by its section or through the program headers, functions that only `.debug_frame` describes, and
/// `.gopclntab` of Go programs. Entries and signal returns without unwind data are recognized by their instructions. If
/// several sources describe an address, the first of these is used, and of overlapping functions the one that begins last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    derives: bool,
}

/// Returns the compiler of unwind tables for the profiler's builder.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::elf::Elf;
/// use ebpf_profiler_core::unwind::UnwindCompiler;
///
/// let elf = Elf::open(std::fs::File::open("/proc/self/exe")?)?;
/// let compiled = ebpf_profiler_unwind::tables().compile(&elf)?;
/// assert!(!compiled.image.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tables() -> Tables {
    Tables::default()
}

impl Tables {
    /// Derives the rules of x86_64 code without unwind data from its instructions: see [`derived`](crate::derived).
    ///
    /// Takes longer than all else: 60 to 160 ms of CPU time per MiB of such code.
    ///
    /// # Examples
    ///
    /// ```
    /// let compiler = ebpf_profiler_unwind::tables().with_derived_rules();
    /// ```
    #[must_use = "returns another compiler"]
    pub fn with_derived_rules(self) -> Tables {
        Tables { derives: true }
    }
}

impl UnwindCompiler for Tables {
    fn compile(&self, elf: &Elf) -> Result<Compiled, ElfError> {
        self.compile_with(elf, &[])
    }

    fn compile_derived(&self, elf: &Elf, functions: &[BareFunction]) -> Option<Result<Compiled, ElfError>> {
        // With that option the tables have these rules already.
        (!self.derives).then(|| Tables { derives: true }.compile_with(elf, functions))
    }

    fn compile_with(&self, elf: &Elf, functions: &[BareFunction]) -> Result<Compiled, ElfError> {
        let Some(registers) = Registers::of(elf.arch()) else { return Ok(Compiled::default()) };
        let code = Code::of(elf);
        let sources = Sources::of(elf)?;
        let derives = self.derives;
        let file = File { elf, sources: &sources, code: &code, functions, derives, registers };
        Ok(match file.compile() {
            Ok(compiled) => compiled,
            // A few of 3,000 files are compiled twice.
            Err(Again(registers)) => File { registers: &registers, ..file }.compile().unwrap_or_default(),
        })
    }
}

/// Registers to compile the file with again, because the rules of the first pass need them.
struct Again(Box<Registers>);

/// A file, and the data to compile it with.
struct File<'a> {
    elf: &'a Elf,
    sources: &'a Sources,
    code: &'a Code,
    /// Functions without unwind data.
    functions: &'a [BareFunction],
    /// `true` if rules of other code are derived too.
    derives: bool,
    registers: &'a Registers,
}

impl File<'_> {
    fn compile(&self) -> Result<Compiled, Again> {
        self.by_table().unwrap_or_else(|| self.by_index())
    }

    /// Compiles in the order of the linker's search table. Returns `None` if there is no table, or it does not list all functions.
    ///
    /// A function's start is read when its turn comes, so the table is verified only at the end.
    fn by_table(&self) -> Option<Result<Compiled, Again>> {
        let File { elf, sources, code, .. } = *self;
        let (Some(table), [section]) = (sources.sorted, &sources.frames[..]) else { return None };
        let mut reader = Reader::new(elf, section, Starts::size(section));
        let mut cies = Cies::new(&reader);
        let listed = Listed::of(elf, table, &mut reader, &mut cies)?;
        let mut frames = [Frames::new(elf, reader, cies, self.registers)];
        let mut items = listed.items(elf, section, code);
        let compiled = self.rows(items.begin(), &mut items, &mut frames, sources.unread);
        (items.is_complete() && frames[0].confirms()).then_some(compiled)
    }

    /// Compiles in the order of an index built here.
    fn by_index(&self) -> Result<Compiled, Again> {
        let File { elf, sources, code, registers, .. } = *self;
        let mut index = Index::of(elf, &sources.frames, sources.go.as_ref(), code);
        let cies = std::mem::take(&mut index.cies);
        let frames = sources.frames.iter().zip(cies).enumerate().map(|(number, (section, cies))| {
            let mut reader = Reader::new(elf, section, index.size());
            reader.expect(index.counts(number, section));
            Frames::new(elf, reader, cies, registers)
        });
        let mut frames: Vec<_> = frames.collect();
        let begin = index.items(code).next().map(|first| first.begin);
        let malformed = index.malformed.saturating_add(sources.unread);
        self.rows(begin, index.items(code), &mut frames, malformed)
    }

    /// Compiles functions in the order of their addresses, the first at `begin`.
    fn rows(
        &self,
        begin: Option<u64>,
        items: impl Iterator<Item = Item>,
        frames: &mut [Frames<'_>],
        malformed: u32,
    ) -> Result<Compiled, Again> {
        let File { elf, sources, code, functions, derives, registers } = *self;
        let mut gaps = Gaps::new(elf, functions, derives, registers);
        let before = code.start()..begin.unwrap_or_else(|| code.first_end());
        let stubs = gaps.stubs(before.clone());
        let Some(begin) = gaps.begin(&before, &stubs).or(begin) else {
            let mut compiled = Compiled::default();
            compiled.malformed = malformed;
            return Ok(compiled);
        };
        let mut output = Output::new(begin, malformed);
        gaps.fill(before, &stubs, &mut output);
        let mut go = sources.go.as_ref().map(|table| Go::new(elf, table, registers));
        // Takes the rows of functions that have others.
        let mut unused = Output::new(begin, 0);
        for item in items {
            let gap = output.end()..item.begin;
            if gaps.may_have_code(&gap) {
                let stubs = gaps.stubs(gap.clone());
                gaps.fill(gap, &stubs, &mut output);
            }
            let item = Item { next: item.next.min(code.end(item.begin).unwrap_or(item.begin)), ..item };
            let is_coroutine = gaps.is_coroutine(item.begin);
            let rows = if is_coroutine { &mut unused } else { &mut output };
            let done = match item.place {
                Place::Frames { section, offset } => {
                    frames.get_mut(section).and_then(|frames| frames.function(item, offset, rows))
                }
                Place::Go { number } => go.as_mut().and_then(|go| go.function(item, number, rows)),
            };
            if is_coroutine {
                output.function(item.begin, unused.end().min(item.next));
                output.row(item.begin, Packed::COROUTINE);
            }
            output.malformed += u32::from(done.is_none());
        }
        let end = output.end();
        let gap = end..code.end(end).unwrap_or(end);
        let stubs = gaps.stubs(gap.clone());
        gaps.fill(gap, &stubs, &mut output);
        match output.other_registers(registers) {
            Some(registers) => Err(Again(Box::new(registers))),
            None => Ok(output.finish()),
        }
    }
}
