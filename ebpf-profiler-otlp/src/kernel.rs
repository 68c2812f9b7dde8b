//! The kernel, seen as a file like any other.

use ebpf_profiler_core::process::Module;

/// The name of its mapping.
pub(crate) const NAME: &str = "[kernel]";

/// The kernel's module: on every architecture it has the upper half of the addresses.
pub(crate) fn module() -> Module {
    let mut module = Module::new(NAME);
    (module.start, module.end) = (1 << 63, u64::MAX);
    module
}
