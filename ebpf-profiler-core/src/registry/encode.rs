//! The mappings of a process as the kernel side reads them.
//!
//! ```text
//!   region      7f00 ─────────────────── 7f80   libpython.so
//!   mappings    7f00 ── 7f20 ─── 7f28 ── 7f80   table of the file, each
//!                 0       1        0            interpreter whose loop is in it
//! ```

use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::mapping::{Mapping, kind};

use super::limits::MAX_MAPPINGS;
use super::modules::Modules;
use super::processes::Entry;
use super::table::Table;
use crate::language::Memory;
use crate::process::{ModuleId, Region};

/// The mappings and the interpreters of a process, encoded for the arena.
pub(super) struct Encoded {
    pub(super) mappings: Vec<u8>,
    /// Descriptions of its interpreters.
    pub(super) interpreters: Vec<u8>,
    /// The path to the labels of its threads; empty for none.
    pub(super) labels: Vec<u8>,
    /// Walkers that these need, a bit for each.
    pub(super) walkers: u32,
    /// Mappings that wait for a table.
    pub(super) pending: Vec<Pending>,
    /// Its modules, each once, in ascending order.
    pub(super) modules: Vec<ModuleId>,
    /// `true` if memory without a file awaits a runtime.
    pub(super) awaits: bool,
    /// `true` if mappings are left out because there are too many.
    pub(super) is_cut: bool,
}

impl Encoded {
    /// Encodes the regions of a process; `None` if there are none.
    pub(super) fn new(entry: &Entry, modules: &Modules, memory: &dyn Memory, now: u64) -> Option<Encoded> {
        let (parts, is_cut) = parts(entry, modules, memory);
        if parts.is_empty() {
            return None;
        }
        let awaits = entry.awaits_runtime(now);
        let without_file = if awaits { kind::AWAITED } else { kind::BARE };
        let (mappings, pending) = kernel_mappings(&parts, modules, without_file);
        let labels = entry.labels.path().map(|path| path.abi().to_bytes().to_vec()).unwrap_or_default();
        let copies_labels = u32::from(!labels.is_empty()) << walker::LABELS;
        Some(Encoded {
            mappings,
            interpreters: entry.interpreters.bytes(),
            labels,
            walkers: entry.interpreters.walkers() | copies_labels,
            pending,
            modules: modules_of(entry),
            awaits,
            is_cut,
        })
    }

    /// Returns the number of mappings.
    pub(super) fn count(&self) -> u32 {
        (self.mappings.len() / size_of::<Mapping>()) as u32
    }
}

/// A region, or a part of it that a runtime owns.
struct Part<'a> {
    start: u64,
    end: u64,
    region: &'a Region,
    /// `true` if a runtime owns it.
    is_owned: bool,
    /// Index, from 1 on, of the runtime that owns it or has its loop there; 0 for none.
    interpreter: u16,
}

/// Returns the regions of a process, split where their owner changes, and `true` if some are left out because there are too many.
fn parts<'a>(entry: &'a Entry, modules: &Modules, memory: &dyn Memory) -> (Vec<Part<'a>>, bool) {
    let owned = entry.interpreters.owned();
    let mut parts = Vec::with_capacity(entry.regions.len());
    for region in entry.regions.iter() {
        let module = region.file.and_then(|file| modules.get(file.module));
        let is_elf = module.is_some_and(super::modules::Entry::is_elf);
        owned.split(region, is_elf, memory, |start, end, owner| {
            let mut add = |start, end, interpreter| {
                parts.push(Part { start, end, region, is_owned: owner != 0, interpreter });
            };
            match region.file {
                Some(file) if owner == 0 => entry.interpreters.split(file, (start, end), add),
                _ => add(start, end, owner),
            }
        });
    }
    let is_cut = parts.len() > MAX_MAPPINGS;
    parts.truncate(MAX_MAPPINGS);
    (parts, is_cut)
}

/// A mapping whose file has no table yet.
pub(super) struct Pending {
    pub(super) module: ModuleId,
    /// Index among the mappings of the process.
    pub(super) index: u32,
    pub(super) interpreter: u16,
}

/// Returns the parts as the kernel side reads them, and those that wait for a table. Memory without an ELF file and an owner is of
/// kind `without_file`.
fn kernel_mappings(parts: &[Part<'_>], modules: &Modules, without_file: u16) -> (Vec<u8>, Vec<Pending>) {
    let mut bytes = Vec::with_capacity(parts.len() * size_of::<Mapping>());
    let mut pending = Vec::new();
    for (part, index) in parts.iter().zip(0..) {
        let file = part.region.file;
        let module = file.and_then(|file| modules.get(file.module));
        let table = module.filter(|module| module.is_elf()).map(|module| module.table);
        let interpreter = part.interpreter;
        let has_file = !part.region.is_anonymous() && !part.region.is_shared_memory();
        let (place, kind) = match part.is_owned {
            true => (0, kind::RUNTIME),
            false if !has_file => (0, without_file),
            // A file of another format, or code in an archive behind an ELF file: of the runtime that is awaited.
            false => table.map_or((0, without_file), Table::words),
        };
        let may_come = !part.is_owned && has_file && table.is_some_and(Table::may_come);
        if let Some(file) = file
            && may_come
        {
            pending.push(Pending { module: file.module, index, interpreter });
        }
        bytes.extend(part.start.to_ne_bytes());
        bytes.extend(part.end.to_ne_bytes());
        bytes.extend(file.map_or(0, |file| file.bias.in_file(0)).to_ne_bytes());
        bytes.extend(place.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(interpreter.to_ne_bytes());
    }
    (bytes, pending)
}

/// The modules of a process, each once.
fn modules_of(entry: &Entry) -> Vec<ModuleId> {
    let mut modules: Vec<ModuleId> =
        entry.regions.iter().filter_map(|region| Some(region.file?.module)).collect();
    modules.sort_unstable();
    modules.dedup();
    modules.shrink_to_fit();
    modules
}
