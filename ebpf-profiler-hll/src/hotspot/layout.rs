//! Offsets of HotSpot's structures in one process, in bytes.
//!
//! All but the slots of interpreter frames come from the [tables](super::tables). The generations
//! differ in where they keep a fact, not only in its offset:
//!
//! | fact | 8 | 9 to 22 | 23, 24 | from 25 on |
//! |---|---|---|---|---|
//! | code heaps | one | a list | a list | a list |
//! | start of the code, deoptimization handlers | offsets from the blob | pointers | offsets from the blob | offsets from the blob |
//! | scopes of compiled code | in the blob | in the blob | in a block of their own | in a block of their own |
//! | `Method`s that the scopes name | before the scopes | before the scopes | in the blob's data | in another block |
//! | source file | class | class (up to 14), constant pool | constant pool | constant pool |
//! | compressed numbers | may hold zero bytes | hold none from 20 on | hold none | hold none |
//! | next bytecode in an interpreter frame | slot 7 | slot 8 | slot 8 | slot 8 |
//!
//! A missing row costs only what needs it: without those of scopes or of deoptimization handlers,
//! compiled methods have no lines and no inlined methods; without those of line tables or source
//! files, these are missing.

use ebpf_profiler_core::language::Reason;
use ebpf_programs::walk::identity::hotspot::Fields;

use super::tables::Tables;

/// Types whose fields are read.
const TYPES: [&str; 28] = [
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
    "JDK_Version",
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
    /// End of the prologue, from the start of the code on: four bytes, or two from 23 on.
    pub(super) frame_complete: u32,
    /// A pointer to the start of the code, or its distance from the blob in four bytes.
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
    pub(super) deopt: Option<DeoptLayout>,
    pub(super) scopes: Option<ScopesLayout>,
}

/// Fields of `nmethod` for frames that are to be deoptimized.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeoptLayout {
    pub(super) orig_pc: u32,
    /// Address of the handler, or its distance from the blob in four bytes.
    pub(super) handler: u32,
    /// The same for calls of method handles, if there is one: up to 25.
    pub(super) handler_mh: Option<u32>,
}

/// Location of the table of PCs, of the scopes, and of the methods that these name.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopesLayout {
    pub(super) pcs: u32,
    pub(super) scopes: Scopes,
    pub(super) methods: Methods,
}

/// Location of scopes and PCs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scopes {
    /// In the blob, where the PCs follow them: a pointer to the scopes, or their offset; and the
    /// field behind whose offset the PCs end.
    Inside { data: u32, is_pointer: bool, pcs_end: u32 },
    /// In a block, where they follow the PCs: a pointer to the block, its size, and the offset of
    /// the scopes.
    Outside { immutable: u32, immutable_size: u32, data: u32 },
}

