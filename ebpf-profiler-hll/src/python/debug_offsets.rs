//! Parser of `_Py_DebugOffsets`, the description of its structures that CPython publishes from 3.13
//! on.
//!
//! ```text
//!   0  "xdebugpy"   8  version   16  free-threaded   24  groups of offsets, eight bytes each
//!
//!   runtime_state      size  finalizing  interpreters_head
//!   interpreter_state  size  id  next  threads_head  …
//!   thread_state       size  prev 0  next 8  interp 16  current_frame  …  thread_id  native_thread_id  datastack_chunk  status …
//!   interpreter_frame  size  previous  executable  instr_ptr  localsplus  owner  …
//!   code_object        size  filename  name  qualname  linetable  firstlineno  argcount  localsplusnames  …
//!   pyobject           size  ob_type
//!   type_object        size  tp_name  …
//!   bytes_object       size  ob_size  ob_sval
//!   unicode_object     size  state  length  asciiobject_size
//! ```
//!
//! Each version adds fields at the ends of groups, and groups between them. So a group has no fixed
//! position; it is recognized by relations between its fields, such as `qualname = name + 8`. An
//! unrecognized description is rejected.

use ebpf_profiler_core::elf::Elf;

use super::offsets::{
    BytesOffsets, CodeOffsets, FrameOffsets, ListOffsets, OF_INTERPRETER, Offsets, Position, Run, TextOffsets,
};

/// Number of bytes read; more than the description of any version.
const SIZE: usize = 2048;

/// Upper bound of plausible sizes and offsets of the structures used.
const MAX_OFFSET: u64 = 4096;

/// Maximum number of fields of a thread state from the one behind the current frame to its status: 3.15 has 7.
const MAX_THREAD_FIELDS: usize = 16;

/// The same up to 3.14.
const THREAD_FIELDS: usize = 4;

/// Address bits of pointers to code objects, whose lowest bits are tags from 3.14 on.
const UNMARKED: u64 = !7;

/// Reads the description at `_PyRuntime` from the file; it is initialized data.
pub(super) fn read(elf: &Elf, runtime: u64) -> Option<Offsets> {
    let mut bytes = [0; SIZE];
    elf.read(runtime, &mut bytes).ok()?;
    parse(&bytes)
}

/// Parses the description.
pub(super) fn parse(bytes: &[u8]) -> Option<Offsets> {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().copied().map(u64::from_le_bytes).collect();
    if words.first()? != &u64::from_le_bytes(*b"xdebugpy") {
        return None;
    }
    let groups = Groups(words.get(3..)?);
    let (at, thread) = groups.find(0, |[size, prev, next, interp, frame]| {
        [prev, next, interp] == [0, 8, 16] && frame < size && frame > interp
    })?;
    let [size, _, next, _, frame] = thread;
    let top = frame;
    // 3.15 has further frames and a counter before it, among them the frame that each list ends with.
    let (end, [thread_id, ..]) = groups.find(at, |[id, native, chunk, status]| {
        id > top && native == id + 8 && chunk > native && chunk < size && status < top
    })?;
    let has_base = end - at > THREAD_FIELDS;
    let at = Some(end).filter(|end| end - at <= MAX_THREAD_FIELDS)?;
    let (at, frame) = groups.find(at, |[size, previous, executable, pointer, locals, owner]| {
        size == locals + 8 && [previous, executable, pointer, owner].iter().all(|field| *field < locals)
    })?;
    let (at, code) =
        groups.find(at, |[size, file, name, qualname, table, first, _, locals, _, adaptive]| {
            let is_ordered = first + 8 <= locals && locals < file && adaptive < size;
            [name, qualname, table] == [file + 8, file + 16, file + 24] && is_ordered
        })?;
    let (at, object) = groups.find(at, |[size, kind]| matches!(size, 16 | 32) && kind + 8 == size)?;
    let [header, object_type] = object;
    let (at, types) = groups.find(at, |[size, name]| size > 256 && name == header + 8)?;
    let (at, bytes) =
        groups.find(at, |[size, length, data]| [length, data, size] == [header, header + 16, header + 24])?;
    let (_, text) = groups.find(at, |[size, state, length, ascii]| {
        length == header && state == header + 16 && ascii > state && ascii + 16 < size
    })?;
    let [size, filename, name, qualname, table, first_line, _, locals, _, adaptive] = code;
    // Not in the description; in all versions so far, `co_version` lies directly before
    // `co_localsplusnames`.
    let version = locals - 4;
    let frames = frames(frame, has_base);
    let (qualname, version, instructions) = (Some(qualname), Some(version), Some(adaptive));
    Some(Offsets {
        top: (top.into(), None),
        lists: lists(&words[3..], next, thread_id),
        current: None,
        frames,
        code: CodeOffsets { size, filename, name, qualname, first_line, version, table, instructions },
        // A compact string that isn't ASCII has two more words: length and address of its UTF-8.
        text: TextOffsets { length: text[2], state: text[1], ascii: text[3], wide: text[3] + 16 },
        bytes: BytesOffsets { size: bytes[1], data: bytes[2] },
        object_type,
        type_name: types[1],
        type_members: None,
    })
}

