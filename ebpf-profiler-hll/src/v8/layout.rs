//! Offsets of fields, and numbers of types.
//!
//! V8 exports most of them as `v8dbg_*`. Those that a version doesn't export are measured, in the release binaries of
//! Node.js.

use std::ops::RangeInclusive;

use ebpf_profiler_core::elf::{Elf, Exports};

use super::version::Version;

/// Versions whose holes are measured.
const MEASURED: [Version; 9] = [
    Version(7, 8),
    Version(8, 4),
    Version(9, 4),
    Version(10, 2),
    Version(11, 3),
    Version(12, 4),
    Version(13, 6),
    Version(14, 1),
    Version(14, 6),
];

/// Offsets in bytes, and numbers of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: Version,
    pub(super) function: FunctionLayout,
    pub(super) shared: SharedLayout,
    pub(super) script: ScriptLayout,
    pub(super) bytecode: BytecodeLayout,
    pub(super) code: CodeLayout,
    pub(super) deopt: DeoptLayout,
    pub(super) types: Types,
    /// Number of the word below the frame pointer, from 1, that holds the bytecode offset.
    pub(super) offset_word: u32,
    pub(super) dispatch: Dispatch,
}

/// The way to the table of entry points through which functions refer to their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// There is none.
    None,
    /// It belongs to the process: virtual address of a pointer, offset of the table's address behind it.
    Process { pointer: u64, offset: u32 },
    /// It belongs to an isolate: offset of the heap in the metadata of a page, distance from the heap to the table's address.
    Isolate { heap: u32, distance: i32 },
    /// It isn't found.
    Unknown,
}

/// Fields of a `JSFunction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FunctionLayout {
    pub(super) shared: u32,
    /// Offset of the code; of its handle from 13 on.
    pub(super) code: u32,
}

/// Fields of a `SharedFunctionInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedLayout {
    pub(super) data: u32,
    pub(super) name: u32,
    pub(super) script: u32,
    /// Offset of the function's token, two bytes.
    pub(super) token: u32,
}

/// Fields of a `Script`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptLayout {
    pub(super) source: u32,
    pub(super) name: u32,
    pub(super) line_offset: u32,
    pub(super) line_ends: u32,
}

/// Fields of a `BytecodeArray`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytecodeLayout {
    pub(super) positions: u32,
    pub(super) data: u32,
}

/// Fields of `Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeLayout {
    /// Offset of the instructions in the object itself; 0 if it has a pointer to them.
    pub(super) instructions: u32,
    /// Offset of that pointer.
    pub(super) start: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) kind_shift: u32,
    pub(super) kind_mask: u32,
    /// Kind of baseline code, beyond the mask if there is none.
    pub(super) baseline: u32,
    /// Position table, for baseline code the table of bytecode offsets.
    pub(super) positions: u32,
    /// Deoptimization data, for baseline code the bytecode.
    pub(super) deopt: u32,
    /// Distance from the object with the instructions to them, if they are in an object of their own.
    pub(super) header: u32,
}

/// Indices in deoptimization data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeoptLayout {
    pub(super) literals: u32,
    pub(super) shared: u32,
    pub(super) inlinings: u32,
    /// `true` if the function is in a wrapper.
    pub(super) is_wrapped: bool,
}

/// Numbers of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    pub(super) first_other: u16,
    pub(super) shared: u16,
    pub(super) code: u16,
    pub(super) bytecode: u16,
    pub(super) script: u16,
    pub(super) scope: u16,
    pub(super) fixed_array: u16,
    /// Arrays of bytes in the heap, and from 12 on in trusted space.
    pub(super) bytes: [u16; 2],
    /// Uncompiled functions: first and last.
    pub(super) uncompiled: [u16; 2],
    pub(super) interpreter_data: u16,
    /// Wrapper of a function, from 13 on.
    pub(super) wrapper: Option<u16>,
}

/// Offsets of fields of objects: behind the map.
const FIELDS: RangeInclusive<u32> = 8..=4096;