/// Location of methods.
#[derive(Clone, Copy, Debug)]
pub(super) enum Methods {
    /// In the blob, up to the scopes: their offset.
    BeforeScopes(u32),
    /// At the end of the blob: the offset of its data, and their offset in the data, in two bytes.
    InData { data: u32, metadata: u32 },
    /// In a block: a pointer to it, its size, and the size of what precedes them.
    Outside { mutable: u32, mutable_size: u32, relocation: u32 },
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
    /// The flags, and among them the one of methods with a line table, in the low bits.
    pub(super) has_lines: Option<(u32, u32)>,
    pub(super) holder: u32,
    /// Size of `ConstantPool`, which its entries follow.
    pub(super) entries: u32,
    pub(super) length: u32,
    pub(super) class_name: u32,
    pub(super) source: Option<Source>,
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
    /// Length and elements of an array of heaps.
    pub(super) array: Option<[u32; 2]>,
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
        let deopt = DeoptLayout::find(tables, blob.is_relative);
        let nmethod = NmethodLayout {
            size: tables.size("nmethod")?,
            method: of_nmethod("_method")?,
            compile_id: at("nmethod", "_compile_id")?,
            deopt,
            // Return addresses that are handlers have no scopes.
            scopes: deopt.and_then(|_| ScopesLayout::find(tables)),
        };
        let source = at("ConstantPool", "_source_file_name_index").map(Source::ConstantPool);
        let has_lines = tables
            .int("ConstMethod::_has_linenumber_table")
            .or_else(|| tables.int("ConstMethodFlags::_misc_has_linenumber_table"));
        let flags = at("ConstMethod", "_flags").or_else(|| at("ConstMethod", "_flags._flags"));
        let method = MethodLayout {
            const_method: at("Method", "_constMethod")?,
            bytecode: tables.size("ConstMethod")?,
            words: at("ConstMethod", "_constMethod_size")?,
            code_size: at("ConstMethod", "_code_size")?,
            constants: at("ConstMethod", "_constants")?,
            name: at("ConstMethod", "_name_index")?,
            has_lines: flags.zip(has_lines.map(|flag| flag as u32)),
            holder: at("ConstantPool", "_pool_holder")?,
            entries: tables.size("ConstantPool")?,
            length: at("ConstantPool", "_length")?,
            class_name: at("Klass", "_name")?,
            source: source.or_else(|| at("InstanceKlass", "_source_file_name_index").map(Source::Class)),
            // Some versions have the length above the number of users, in one field.
            symbol_length: at("Symbol", "_length")
                .or_else(|| at("Symbol", "_length_and_refcount").map(|at| at + 2))?,
            symbol_body: at("Symbol", "_body").or_else(|| at("Symbol", "_body[0]"))?,
        };
        let array_length = at("GenericGrowableArray", "_len").or_else(|| at("GrowableArrayBase", "_len"));
        let heap = HeapLayout {
            header: tables.size("HeapBlock")?,
            memory: at("CodeHeap", "_memory")?,
            segments: at("CodeHeap", "_segmap")?,
            log2_segment: at("CodeHeap", "_log2_segment_size")?,
            space_low: at("VirtualSpace", "_low_boundary")?,
            space_high: at("VirtualSpace", "_high_boundary")?,
            array: array_length.zip(at("GrowableArray<int>", "_data")).map(<[u32; 2]>::from),
        };
        Some(Layout { version, blob, nmethod, method, heap })
    }
}

impl DeoptLayout {
    fn find(tables: &Tables, is_relative: bool) -> Option<DeoptLayout> {
        let at = |name| tables.offset("nmethod", name).or_else(|| tables.offset("CompiledMethod", name));
        // Pointers, then offsets of 8, of 23 to 25, and from 26 on.
        let handler = ["_deopt_handler_begin"];
        let offsets = ["_deoptimize_offset", "_deopt_handler_offset", "_deopt_handler_entry_offset"];
        let handler_mh = ["_deopt_mh_handler_begin"];
        let offsets_mh = ["_deoptimize_mh_offset", "_deopt_mh_handler_offset"];
        let find = |pointers: &[_], offsets: &[_]| {
            let names = if is_relative { offsets } else { pointers };
            names.iter().find_map(|name| at(*name))
        };
        Some(DeoptLayout {
            orig_pc: at("_orig_pc_offset")?,
            handler: find(&handler, &offsets)?,
            handler_mh: find(&handler_mh, &offsets_mh),
        })
    }
}

impl ScopesLayout {
    fn find(tables: &Tables) -> Option<ScopesLayout> {
        let at = |name| tables.offset("nmethod", name).or_else(|| tables.offset("CompiledMethod", name));
        let of_blob = |name| tables.offset("CodeBlob", name);
        let scopes = match at("_immutable_data") {
            Some(immutable) => Scopes::Outside {
                immutable,
                immutable_size: at("_immutable_data_size")?,
                data: at("_scopes_data_offset")?,
            },
            None => {
                let pointer = at("_scopes_data_begin");
                Scopes::Inside {
                    data: pointer.or_else(|| at("_scopes_data_offset"))?,
                    is_pointer: pointer.is_some(),
                    pcs_end: at("_dependencies_offset")?,
                }
            }
        };
        let methods = match (of_blob("_mutable_data"), scopes) {
            (Some(mutable), _) => Methods::Outside {
                mutable,
                mutable_size: of_blob("_mutable_data_size")?,
                relocation: of_blob("_relocation_size")?,
            },
            (None, Scopes::Inside { .. }) => Methods::BeforeScopes(at("_metadata_offset")?),
            (None, Scopes::Outside { .. }) => {
                Methods::InData { data: of_blob("_data_offset")?, metadata: at("_metadata_offset")? }
            }
        };
        Some(ScopesLayout { pcs: at("_scopes_pcs_offset")?, scopes, methods })
    }
}

#[cfg(test)]
mod tests;