/// Reads the lists of interpreters and threads from the first two groups, which no relation
/// identifies.
fn lists(groups: &[u64], next: u32, thread: u32) -> Option<ListOffsets> {
    let &[_, _, head, size, id, interpreter, threads, ..] = groups else { return None };
    let is_plausible = head < groups[0] && [id, interpreter, threads].iter().all(|field| *field < size);
    let field = |field: u64| u32::try_from(field).ok().filter(|_| is_plausible);
    Some(ListOffsets { interpreter: field(interpreter)?, threads: field(threads)?, next, thread })
}

fn frames([_, caller, code, position, _, owner]: [u32; 6], has_base: bool) -> FrameOffsets {
    let run = Run::EndsBefore { offset: owner, value: OF_INTERPRETER, has_base };
    FrameOffsets { caller, code, code_mask: UNMARKED, position: Position::Address(position), run }
}

/// The fields of all groups, in order.
struct Groups<'a>(&'a [u64]);

impl Groups<'_> {
    /// Returns the first `N` consecutive fields, from field `from` on, that satisfy `is`, and the
    /// index behind them.
    fn find<const N: usize>(&self, from: usize, is: impl Fn([u32; N]) -> bool) -> Option<(usize, [u32; N])> {
        let windows = self.0.get(from..)?.windows(N).zip(from..);
        windows.filter(|(window, _)| window.iter().all(|&field| field < MAX_OFFSET)).find_map(
            |(window, at)| {
                let fields: [u32; N] = std::array::from_fn(|index| window[index] as u32);
                is(fields).then_some((at + N, fields))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::Identity;
    use super::*;

    /// The description in 3.13.0.
    const GROUPS_3_13: [&[u64]; 15] = [
        &[283_320, 608, 632],
        &[194_968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0, 7768, 7760],
        &[304, 0, 8, 16, 72, 152, 160, 232, 32],
        &[80, 8, 0, 56, 72, 70],
        &[208, 112, 120, 128, 136, 68, 52, 96, 104, 200],
        &[16, 8],
        &[416, 24, 88, 168],
        &[32, 24, 16],
        &[40, 24, 16],
        &[48, 32, 40],
        &[24, 16],
        &[32, 16, 24],
        &[40, 16, 32],
        &[64, 32, 16, 40],
        &[240, 200],
    ];

    /// The description in 3.14.8.
    const GROUPS_3_14: &str = include_str!("../../tests/fake/debug_offsets_3_14.txt");

    /// The description in 3.15.2.
    const GROUPS_3_15: &str = include_str!("../../tests/fake/debug_offsets_3_15.txt");

    fn bytes(groups: &[&[u64]], version: u64) -> Vec<u8> {
        let head = [u64::from_le_bytes(*b"xdebugpy"), version, 0];
        head.iter().chain(groups.iter().copied().flatten()).flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn parses_description_of_3_13() {
        let found = parse(&bytes(&GROUPS_3_13, 0x030d_00f0)).unwrap();
        assert_eq!(found.top, (72, None));
        let lists = ListOffsets { interpreter: 7264, threads: 7344, next: 8, thread: 152 };
        assert_eq!(found.lists, Some(lists));
        let frames = found.frames;
        assert_eq!((frames.caller, frames.code, frames.position), (8, 0, Position::Address(56)));
        assert_eq!(frames.run, Run::EndsBefore { offset: 70, value: 3, has_base: false });
        let code = found.code;
        assert_eq!((code.size, code.filename, code.name, code.qualname), (208, 112, 120, Some(128)));
        assert_eq!(found.identity(), Some(Identity::Version(92)));
        assert_eq!((code.table, code.first_line, code.instructions), (136, 68, Some(200)));
        assert_eq!(found.text, TextOffsets { length: 16, state: 32, ascii: 40, wide: 56 });
        assert_eq!(found.bytes, BytesOffsets { size: 16, data: 32 });
        assert_eq!((found.object_type, found.type_name), (8, 24));
    }

    #[test]
    fn parses_description_of_3_14_with_more_fields_and_groups() {
        let lines = GROUPS_3_14.lines().filter(|line| !line.starts_with('#'));
        let words: Vec<u64> =
            lines.flat_map(str::split_whitespace).map(|word| word.parse().unwrap()).collect();
        let found = parse(&bytes(&[&words], 0x030e_08f0)).unwrap();
        let frames = found.frames;
        assert_eq!((found.top.0, frames.position), (72, Position::Address(56)));
        assert_eq!(frames.run, Run::EndsBefore { offset: 74, value: 3, has_base: false });
        let code = found.code;
        assert_eq!((code.filename, code.instructions, found.object_type), (112, Some(208), 8));
        assert_eq!(found.bytes, BytesOffsets { size: 16, data: 32 });
        assert_eq!(found.text, TextOffsets { length: 16, state: 32, ascii: 40, wide: 56 });
    }

    #[test]
    fn parses_description_of_3_15_whose_thread_id_follows_further_fields() {
        let lines = GROUPS_3_15.lines().filter(|line| !line.starts_with('#'));
        let words: Vec<u64> =
            lines.flat_map(str::split_whitespace).map(|word| word.parse().unwrap()).collect();
        let found = parse(&bytes(&[&words], 0x030f_02f0)).unwrap();
        let lists = ListOffsets { interpreter: 7264, threads: 7336, next: 8, thread: 176 };
        assert_eq!((found.top, found.lists), ((72, None), Some(lists)));
        assert_eq!(found.frames.run, Run::EndsBefore { offset: 74, value: 3, has_base: true });
        assert_eq!((found.code.filename, found.code.instructions), (112, Some(208)));
    }

    #[test]
    fn parses_larger_objects_of_free_threaded_build() {
        let mut groups = GROUPS_3_13.map(<[u64]>::to_vec);
        groups[4] = vec![224, 128, 136, 144, 152, 84, 68, 112, 120, 216];
        groups[5] = vec![32, 24];
        groups[6] = vec![432, 40, 104, 184];
        groups[12] = vec![56, 32, 48];
        groups[13] = vec![80, 48, 32, 56];
        let groups: Vec<&[u64]> = groups.iter().map(Vec::as_slice).collect();
        let found = parse(&bytes(&groups, 0x030d_00f0)).unwrap();
        assert_eq!((found.object_type, found.type_name, found.bytes.data), (24, 40, 48));
        assert_eq!(found.text, TextOffsets { length: 32, state: 48, ascii: 56, wide: 72 });
    }

    #[test]
    fn rejects_truncated_and_other_bytes() {
        let whole = bytes(&GROUPS_3_13, 0x030d_00f0);
        assert!(parse(&whole[8..]).is_none());
        assert!(parse(&[0; SIZE]).is_none());
        for len in 0..whole.len() - 16 {
            assert!(parse(&whole[..len]).is_none(), "{len}");
        }
        for value in [0, 8, 4095, u64::MAX] {
            let filled: Vec<u64> = vec![value; 120];
            assert!(parse(&bytes(&[&filled], 0x030d_00f0)).is_none());
        }
    }
}
