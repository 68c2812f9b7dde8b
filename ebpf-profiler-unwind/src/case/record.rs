//! Recorder of walks.

use std::collections::BTreeMap;
use std::ops::Range;

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::FrameWalker;
use ebpf_profiler_core::trace::{Stack, Stop};
use ebpf_programs::abi::registers::Registers;

use super::words::{self, Words};
use super::{Case, CaseMapping, Outcome, outcome};
use crate::modules::{Mapping, Modules};
use crate::table::Table;
use crate::walk::{Frame, NativeFrame, Walk};

/// A mapping of code with the path and build id of its file, for recording a case.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    mapping: Mapping<'a>,
    path: &'a str,
    build_id: &'a [u8],
}

impl<'a> Place<'a> {
    /// Creates a place. Path and build id are empty if there are none.
    pub fn new(mapping: Mapping<'a>, path: &'a str, build_id: &'a [u8]) -> Place<'a> {
        Place { mapping, path, build_id }
    }

    /// Sets the interpreter in the file: see [`Mapping::with_interpreter`].
    pub fn with_interpreter(self, index: usize) -> Place<'a> {
        Place { mapping: self.mapping.with_interpreter(index), ..self }
    }

    /// Returns the part of it in `range`, as memory that a runtime owns or as it is.
    pub fn part(&self, range: Range<u64>, owner: Option<usize>) -> Place<'a> {
        let part = self.mapping.part(range);
        let mapping = match owner {
            Some(index) => part.with_runtime(index),
            None => part,
        };
        Place { mapping, ..self.clone() }
    }

    /// Returns the path of the file that is mapped here.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the mapping.
    pub fn mapping(&self) -> &Mapping<'a> {
        &self.mapping
    }
}

/// The process of a recorded stack: its instruction set, and the mapped files with their unwind
/// tables and language interpreters.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    arch: Arch,
    places: &'a [Place<'a>],
    interpreters: &'a [FrameWalker],
}

impl<'a> Subject<'a> {
    /// Creates a process with these mappings of code.
    pub fn new(arch: Arch, places: &'a [Place<'a>]) -> Subject<'a> {
        Subject { arch, places, interpreters: &[] }
    }

    /// Sets the interpreters. A mapping refers to one by its index.
    pub fn with_interpreters(self, interpreters: &'a [FrameWalker]) -> Subject<'a> {
        Subject { interpreters, ..self }
    }
}

impl Case {
    /// Walks a stack and records the data that it uses. The result becomes the expected one.
    ///
    /// `name` returns a comment for each frame.
    pub fn record(
        about: &str,
        subject: Subject<'_>,
        registers: &Registers,
        memory: impl Stack,
        mut name: impl FnMut(&Frame) -> String,
    ) -> Case {
        let Subject { arch, places, interpreters } = subject;
        let mappings: Vec<Mapping<'_>> = places.iter().map(|place| place.mapping.clone()).collect();
        let modules = Modules::with_interpreters(arch, &mappings, interpreters);
        let mut recorder = Recorder { inner: memory, words: Words::default() };
        let mut walk = Walk::new(&modules, registers, &mut recorder);
        let frames: Vec<Frame> = walk.by_ref().collect();
        let stop = walk.stop().unwrap_or(Stop::TooLong);
        let expected = Outcome { frames: frames.iter().map(outcome::words).collect(), stop };
        Case {
            about: one_line(about),
            arch,
            registers: *registers,
            interpreters: interpreters.to_vec(),
            mappings: kept(&modules, places, &frames, registers, &recorder.words),
            memory: recorder.words,
            expected,
            names: frames.iter().map(|frame| one_line(&name(frame))).collect(),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Memory that records reads.
struct Recorder<M> {
    inner: M,
    words: Words,
}

impl<M: Stack> Stack for &mut Recorder<M> {
    fn read(&mut self, address: u64) -> Option<u64> {
        words::read(address, |aligned| {
            let word = self.inner.read(aligned)?;
            self.words.insert(aligned, word);
            Some(word)
        })
    }
}

/// Returns the mappings that contain frames or that words point into: the walk also tests whether
/// words point to code.
fn kept(
    modules: &Modules,
    places: &[Place<'_>],
    frames: &[Frame],
    registers: &Registers,
    words: &Words,
) -> Vec<CaseMapping> {
    let mut kept = BTreeMap::new();
    let pointers = words.iter().map(|(_, word)| word).chain(registers.values).chain([registers.pc]);
    let pointers = pointers.flat_map(|word| [word, word.wrapping_sub(1)]).map(|word| word & POINTER);
    for number in pointers.filter_map(|word| Some(modules.find(word)?.0)) {
        kept.entry(number).or_insert_with(|| CaseMapping::new(&places[number]));
    }
    for frame in frames.iter().filter_map(Frame::native) {
        let Some(number) = frame.mapping else { continue };
        let mapping = kept.entry(number).or_insert_with(|| CaseMapping::new(&places[number]));
        if let Some(table) = places[number].mapping.table {
            let addresses = [Some(frame.file_address), behind_short_row(table, frame)];
            let row = |address| Some((address, table.rule(address)?.raw()));
            mapping.rows.extend(addresses.into_iter().flatten().filter_map(row));
        }
    }
    let mut kept: Vec<CaseMapping> = kept.into_values().collect();
    kept.sort_by_key(|mapping| mapping.start);
    for mapping in &mut kept {
        mapping.rows.sort_by_key(|row| row.0);
        mapping.rows.dedup();
    }
    kept
}

/// Returns the row behind a caller's row that is too short for a call: the walk uses that one
/// instead.
fn behind_short_row(table: &Table, frame: &NativeFrame) -> Option<u64> {
    let at = frame.file_address;
    let is_short = !frame.exact && table.begins(at) && table.begins(at.checked_add(1)?);
    is_short.then_some(at + 1)
}

/// Bits of a pointer; arm64 stores signatures above.
const POINTER: u64 = (1 << 48) - 1;

impl CaseMapping {
    fn new(place: &Place<'_>) -> CaseMapping {
        let Mapping { range, load_bias, table, interpreter, is_owned } = &place.mapping;
        CaseMapping {
            start: range.start,
            end: range.end,
            bias: load_bias.in_file(0),
            interpreter: *interpreter,
            is_owned: *is_owned,
            has_table: table.is_some_and(|table| !table.image().is_empty()),
            build_id: place.build_id.to_vec(),
            path: one_line(place.path),
            rows: Vec::new(),
        }
    }
}
