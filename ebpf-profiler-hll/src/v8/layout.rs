//! Offsets of fields, and numbers of types.
//!
//! V8 exports most of them as `v8dbg_*`. Those that a version doesn't export are measured, in the
//! release binaries of Node.js.

use std::ops::RangeInclusive;

use ebpf_profiler_core::elf::{Elf, Exports};
use ebpf_programs::walk::identity::v8 as identity;

use super::heap::ELEMENTS;
use super::symbols::Symbols;
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
    /// `None` if the data of a function with baseline code is that code, which refers to the
    /// bytecode.
    pub(super) baseline_data: Option<BaselineData>,
    pub(super) types: Types,
    /// Number of the word below the frame pointer, from 1, that holds the bytecode offset.
    pub(super) offset_word: u32,
    pub(super) dispatch: Dispatch,
}

/// The way to the table of entry points through which functions refer to their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// No table: functions refer to their code themselves.
    None,
    /// One table in the process: virtual address of a pointer, offset of the table's address behind
    /// it.
    Process { pointer: u64, offset: u32 },
    /// A table in each isolate: offset of the heap in the metadata of a page, distance from the
    /// heap to the table's address.
    Isolate { heap: u32, distance: i32 },
    /// A table that was not found.
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
    /// Offset of the name that a comment in the source gives it.
    pub(super) url: u32,
    pub(super) line_offset: u32,
    pub(super) line_ends: u32,
    pub(super) number: u32,
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
    /// Distance from the object with the instructions to them, if they are in an object of their
    /// own.
    pub(super) header: u32,
}

/// Fields of the object between a function and its baseline code, which doesn't refer to the
/// bytecode then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BaselineData {
    /// Number of its type.
    pub(super) kind: u16,
    pub(super) code: u32,
    /// Offset of the bytecode, or of the `InterpreterData`.
    pub(super) bytecode: u32,
}

/// Indices in deoptimization data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeoptLayout {
    pub(super) literals: u32,
    /// The number of the compilation, which an isolate never uses again.
    pub(super) compilation: u32,
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
    pub(super) fn find(elf: &Elf, exports: &Exports<'_>, symbols: &Symbols) -> Option<Layout> {
        let version = Version::detect(elf, exports).filter(|version| MEASURED.contains(version))?;
        let numbers = Numbers { elf, exports, version };
        Some(Layout {
            dispatch: dispatch(elf, symbols.dispatch, version),
            version,
            function: numbers.function()?,
            shared: numbers.shared()?,
            script: numbers.script()?,
            bytecode: numbers.bytecode(),
            code: numbers.code()?,
            deopt: numbers.deopt(),
            baseline_data: numbers.baseline_data(),
            types: numbers.types()?,
            offset_word: numbers.offset_word(),
        })
    }
}

/// The exported numbers of a file, and the measured ones of its version where it exports none.
struct Numbers<'f> {
    elf: &'f Elf,
    exports: &'f Exports<'f>,
    version: Version,
}

