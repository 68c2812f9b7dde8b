//! Recorded stacks as text: the input of one walk and its expected frames, in a few kilobytes.
//!
//! A wrong or interesting stack becomes a file that can be walked again without the program, its
//! libraries or a core dump. `cargo run --bin case` makes one from a core dump.
//!
//! # Format
//!
//! Lines of words. Numbers are hexadecimal except those of registers and rules; a `#` begins a
//! comment, except in paths.
//!
//! ```text
//! case 1
//! about bash that waits for a child
//! arch x86_64
//! pc 7f9524373bd3
//! register 7 7ffcb4879208
//! mapping 7f95242c6000 7f952441c000 ffff806adbd60000 table 93ac61ec /usr/lib/x86_64-linux-gnu/libc.so.6
//! row d3bd3 3 7 0 0 8 0 0  # cfa = rsp + 8, ra = [cfa - 8]
//! memory 7ffcb4879208 5599ed1f53f2
//! frame 7f9524373bd3 exact  # wait4
//! frame 5599ed1f53f1
//! stop 0  # reached the root
//! ```
//!
//! | line | content |
//! | --- | --- |
//! | `case` | version of the format; the first line |
//! | `about` | description |
//! | `arch` | `x86_64` or `aarch64` |
//! | `pc`, `register` | program counter; DWARF number and value of each known register |
//! | `thread` | thread pointer, if known |
//! | `interpreter` | fields of a [`FrameWalker`] |
//! | `mapping` | begin, end, negated load bias; `table`, `bare` without one, or `runtime` for memory that an interpreter owns, and `:1` for the first interpreter's; build id or `-`; path |
//! | `row` | of the mapping above: an address in the file, and its [rule](ebpf_programs::abi::table::Rule): `cfa register ra fp offset aux fp_offset` |
//! | `memory` | an address that is a multiple of eight, and the words from there on |
//! | `frame` | an expected frame, leaf first: the address, and its marks `exact`, `guessed`, `loop` |
//! | `frame call` | a call in a script: interpreter, function, check, position; `named_by_caller` |
//! | `stop` | number of the expected [stop reason](ebpf_profiler_core::trace::Stop); the last line |
//!
//! A case contains only data that the walk used: rows of its frames, words that it read (on the
//! stack or elsewhere), and mappings that contain one of these or are pointed into.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::FrameWalker;
use ebpf_profiler_core::process::LoadBias;
use ebpf_programs::abi::registers::Registers;
use ebpf_programs::abi::table;

use crate::modules::{Mapping, Modules};
use crate::table::Table;
use crate::walk::Walk;

mod outcome;

mod read;

mod record;

mod words;

mod write;

pub use outcome::Outcome;
pub use read::CaseError;
pub use record::{Place, Subject};
pub use words::Words;

/// A recorded stack with its expected frames.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_unwind::case::Case;
///
/// let case: Case = std::fs::read_to_string("tests/cases/bash.case")?.parse()?;
/// assert_eq!(case.walk(), *case.expected());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    about: String,
    arch: Arch,
    registers: Registers,
    interpreters: Vec<FrameWalker>,
    mappings: Vec<CaseMapping>,
    memory: Words,
    expected: Outcome,
    /// A comment per expected frame.
    names: Vec<String>,
}

/// A mapping with rules for single addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CaseMapping {
    start: u64,
    end: u64,
    /// Virtual address in the file minus address in the process.
    bias: u64,
    has_table: bool,
    interpreter: u16,
    is_owned: bool,
    build_id: Vec<u8>,
    path: String,
    /// By address in the file.
    rows: Vec<(u64, table::Rule)>,
}

impl Case {
    /// Returns the description.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the registers of the leaf frame, where the walk begins.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Returns the recorded words of memory that the walk read.
    pub fn memory(&self) -> &Words {
        &self.memory
    }

    /// Returns the mappings that the walk used.
    pub fn modules(&self) -> Modules {
        let tables: Vec<Option<Table>> =
            self.mappings.iter().map(|mapping| mapping.table(self.arch)).collect();
        let mappings: Vec<Mapping<'_>> = self
            .mappings
            .iter()
            .zip(&tables)
            .map(|(mapping, table)| Mapping {
                range: mapping.start..mapping.end,
                load_bias: LoadBias::between(0, mapping.bias),
                table: table.as_ref(),
                interpreter: mapping.interpreter,
                is_owned: mapping.is_owned,
            })
            .collect();
        Modules::with_interpreters(self.arch, &mappings, &self.interpreters)
    }

    /// Returns the expected result.
    pub fn expected(&self) -> &Outcome {
        &self.expected
    }

    /// Walks the stack and returns the result.
    pub fn walk(&self) -> Outcome {
        Outcome::of(Walk::new(&self.modules(), &self.registers, &self.memory))
    }
}

impl CaseMapping {
    fn table(&self, arch: Arch) -> Option<Table> {
        self.has_table.then(|| Table::of_single_rows(&self.rows, arch))
    }
}
