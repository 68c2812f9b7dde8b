//! Names of kernel functions alone.

use super::{Symbol, SymbolStats, Symbolizer, Symbols};
use crate::process::Module;

/// A symbolizer that names kernel functions, and leaves the code of files to
/// [`Profile::symbolize`].
///
/// Kernel addresses mean nothing after the next boot or on another machine; files can be named
/// there by their build ids.
///
/// # Examples
///
/// ```no_run
/// # #[cfg(feature = "live")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, symbol::KernelSymbols};
/// use std::time::Duration;
///
/// let builder = Profiler::builder().symbolizer(KernelSymbols::default());
/// let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
/// let profile = profiler.run_for(Duration::from_secs(10))?;
/// profile.encode(&mut std::fs::File::create("machine.profile")?)?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "live"))]
/// # fn main() {}
/// ```
///
/// [`Profile::symbolize`]: crate::profile::Profile::symbolize
#[doc(alias = "kallsyms")]
#[derive(Debug, Default)]
pub struct KernelSymbols(Symbols);

impl Symbolizer for KernelSymbols {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.0.kernel(addresses, name);
    }

    fn has_kernel(&self, boot_id: &str) -> bool {
        self.0.has_kernel(boot_id)
    }

    fn stats(&self) -> SymbolStats {
        self.0.stats()
    }
}
