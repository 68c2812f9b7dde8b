//! Stacks as text: what one walk needs, and what it should find, in a few kilobytes.
//!
//! A stack that was walked wrongly, or one that is good to have, becomes a file that anybody can walk again without the
//! program, its libraries or a core dump. `cargo run --bin case` makes one from a core dump.
//!
//! # Format
//!
//! Lines of words. Numbers are hexadecimal but for those of registers and rules; a `#` begins a comment, except in paths.
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
//! | line | says |
//! | --- | --- |
//! | `case` | the version of the format; the first line |
//! | `about` | what it is, in words |
//! | `arch` | `x86_64` or `aarch64` |
//! | `pc`, `register` | the program counter; the number in DWARF and the value of each register that is known |
//! | `thread` | the thread pointer, where it is known |
//! | `interpreter` | the fields of a [`FrameWalker`] |
//! | `mapping` | begin, end, bias; `table`, or `bare` for code without one, and `:1` for the first interpreter's; build id or `-`; path |
//! | `row` | of the mapping above: an address in the file, and the [rule](ebpf_programs::abi::table::Rule) there: `cfa register ra fp offset aux fp_offset` |
//! | `memory` | an address that is a multiple of eight, and the words from there on |
//! | `frame` | what should be found, leaf first: the address, and `exact`, `guessed`, `loop` if it is |
//! | `frame call` | a call in a script: interpreter, function, check, position |
//! | `stop` | the number of the [reason](ebpf_profiler_core::trace::Stop) for which it should end; the last line |
//!
//! Only what the walk asked for is in it: the rows at its frames, the words that it read (anywhere, not only on the
//! stack), the mappings that one of these lies in or points into.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::FrameWalker;
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

/// One stack, and what should be found in it.
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
    /// A comment for each expected frame.
    names: Vec<String>,
}

/// A mapping of which only the rules at some addresses are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CaseMapping {
    start: u64,
    end: u64,
    /// Virtual address in the file minus address in the process.
    bias: u64,
    has_table: bool,
    interpreter: u16,
    build_id: Vec<u8>,
    path: String,
    /// By their addresses in the file.
    rows: Vec<(u64, table::Rule)>,
}

impl Case {
    /// What it is, in words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The registers of the leaf.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// The memory that the walk asked for.
    pub fn memory(&self) -> &Words {
        &self.memory
    }

    /// The mappings that the walk went through.
    pub fn modules(&self) -> Modules {
        let tables: Vec<Option<Table>> =
            self.mappings.iter().map(|mapping| mapping.table(self.arch)).collect();
        let mappings: Vec<Mapping<'_>> = self
            .mappings
            .iter()
            .zip(&tables)
            .map(|(mapping, table)| Mapping {
                range: mapping.start..mapping.end,
                load_bias: mapping.bias.wrapping_neg(),
                table: table.as_ref(),
                interpreter: mapping.interpreter,
            })
            .collect();
        Modules::with_interpreters(self.arch, &mappings, &self.interpreters)
    }

    /// What should be found.
    pub fn expected(&self) -> &Outcome {
        &self.expected
    }

    /// What is found.
    pub fn walk(&self) -> Outcome {
        Outcome::of(Walk::new(&self.modules(), &self.registers, &self.memory))
    }
}

impl CaseMapping {
    fn table(&self, arch: Arch) -> Option<Table> {
        self.has_table.then(|| Table::of_single_rows(&self.rows, arch))
    }
}