impl Numbers<'_> {
    /// Returns the number with the first of these names that the file exports.
    fn get(&self, names: &[&str]) -> Option<u32> {
        names.iter().find_map(|name| number(self.elf, self.exports, &format!("v8dbg_{name}")))
    }

    /// Returns the offset of a field that has one of these types. A file that claims to hold V8 may
    /// have any numbers.
    fn field(&self, class: &str, field: &str, types: &[&str]) -> Option<u32> {
        let offset = types.iter().find_map(|kind| self.get(&[&format!("class_{class}__{field}__{kind}")]));
        offset.filter(|offset| FIELDS.contains(offset))
    }

    /// Returns the number of an instance type.
    fn kind(&self, name: &str) -> Option<u16> {
        self.get(&[&format!("type_{name}")]).and_then(|number| u16::try_from(number).ok())
    }

    fn is_before(&self, major: u32, minor: u32) -> bool {
        self.version < Version(major, minor)
    }

    fn function(&self) -> Option<FunctionLayout> {
        let types = ["SharedFunctionInfo", "Tagged_SharedFunctionInfo_"];
        let shared = self.field("JSFunction", "shared", &types)?;
        let measured = if self.is_before(12, 0) { shared + 24 } else { shared - 8 };
        let code = self.field("JSFunction", "code", &["CodeT", "Tagged_Code_"]).unwrap_or(measured);
        Some(FunctionLayout { shared, code })
    }

    fn shared(&self) -> Option<SharedLayout> {
        const CLASS: &str = "SharedFunctionInfo";
        let name_types = ["Object", "Tagged_Object_", "Tagged_NameOrScopeInfoT_"];
        let script = self
            .field(CLASS, "script_or_debug_info", &["Object", "HeapObject"])
            .or_else(|| self.field(CLASS, "script", &["Tagged_HeapObject_", "Tagged_Object_"]))?;
        let token = self.field(CLASS, "raw_function_token_offset", &["int16_t"])?;
        // Both are in what a check reads.
        (script + 8 == token & !7).then_some(())?;
        Some(SharedLayout {
            data: self.field(CLASS, "function_data", &["Object"]).unwrap_or(8),
            name: self.field(CLASS, "name_or_scope_info", &name_types)?,
            script,
            token,
        })
    }

    fn script(&self) -> Option<ScriptLayout> {
        let url = if self.is_before(11, 0) { 104 } else { 112 };
        Some(ScriptLayout {
            source: self.field("Script", "source", &["Object"]).unwrap_or(8),
            name: self.field("Script", "name", &["Object"])?,
            url: self.field("Script", "source_url", &["Object"]).unwrap_or(url),
            line_offset: 24,
            line_ends: self.field("Script", "line_ends", &["Object"])?,
            number: self.field("Script", "id", &["SMI"]).unwrap_or(64),
        })
    }

    fn bytecode(&self) -> BytecodeLayout {
        const CLASS: &str = "BytecodeArray";
        let positions = if self.is_before(12, 0) { 32 } else { 24 };
        let data = if self.is_before(9, 0) { 54 } else { 56 };
        BytecodeLayout {
            positions: self.field(CLASS, "source_position_table", &["Object"]).unwrap_or(positions),
            data: self.field(CLASS, "data", &["uintptr_t"]).unwrap_or(data),
        }
    }

    fn code(&self) -> Option<CodeLayout> {
        const CLASS: &str = "Code";
        let has_baseline = !self.is_before(9, 0);
        let has_own = self.is_before(11, 0);
        let (positions, deopt, header) = if self.is_before(12, 0) { (24, 16, 16) } else { (16, 8, 32) };
        let (shift, mask, baseline) = if has_baseline { (0, 15, 11) } else { (1, 31, u32::MAX) };
        let flags = if has_baseline { 48 } else { 44 };
        Some(CodeLayout {
            instructions: if has_own { self.field(CLASS, "instruction_start", &["uintptr_t"])? } else { 0 },
            start: self.field(CLASS, "instruction_start", &["Address"]).unwrap_or(40),
            size: self.field(CLASS, "instruction_size", &["int"]).unwrap_or(56),
            flags: self.field(CLASS, "flags", &["uint32_t"]).unwrap_or(flags),
            kind_shift: self.get(&["CodeKindFieldShift"]).filter(|shift| *shift < u32::BITS).unwrap_or(shift),
            kind_mask: self.get(&["CodeKindFieldMask"]).unwrap_or(mask),
            baseline: self.get(&["CodeKindBaseline"]).unwrap_or(baseline),
            positions: self.field(CLASS, "source_position_table", &["ByteArray"]).unwrap_or(positions),
            deopt: self.field(CLASS, "deoptimization_data", &["FixedArray"]).unwrap_or(deopt),
            header,
        })
    }

    fn deopt(&self) -> DeoptLayout {
        let wrapped = self.get(&["DeoptimizationDataWrappedSharedFunctionInfoIndex"]);
        let shared = wrapped.or_else(|| self.get(&["DeoptimizationDataSharedFunctionInfoIndex"]));
        DeoptLayout {
            literals: self.get(&["DeoptimizationDataLiteralArrayIndex"]).unwrap_or(2),
            compilation: self.get(&["DeoptimizationDataOptimizationIdIndex"]).unwrap_or(5),
            shared: shared.unwrap_or(6),
            inlinings: self.get(&["DeoptimizationDataInliningPositionsIndex"]).unwrap_or(7),
            is_wrapped: wrapped.is_some(),
        }
    }

    fn baseline_data(&self) -> Option<BaselineData> {
        let kind = self.kind("BaselineData__BASELINE_DATA_TYPE")?;
        Some(BaselineData { kind, code: 8, bytecode: 16 })
    }

    fn types(&self) -> Option<Types> {
        let bytes = self.kind("ByteArray__BYTE_ARRAY_TYPE")?;
        let uncompiled = [
            "UncompiledDataWithPreparseData__UNCOMPILED_DATA_WITH_PREPARSE_DATA_TYPE",
            "UncompiledDataWithoutPreparseData__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_TYPE",
            "UncompiledDataWithPreparseDataAndJob__UNCOMPILED_DATA_WITH_PREPARSE_DATA_AND_JOB_TYPE",
            "UncompiledDataWithoutPreparseDataWithJob__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_WITH_JOB_TYPE",
        ];
        let uncompiled = uncompiled.into_iter().filter_map(|name| self.kind(name));
        Some(Types {
            first_other: u16::try_from(self.get(&["FirstNonstringType"])?).ok()?,
            shared: self.kind("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            code: self.kind("Code__CODE_TYPE")?,
            bytecode: self.kind("BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            script: self.kind("Script__SCRIPT_TYPE")?,
            scope: self.kind("ScopeInfo__SCOPE_INFO_TYPE")?,
            fixed_array: self.kind("FixedArray__FIXED_ARRAY_TYPE")?,
            bytes: [bytes, self.kind("TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE").unwrap_or(bytes)],
            uncompiled: [uncompiled.clone().min()?, uncompiled.max()?],
            interpreter_data: self.kind("InterpreterData__INTERPRETER_DATA_TYPE")?,
            wrapper: self.kind("SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE"),
        })
    }

    fn offset_word(&self) -> u32 {
        let measured = if self.is_before(8, 7) { 4 } else { 5 };
        self.get(&["off_fp_bytecode_offset"]).map_or(measured, |offset| offset.wrapping_neg() / 8)
    }
}

/// Finds the table of entry points, by the function that returns its address.
fn dispatch(elf: &Elf, function: Option<u64>, version: Version) -> Dispatch {
    const HEAP: u32 = 0x40;
    // From the table to the heap in an isolate.
    const HEAP_OF_ISOLATE: i32 = 0xf3c0;
    if version < Version(13, 0) {
        return Dispatch::None;
    }
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
    /// Returns the mask of the bits of the word behind a function's script that are the distance of
    /// its token.
    pub(super) fn position_mask(&self) -> u64 {
        0xffff << ((self.shared.token & 7) * 8)
    }

    /// Returns the offsets of the numbers that checks cover.
    pub(super) fn numbers(&self) -> identity::Numbers {
        let in_deopt = ELEMENTS.saturating_add(self.deopt.compilation.saturating_mul(8));
        let [script, in_script, deopt, in_deopt] =
            [self.shared.script, self.script.number, self.code.deopt, in_deopt].map(|offset| offset as u16);
        identity::Numbers { script, in_script, deopt, in_deopt }
    }
}
