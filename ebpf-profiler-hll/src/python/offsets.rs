//! Offsets of the fields of CPython's structures.
//!
//! | version | read from the runtime itself | taken from the [table](super::table) |
//! | --- | --- | --- |
//! | 2.7, 3.6 to 3.12 | fields of code objects: `PyCode_Type.tp_members` | the rest |
//! | 3.13 on | all: `_Py_DebugOffsets`, at the beginning of `_PyRuntime` | |

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::contents;

use super::debug_offsets;
use super::symbols::Symbols;
use super::table::Table;
use super::version::Version;

/// Offsets of the fields of a version's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// From a thread state to its innermost frame: one or two hops.
    pub(super) top: (i64, Option<i64>),
    /// The lists of interpreters and thread states.
    pub(super) lists: Option<ListOffsets>,
    /// The pointer to the thread state in use.
    pub(super) current: Option<CurrentOffsets>,
    pub(super) frames: FrameOffsets,
    pub(super) code: CodeOffsets,
    pub(super) text: TextOffsets,
    pub(super) bytes: BytesOffsets,
    /// The type of an object.
    pub(super) object_type: u32,
    /// The name of a type, and its `PyMemberDef` array.
    pub(super) type_name: u32,
    pub(super) type_members: Option<u32>,
}

/// Offsets in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameOffsets {
    pub(super) caller: u32,
    pub(super) code: u32,
    /// The bits of the pointer to the code object that are its address.
    pub(super) code_mask: u64,
    pub(super) position: Position,
    pub(super) run: Run,
}

/// The position in a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Number(u32),
    Address(u32),
}

/// The frames of one run of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    One,
    /// Up to and including a frame whose byte at `offset` is at least `value`.
    EndsWith {
        offset: u32,
        value: u8,
    },
    /// Up to but excluding such a frame.
    EndsBefore {
        offset: u32,
        value: u8,
        /// The outermost frame of a list is such a frame, and belongs to no run.
        has_base: bool,
    },
}

/// Offsets in interpreters and thread states, which form lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListOffsets {
    /// In an interpreter: the next interpreter, and the first thread state.
    pub(super) interpreter: u32,
    pub(super) threads: u32,
    /// In a thread state: the next thread state, and the id of its thread.
    pub(super) next: u32,
    pub(super) thread: u32,
}

/// Offsets around the pointer to the thread state in use; up to 3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CurrentOffsets {
    /// Its distance before the key of thread states; `None` in 2.7 and 3.6, which have a symbol for
    /// it.
    pub(super) before_key: Option<u32>,
    /// In a thread state: the id of its thread.
    pub(super) thread: u32,
}

/// Offsets in a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeOffsets {
    /// Size of the object.
    pub(super) size: u32,
    pub(super) filename: u32,
    pub(super) name: u32,
    /// From 3.11 on.
    pub(super) qualname: Option<u32>,
    pub(super) first_line: u32,
    /// The unique version number of the object, four bytes; from 3.12 on.
    pub(super) version: Option<u32>,
    /// The line table.
    pub(super) table: u32,
    /// The bytecode, if positions are addresses.
    pub(super) instructions: Option<u32>,
}

/// Offsets in a `str`; 0 in 2.7, where names are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextOffsets {
    pub(super) length: u32,
    pub(super) state: u32,
    /// The characters of an ASCII string, and of any other.
    pub(super) ascii: u32,
    pub(super) wide: u32,
}

/// Offsets in a `bytes` object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytesOffsets {
    pub(super) size: u32,
    pub(super) data: u32,
}

/// Minimum `owner` of the frame that each call of the loop pushes below the first frame that it
/// runs, from 3.12 on.
pub(super) const OF_INTERPRETER: u8 = 3;

impl Offsets {
    /// Returns the offsets of a version, from the table or else from the file.
    pub(super) fn find(elf: &Elf, symbols: &Symbols<'_>, version: Version) -> Option<Offsets> {
        match Table::for_version(version) {
            Some(table) => from_table(&table),
            None => debug_offsets::read(elf, symbols.address("_PyRuntime")?),
        }
    }
}