impl Layout {
    /// Returns the layout of a file, `None` if its version is unknown.
    pub(super) fn find(elf: &Elf, exports: &Exports<'_>) -> Option<Layout> {
        let version = Version::detect(elf, exports).filter(|version| MEASURED.contains(version))?;
        let get =
            |names: &[&str]| names.iter().find_map(|name| number(elf, exports, &format!("v8dbg_{name}")));
        // A file that claims to hold V8 may have any numbers.
        let class = |class: &str, field: &str, types: &[&str]| {
            let offset = types.iter().find_map(|kind| get(&[&format!("class_{class}__{field}__{kind}")]));
            offset.filter(|offset| FIELDS.contains(offset))
        };
        let kind = |name: &str| get(&[&format!("type_{name}")]).and_then(|number| u16::try_from(number).ok());
        let is_before = |major, minor| version < Version(major, minor);
        let shared = class("JSFunction", "shared", &["SharedFunctionInfo", "Tagged_SharedFunctionInfo_"])?;
        let function =
            FunctionLayout {
                shared,
                code: class("JSFunction", "code", &["CodeT", "Tagged_Code_"])
                    .unwrap_or(if is_before(12, 0) { shared + 24 } else { shared - 8 }),
            };
        let shared = SharedLayout {
            data: class("SharedFunctionInfo", "function_data", &["Object"]).unwrap_or(8),
            name: class(
                "SharedFunctionInfo",
                "name_or_scope_info",
                &["Object", "Tagged_Object_", "Tagged_NameOrScopeInfoT_"],
            )?,
            script: class("SharedFunctionInfo", "script_or_debug_info", &["Object", "HeapObject"]).or_else(
                || class("SharedFunctionInfo", "script", &["Tagged_HeapObject_", "Tagged_Object_"]),
            )?,
            token: class("SharedFunctionInfo", "raw_function_token_offset", &["int16_t"])?,
        };
        let script = ScriptLayout {
            source: class("Script", "source", &["Object"]).unwrap_or(8),
            name: class("Script", "name", &["Object"])?,
            line_offset: 24,
            line_ends: class("Script", "line_ends", &["Object"])?,
        };
        let bytecode = BytecodeLayout {
            positions: class("BytecodeArray", "source_position_table", &["Object"])
                .unwrap_or(if is_before(12, 0) { 32 } else { 24 }),
            data: class("BytecodeArray", "data", &["uintptr_t"]).unwrap_or(if is_before(9, 0) {
                54
            } else {
                56
            }),
        };
        let has_baseline = !is_before(9, 0);
        let own = is_before(11, 0);
        let code = CodeLayout {
            instructions: if own { class("Code", "instruction_start", &["uintptr_t"])? } else { 0 },
            start: class("Code", "instruction_start", &["Address"]).unwrap_or(40),
            size: class("Code", "instruction_size", &["int"]).unwrap_or(56),
            flags: class("Code", "flags", &["uint32_t"]).unwrap_or(48),
            kind_shift: get(&["CodeKindFieldShift"])
                .filter(|shift| *shift < u32::BITS)
                .unwrap_or(if has_baseline { 0 } else { 1 }),
            kind_mask: get(&["CodeKindFieldMask"]).unwrap_or(if has_baseline { 15 } else { 31 }),
            baseline: get(&["CodeKindBaseline"]).unwrap_or(if has_baseline { 11 } else { u32::MAX }),
            positions: class("Code", "source_position_table", &["ByteArray"])
                .unwrap_or(if is_before(12, 0) { 24 } else { 16 }),
            deopt: class("Code", "deoptimization_data", &["FixedArray"]).unwrap_or(if is_before(12, 0) {
                16
            } else {
                8
            }),
            header: if is_before(12, 0) { 16 } else { 32 },
        };
        let wrapped = get(&["DeoptimizationDataWrappedSharedFunctionInfoIndex"]);
        let deopt = DeoptLayout {
            literals: get(&["DeoptimizationDataLiteralArrayIndex"]).unwrap_or(2),
            shared: wrapped.or_else(|| get(&["DeoptimizationDataSharedFunctionInfoIndex"])).unwrap_or(6),
            inlinings: get(&["DeoptimizationDataInliningPositionsIndex"]).unwrap_or(7),
            is_wrapped: wrapped.is_some(),
        };
        let bytes = kind("ByteArray__BYTE_ARRAY_TYPE")?;
        let uncompiled = [
            "UncompiledDataWithPreparseData__UNCOMPILED_DATA_WITH_PREPARSE_DATA_TYPE",
            "UncompiledDataWithoutPreparseData__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_TYPE",
            "UncompiledDataWithPreparseDataAndJob__UNCOMPILED_DATA_WITH_PREPARSE_DATA_AND_JOB_TYPE",
            "UncompiledDataWithoutPreparseDataWithJob__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_WITH_JOB_TYPE",
        ]
        .map(kind);
        let uncompiled = uncompiled.into_iter().flatten();
        let types = Types {
            first_other: u16::try_from(get(&["FirstNonstringType"])?).ok()?,
            shared: kind("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            code: kind("Code__CODE_TYPE")?,
            bytecode: kind("BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            script: kind("Script__SCRIPT_TYPE")?,
            scope: kind("ScopeInfo__SCOPE_INFO_TYPE")?,
            fixed_array: kind("FixedArray__FIXED_ARRAY_TYPE")?,
            bytes: [bytes, kind("TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE").unwrap_or(bytes)],
            uncompiled: [uncompiled.clone().min()?, uncompiled.max()?],
            interpreter_data: kind("InterpreterData__INTERPRETER_DATA_TYPE")?,
            wrapper: kind("SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE"),
        };
        let offset_word = match get(&["off_fp_bytecode_offset"]) {
            Some(offset) => offset.wrapping_neg() / 8,
            None => {
                if is_before(8, 7) {
                    4
                } else {
                    5
                }
            }
        };
        let dispatch = dispatch(elf, version);
        Some(Layout {
            dispatch,
            version,
            function,
            shared,
            script,
            bytecode,
            code,
            deopt,
            types,
            offset_word,
        })
    }
}

/// Finds the table of entry points, by the function that returns its address.
fn dispatch(elf: &Elf, version: Version) -> Dispatch {
    const HEAP: u32 = 0x40;
    // From the table to the heap in an isolate.
    const HEAP_OF_ISOLATE: i32 = 0xf3c0;
    if version < Version(13, 0) {
        return Dispatch::None;
    }
    let mut function = None;
    elf.for_each_symbol(|name, symbol| {
        if name.starts_with(b"_ZN2v88internal17ExternalReference25js_dispatch_table_addressE") {
            function = Some(symbol.address);
        }
    });
    let mut code = [0; 14];
    let Some(at) = function.filter(|&at| elf.read(at, &mut code).is_ok()) else { return Dispatch::Unknown };
    let number = |from: usize| code[from..].first_chunk().copied().map_or(0, i32::from_le_bytes);
    match code {
        // mov rax, [rip + number]; mov rax, [rax + number]
        [0x48, 0x8b, 0x05, _, _, _, _, 0x48, 0x8b, 0x80, ..] => Dispatch::Process {
            pointer: at.wrapping_add(7).wrapping_add_signed(number(3).into()),
            offset: number(10) as u32,
        },
        // mov rax, [rdi + number]
        [0x48, 0x8b, 0x87, ..] if version == Version(14, 6) => {
            Dispatch::Isolate { heap: HEAP, distance: number(3) - HEAP_OF_ISOLATE }
        }
        _ => Dispatch::Unknown,
    }
}

/// Returns the number in an exported variable of four bytes.
pub(super) fn number(elf: &Elf, exports: &Exports<'_>, name: &str) -> Option<u32> {
    let mut word = [0; 4];
    elf.read(exports.get(name)?.address, &mut word).ok()?;
    Some(u32::from_le_bytes(word))
}

impl Layout {
    /// Returns the offset of the 16 bytes of a `SharedFunctionInfo` that make its check, and the mask of the first eight:
    /// distance of the function's token, and the number of the function in its script.
    pub(super) fn identity(&self) -> (u32, u64) {
        let token = self.shared.token;
        (token & !7, 0xffff << ((token & 7) * 8))
    }
}
