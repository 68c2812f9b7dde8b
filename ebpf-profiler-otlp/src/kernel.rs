//! The kernel as a mapping.

use ebpf_profiler_core::process::Module;

/// The name of the kernel's mapping.
pub(crate) const NAME: &str = "[kernel]";

/// Returns the kernel's module: the upper half of the addresses, on all architectures.
pub(crate) fn module() -> Module {
    let mut module = Module::new(NAME);
    (module.start, module.end) = (1 << 63, u64::MAX);
    module
}