/// The identity of a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// A version number at an offset.
    Version(u32),
    /// Words from an offset on, and [contents](ebpf_programs::abi::contents).
    Contents(u32, u32),
}

impl Offsets {
    /// Returns the identity of a code object. Without a version number that is what it is made
    /// from: its words from the counts of arguments to the line table, its file and its name,
    /// and the beginning of the line table. `None` if the words are too many.
    pub(super) fn identity(&self) -> Option<Identity> {
        let code = &self.code;
        if let Some(version) = code.version {
            return Some(Identity::Version(version));
        }
        // Before 3.11 the counts follow the head of an object, then flags that change.
        let first = if code.qualname.is_some() { code.first_line & !15 } else { 16 };
        let name = code.qualname.unwrap_or(code.name);
        let last = code.table.max(name).max(code.filename).max(code.first_line & !7);
        let index = |at: u32| at.checked_sub(first).map(|distance| distance / 8 + 1);
        let count = index(last)?;
        if count > contents::MAX_WORDS || last / 8 > first / 8 + contents::INDEX - 1 {
            return None;
        }
        // The `str` of 2.7 has no other characters, and no state at the same place.
        let (characters, wide) = match self.text.ascii {
            0 => (self.bytes.data, 0),
            ascii => (ascii, self.text.wide),
        };
        let offset = |at: u32| (at / 4).min(contents::OFFSET);
        let packed = count << contents::COUNT.0
            | index(code.filename)? << contents::TEXT_SHIFTS[0]
            | index(name)? << contents::TEXT_SHIFTS[1]
            | index(code.table)? << contents::TABLE_SHIFT
            | offset(characters) << contents::CHARACTERS_SHIFTS[0]
            | offset(wide) << contents::CHARACTERS_SHIFTS[1];
        Some(Identity::Contents(first, packed))
    }
}

fn from_table(table: &Table) -> Option<Offsets> {
    let of = |field| table.get(field);
    let top = match of("thread.frame") {
        Some(frame) => (frame.into(), None),
        None => (of("thread.cframe")?.into(), Some(of("cframe.current_frame")?.into())),
    };
    let instructions = of("code.instructions");
    let frames = frames(table)?;
    let thread = of("thread.thread_id")?;
    // From 3.12 on the thread's own state is the one in use; the same version introduced version
    // numbers of code objects.
    let has_current = of("code.version").is_none();
    Some(Offsets {
        top,
        lists: Some(ListOffsets {
            interpreter: of("interpreter.next")?,
            threads: of("interpreter.threads")?,
            next: of("thread.next")?,
            thread,
        }),
        current: has_current.then_some(CurrentOffsets {
            before_key: of("runtime.key")
                .zip(of("runtime.current"))
                .and_then(|(key, it)| key.checked_sub(it)),
            thread,
        }),
        frames,
        code: CodeOffsets {
            size: of("code.size")?,
            filename: of("code.filename")?,
            name: of("code.name")?,
            qualname: of("code.qualname"),
            first_line: of("code.firstlineno")?,
            version: of("code.version"),
            table: of("code.table")?,
            instructions,
        },
        text: TextOffsets {
            length: of("str.length").unwrap_or(0),
            state: of("str.state").unwrap_or(0),
            ascii: of("str.ascii").unwrap_or(0),
            wide: of("str.wide").unwrap_or(0),
        },
        bytes: BytesOffsets { size: of("bytes.size")?, data: of("bytes.data")? },
        object_type: of("object.type")?,
        type_name: of("type.name")?,
        type_members: of("type.members"),
    })
}

fn frames(table: &Table) -> Option<FrameOffsets> {
    let of = |field| table.get(field);
    let position = of("frame.position")?;
    let position = match of("code.instructions") {
        Some(_) => Position::Address(position),
        None => Position::Number(position),
    };
    let run = match (of("frame.is_entry"), of("frame.owner")) {
        (Some(offset), _) => Run::EndsWith { offset, value: 1 },
        (None, Some(offset)) => Run::EndsBefore { offset, value: OF_INTERPRETER, has_base: false },
        (None, None) => Run::One,
    };
    let (caller, code) = (of("frame.previous")?, of("frame.code")?);
    Some(FrameOffsets { caller, code, code_mask: !0, position, run })
}
