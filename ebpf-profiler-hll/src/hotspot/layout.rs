//! Offsets of HotSpot's structures in one process, in bytes.
//!
//! All but the slots of interpreter frames come from the [tables](super::tables). The generations differ in where they keep
//! a fact, not only in its offset:
//!
//! | fact | up to 17 | 21 | 25 |
//! |---|---|---|---|
//! | start of the code, deoptimization handlers | pointers | pointers | offsets from the blob |
//! | scopes of compiled code | in the blob | in the blob | in a block of their own |
//! | `Method`s that the scopes name | in the blob | in the blob | in another block |
//! | source file | constant pool (11: class) | constant pool | constant pool |
//! | compressed numbers | may hold zero bytes | hold none (from 20 on) | hold none |

use ebpf_profiler_core::language::Reason;
use ebpf_programs::walk::identity::hotspot::Fields;

use super::tables::Tables;

/// Types whose fields are read.
const TYPES: [&str; 27] = [
    "Abstract_VM_Version",
    "AbstractInterpreter",
    "Array<u1>",
    "CodeBlob",
    "CodeCache",
    "CodeHeap",
    "CompiledMethod",
    "CompressedOops",
    "ConstMethod",
    "ConstMethodFlags",
    "ConstantPool",
    "GenericGrowableArray",
    "GrowableArray",
    "HeapBlock",
    "InstanceKlass",
    "Klass",
    "Method",
    "PcDesc",
    "Symbol",
    "VirtualSpace",
    "nmethod",
    "StubQueue",
    "StubRoutines",
    "GrowableArrayBase",
    "GrowableArray<int>",
    "HeapBlock::Header",
    "frame",
];

/// Returns `true` for types whose fields are read.
pub(super) fn is_needed(of: &str) -> bool {
    TYPES.contains(&of)
}

/// Offsets of one process.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) version: i32,
    pub(super) blob: BlobLayout,
    pub(super) nmethod: NmethodLayout,
    pub(super) method: MethodLayout,
    pub(super) heap: HeapLayout,
}

/// `CodeBlob`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobLayout {
    pub(super) name: u32,
    pub(super) size: u32,
    pub(super) frame_size: u32,
    /// End of the prologue, from the start of the code on: four bytes, or two from 25 on.
    pub(super) frame_complete: u32,
    /// A pointer to the start of the code; from 25 on its distance from the blob, in four bytes.
    pub(super) code: u32,
    /// `true` if code and handlers are given as distances from the blob.
    pub(super) is_relative: bool,
}

/// `nmethod`, a compiled method.
#[derive(Clone, Copy, Debug)]
pub(super) struct NmethodLayout {
    /// Size of the header.
    pub(super) size: u32,
    pub(super) method: u32,
    pub(super) compile_id: u32,
    pub(super) orig_pc: u32,
    /// Address of the deoptimization handler; from 25 on its distance from the blob, in four bytes.
    pub(super) deopt: u32,
    /// The same for calls of method handles, if there is one.
    pub(super) deopt_mh: Option<u32>,
    pub(super) pcs: u32,
    /// The field behind whose offset the table of PCs ends.
    pub(super) pcs_end: u32,
    pub(super) scopes: Scopes,
}

/// Location of scopes and of the methods that they name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scopes {
    /// In the blob: a pointer to the scopes, and the offset of the methods.
    Inside { data: u32, metadata: u32 },
    /// In blocks of their own: pointers to the blocks, their sizes, the offset of scopes in the first one, and the size of what precedes
    /// methods in the second one.
    Outside {
        immutable: u32,
        immutable_size: u32,
        data: u32,
        mutable: u32,
        mutable_size: u32,
        relocation: u32,
    },
}

/// `Method`, `ConstMethod`, `ConstantPool`, `Klass`, `Symbol`.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodLayout {
    pub(super) const_method: u32,
    /// Size of `ConstMethod`, which the bytecode follows.
    pub(super) bytecode: u32,
    /// Size of the whole `ConstMethod`, in words.
    pub(super) words: u32,
    pub(super) code_size: u32,
    pub(super) constants: u32,
    pub(super) name: u32,
    pub(super) flags: u32,
    /// The flag of methods with a line table, in the low bits of the flags.
    pub(super) has_lines: u32,
    pub(super) holder: u32,
    /// Size of `ConstantPool`, which its entries follow.
    pub(super) entries: u32,
    pub(super) length: u32,
    pub(super) class_name: u32,
    pub(super) source: Source,
    pub(super) symbol_length: u32,
    pub(super) symbol_body: u32,
}

/// The field with the index of the name of the source file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    ConstantPool(u32),
    Class(u32),
}

/// `CodeHeap`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapLayout {
    /// Size of the header of a block.
    pub(super) header: u32,
    pub(super) memory: u32,
    pub(super) segments: u32,
    pub(super) log2_segment: u32,
    pub(super) space_low: u32,
    pub(super) space_high: u32,
    pub(super) array_length: u32,
    pub(super) array_data: u32,
}

