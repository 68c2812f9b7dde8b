//! `_Py_DebugOffsets`: the runtime's own description, from 3.13 on.
//!
//! ```text
//!   0  "xdebugpy"   8  version   16  free-threaded   24  groups of offsets, eight bytes each, in the order of GROUPS
//! ```
//!
//! Each version may add fields to groups, and groups; so how many fields a group has is said here by version. A
//! version that isn't known is taken like the last that is, and held against what any version fulfils.

use ebpf_profiler_core::elf::Elf;
use ebpf_programs::abi::interpreter::{Frames, position, run};

use super::offsets::{self, BytesOffsets, CodeOffsets, OF_INTERPRETER, Offsets, TextOffsets};
use super::version::Version;

/// More than any version's.
const SIZE: usize = 1024;

/// No structure that is looked at is larger.
const MAX_OFFSET: u64 = 4096;

/// Reads the description at `_PyRuntime`: it stands in the file, before any process runs it.
pub(super) fn read(elf: &Elf, runtime: u64) -> Option<Offsets> {
    let mut bytes = [0; SIZE];
    elf.read(runtime, &mut bytes).ok()?;
    parse(&bytes)
}

/// The groups that are of use, in order, with the number of fields of those between.
struct Layout {
    interpreter_state: usize,
    frame: usize,
    /// Groups between `type_object` and `bytes_object`: tuple, list, …
    between: &'static [usize],
}

const LAYOUT_3_13: Layout = Layout { interpreter_state: 13, frame: 6, between: &[3, 3, 3, 2, 3] };

pub(super) fn parse(bytes: &[u8]) -> Option<Offsets> {
    let mut words =
        bytes.chunks_exact(8).map(|word| word.first_chunk().copied().map_or(0, u64::from_le_bytes));
    if words.next()? != u64::from_le_bytes(*b"xdebugpy") {
        return None;
    }
    let version = Version::from_hex(u32::try_from(words.next()?).ok()?)?;
    let _free_threaded = words.next()? != 0;
    let layout = LAYOUT_3_13;
    let mut group = |fields: usize| -> Group {
        let mut group = Group([0; 16]);
        (0..fields).for_each(|index| group.0[index] = words.next().unwrap_or(u64::MAX));
        group
    };
    group(3);
    group(layout.interpreter_state);
    let thread = group(9);
    let frame = group(layout.frame);
    let code = group(10);
    let object = group(2);
    let types = group(4);
    layout.between.iter().for_each(|&fields| drop(group(fields)));
    let bytes = group(3);
    let text = group(4);
    let code = CodeOffsets {
        size: code.get(0)?,
        filename: code.get(1)?,
        name: code.get(2)?,
        qualname: Some(code.get(3)?),
        first_line: code.get(5)?,
        table: code.get(4)?,
        instructions: Some(code.get(9)?),
    };
    let mut frames = Frames {
        function_mask: !0,
        caller: frame.get(1)?,
        function: frame.get(2)?,
        position: frame.get(3)?,
        position_kind: position::ADDRESS,
        check: code.first_line,
        ..Frames::default()
    };
    offsets::end(&mut frames, run::BEFORE_MARKED, frame.get(5)?, OF_INTERPRETER);
    frames.size = offsets::size(&frames)?;
    let ascii = text.get(3)?;
    let _ = version;
    Some(Offsets {
        top: (thread.get(4)?.into(), None),
        listed: None,
        frames,
        code,
        // Behind what an ASCII string has: the length and the address of its UTF-8.
        text: TextOffsets { length: text.get(2)?, state: text.get(1)?, shift: 0, ascii, wide: ascii + 16 },
        bytes: BytesOffsets { size: bytes.get(1)?, data: bytes.get(2)? },
        object_type: object.get(1)?,
        type_name: types.get(1)?,
        type_members: None,
    })
}

struct Group([u64; 16]);

impl Group {
    fn get(&self, index: usize) -> Option<u32> {
        self.0.get(index).filter(|&&offset| offset < MAX_OFFSET).map(|&offset| offset as u32)
    }
}
