//! Where the fields are.
//!
//! | version | what the runtime itself says | what the [table](super::table) says |
//! | --- | --- | --- |
//! | 2.7, 3.6 to 3.12 | fields of code objects: `PyCode_Type.tp_members` | the rest |
//! | 3.13 on | all: `_Py_DebugOffsets`, at the beginning of `_PyRuntime` | |

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::interpreter::{FRAME_BYTES, Frames, position, run};

use super::debug_offsets;
use super::symbols::Symbols;
use super::table::Table;
use super::version::Version;

/// Where the fields of a version's structures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// From a thread state to its innermost frame; the second only where there are two hops.
    pub(super) top: (i64, Option<i64>),
    /// Of the lists of interpreters and thread states.
    pub(super) lists: Option<ListOffsets>,
    /// Of what says which thread state is in use.
    pub(super) current: Option<CurrentOffsets>,
    pub(super) frames: Frames,
    pub(super) code: CodeOffsets,
    pub(super) text: TextOffsets,
    pub(super) bytes: BytesOffsets,
    /// The type of an object.
    pub(super) object_type: u32,
    /// The name of a type, and the members that it shows.
    pub(super) type_name: u32,
    pub(super) type_members: Option<u32>,
}

/// Of the lists of interpreters and thread states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListOffsets {
    /// In an interpreter: the next one, and its first thread state.
    pub(super) interpreter: u32,
    pub(super) threads: u32,
    /// In a thread state: the next one, and the thread that it is for.
    pub(super) next: u32,
    pub(super) thread: u32,
}

/// Of what says which thread state is in use; until 3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CurrentOffsets {
    /// How far it lies before the key of the states; 3.6 has a symbol for it.
    pub(super) before_key: Option<u32>,
    /// In a thread state: the thread that it is for.
    pub(super) thread: u32,
}

/// Of a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeOffsets {
    /// How many bytes of it are read.
    pub(super) size: u32,
    pub(super) filename: u32,
    pub(super) name: u32,
    /// From 3.11 on.
    pub(super) qualname: Option<u32>,
    pub(super) first_line: u32,
    /// Four bytes that no other code object has: from 3.12 on, the number of its making.
    pub(super) version: Option<u32>,
    /// The line table.
    pub(super) table: u32,
    /// Where its instructions begin, if positions are addresses.
    pub(super) instructions: Option<u32>,
}

/// Of a `str`; none in 2.7, where names are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextOffsets {
    pub(super) length: u32,
    pub(super) state: u32,
    /// The characters of one that is ASCII, and of one that isn't.
    pub(super) ascii: u32,
    pub(super) wide: u32,
}

/// Of `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytesOffsets {
    pub(super) size: u32,
    pub(super) data: u32,
}

/// From 3.12 on a loop puts a frame of its own below the first that it runs; `owner` is at least this there.
pub(super) const OF_INTERPRETER: u32 = 3;

impl Offsets {
    /// Of a file.
    pub(super) fn of(elf: &Elf, symbols: &Symbols<'_>, version: Version) -> Option<Offsets> {
        match Table::of(version) {
            Some(table) => from_table(&table),
            None => debug_offsets::read(elf, symbols.address("_PyRuntime")?),
        }
    }
}

/// Behind the third word there is one that changes (3.6 to 3.10).
const MADE_OF: u32 = 3;

impl CodeOffsets {
    /// Where a code object is told from another that takes its place, and by how many words; none where it is a number.
    ///
    /// Before they were numbered, by what they are made of: the addresses of their file's name, of their own, and what
    /// stands behind: the first line (2.7), the line table (3.6 to 3.10), the qualified name (3.11).
    pub(super) fn check(&self) -> (u32, u32) {
        self.version.map_or((self.filename, MADE_OF), |version| (version, 0))
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
    // 3.12 is the first whose threads have the state in use as their own, and the first that numbers its code objects.
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

fn frames(table: &Table) -> Option<Frames> {
    let of = |field| table.get(field);
    let has_addresses = of("code.instructions").is_some();
    let mut frames = Frames {
        function_mask: !0,
        caller: of("frame.previous")?,
        function: of("frame.code")?,
        position: of("frame.position")?,
        position_kind: if has_addresses { position::ADDRESS } else { position::NUMBER },
        check: of("code.version").or(of("code.filename"))?,
        ..Frames::default()
    };
    match (of("frame.is_entry"), of("frame.owner")) {
        (Some(is_entry), _) => end(&mut frames, run::WITH_MARKED, is_entry, 1),
        (None, Some(owner)) => end(&mut frames, run::BEFORE_MARKED, owner, OF_INTERPRETER),
        (None, None) => frames.run = run::ONE,
    }
    frames.size = size(&frames)?;
    Some(frames)
}

/// A run ends with frames whose byte at `at` is `value` or more.
pub(super) fn end(frames: &mut Frames, run: u32, at: u32, value: u32) {
    frames.run = run;
    frames.end = at;
    frames.end_mask = 0xff;
    frames.end_value = value;
}

/// How much of a frame is to be read; nothing where it is more than can be.
pub(super) fn size(frames: &Frames) -> Option<u32> {
    let last = [frames.caller + 8, frames.function + 8, frames.position + 8, frames.end + 1];
    let size = last.into_iter().max()?.next_multiple_of(8);
    (size as usize <= FRAME_BYTES).then_some(size)
}