impl MethodLayout {
    /// Returns the fields that the check of a method covers.
    pub(super) fn identity(&self) -> Fields {
        let offset = |at: u32| at as u16;
        Fields {
            constants: offset(self.constants),
            code_size: offset(self.code_size),
            name: offset(self.name),
            holder: offset(self.holder),
            entries: offset(self.entries),
            class_name: offset(self.class_name),
            length: offset(self.symbol_length),
            text: offset(self.symbol_body),
        }
    }
}

impl Layout {
    /// Collects the offsets. Fails with [`Reason::Unsupported`] if one is missing.
    pub(super) fn of(tables: &Tables, version: i32) -> Result<Layout, Reason> {
        Layout::find(tables, version).ok_or(Reason::Unsupported)
    }

    fn find(tables: &Tables, version: i32) -> Option<Layout> {
        let at = |of, name| tables.offset(of, name);
        // A field of `nmethod` that older versions have in its base class.
        let of_nmethod = |name| at("nmethod", name).or_else(|| at("CompiledMethod", name));
        let blob = BlobLayout {
            name: at("CodeBlob", "_name")?,
            size: at("CodeBlob", "_size")?,
            frame_size: at("CodeBlob", "_frame_size")?,
            frame_complete: at("CodeBlob", "_frame_complete_offset")?,
            code: at("CodeBlob", "_code_begin").or_else(|| at("CodeBlob", "_code_offset"))?,
            is_relative: at("CodeBlob", "_code_begin").is_none(),
        };
        let scopes = match at("nmethod", "_immutable_data") {
            Some(immutable) => Scopes::Outside {
                immutable,
                immutable_size: at("nmethod", "_immutable_data_size")?,
                data: at("nmethod", "_scopes_data_offset")?,
                mutable: at("CodeBlob", "_mutable_data")?,
                mutable_size: at("CodeBlob", "_mutable_data_size")?,
                relocation: at("CodeBlob", "_relocation_size")?,
            },
            None => Scopes::Inside {
                data: of_nmethod("_scopes_data_begin")?,
                metadata: at("nmethod", "_metadata_offset")?,
            },
        };
        let pcs_end = match scopes {
            Scopes::Inside { .. } => at("nmethod", "_dependencies_offset")?,
            Scopes::Outside { data, .. } => data,
        };
        let nmethod = NmethodLayout {
            size: tables.size("nmethod")?,
            method: of_nmethod("_method")?,
            compile_id: at("nmethod", "_compile_id")?,
            orig_pc: at("nmethod", "_orig_pc_offset")?,
            deopt: of_nmethod("_deopt_handler_begin").or_else(|| at("nmethod", "_deopt_handler_offset"))?,
            deopt_mh: of_nmethod("_deopt_mh_handler_begin")
                .or_else(|| at("nmethod", "_deopt_mh_handler_offset")),
            pcs: at("nmethod", "_scopes_pcs_offset")?,
            pcs_end,
            scopes,
        };
        let source = match at("ConstantPool", "_source_file_name_index") {
            Some(at) => Source::ConstantPool(at),
            None => Source::Class(at("InstanceKlass", "_source_file_name_index")?),
        };
        let has_lines = tables
            .int("ConstMethod::_has_linenumber_table")
            .or_else(|| tables.int("ConstMethodFlags::_misc_has_linenumber_table"))?;
        let method = MethodLayout {
            const_method: at("Method", "_constMethod")?,
            bytecode: tables.size("ConstMethod")?,
            words: at("ConstMethod", "_constMethod_size")?,
            code_size: at("ConstMethod", "_code_size")?,
            constants: at("ConstMethod", "_constants")?,
            name: at("ConstMethod", "_name_index")?,
            flags: at("ConstMethod", "_flags").or_else(|| at("ConstMethod", "_flags._flags"))?,
            has_lines: has_lines as u32,
            holder: at("ConstantPool", "_pool_holder")?,
            entries: tables.size("ConstantPool")?,
            length: at("ConstantPool", "_length")?,
            class_name: at("Klass", "_name")?,
            source,
            symbol_length: at("Symbol", "_length")?,
            symbol_body: at("Symbol", "_body")?,
        };
        let heap = HeapLayout {
            header: tables.size("HeapBlock")?,
            memory: at("CodeHeap", "_memory")?,
            segments: at("CodeHeap", "_segmap")?,
            log2_segment: at("CodeHeap", "_log2_segment_size")?,
            space_low: at("VirtualSpace", "_low_boundary")?,
            space_high: at("VirtualSpace", "_high_boundary")?,
            array_length: at("GenericGrowableArray", "_len").or_else(|| at("GrowableArrayBase", "_len"))?,
            array_data: at("GrowableArray<int>", "_data")?,
        };
        Some(Layout { version, blob, nmethod, method, heap })
    }
}
