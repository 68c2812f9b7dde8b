//! The state of a process in the kernel maps.

use ebpf_programs::abi::mapping::{Mapping, Process};

use crate::process::ModuleId;

/// The state of a process in the kernel maps. Forked children share it until their mappings change.
pub(super) struct Published {
    pub(super) process: Process,
    /// Its modules, each once, in ascending order.
    pub(super) modules: Vec<ModuleId>,
    /// `true` if memory without a file awaits a runtime.
    pub(super) awaits: bool,
    /// Bytes of the descriptions of its interpreters in the arena.
    pub(super) described: usize,
    /// Bytes of its label path in the arena.
    pub(super) labels: usize,
}

impl Published {
    /// Returns the number of bytes of its mappings in the arena.
    pub(super) fn mapped(&self) -> usize {
        self.process.count as usize * size_of::<Mapping>()
    }

    /// Returns `true` if the process maps the file of a module.
    pub(super) fn has(&self, id: ModuleId) -> bool {
        self.modules.binary_search(&id).is_ok()
    }
}
