//! Names of kernel functions, kept in the recording: they differ between kernels, and between boots
//! of one.

use hashbrown::HashMap;

use super::Recorder;
use crate::process::Module;
use crate::symbol::{Symbol, SymbolStats, Symbolizer};

/// Records the names of kernel functions that another symbolizer returns.
pub struct RecordingSymbolizer {
    symbolizer: Box<dyn Symbolizer>,
    recorder: Recorder,
}

/// Names kernel functions by the recording and native code by another symbolizer.
pub(super) struct RecordedNames {
    pub(super) symbolizer: Box<dyn Symbolizer>,
    pub(super) kernel: HashMap<u64, Vec<Symbol>>,
}

/// Names kernel functions by another symbolizer, and no native code.
///
/// It suffices for a recording without a profile: its replay names native code.
pub struct KernelOnly<'s>(pub &'s mut dyn Symbolizer);

impl RecordingSymbolizer {
    /// Returns a symbolizer that forwards to `symbolizer` and writes to `recorder`.
    pub fn new(symbolizer: Box<dyn Symbolizer>, recorder: Recorder) -> RecordingSymbolizer {
        RecordingSymbolizer { symbolizer, recorder }
    }
}

impl std::fmt::Debug for RecordingSymbolizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingSymbolizer").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for KernelOnly<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KernelOnly")
    }
}

impl Symbolizer for RecordingSymbolizer {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.symbolizer.native(module, addresses, name);
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        let recorder = &self.recorder;
        self.symbolizer.kernel(addresses, &mut |number, functions| {
            if let Some(&address) = addresses.get(number) {
                recorder.kernel(address, functions);
            }
            name(number, functions);
        });
    }

    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        self.symbolizer.starts(module, addresses, begin);
    }

    fn calls(&mut self, module: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        self.symbolizer.calls(module, addresses, doubt);
    }

    fn stats(&self) -> SymbolStats {
        self.symbolizer.stats()
    }
}

impl Symbolizer for KernelOnly<'_> {
    fn native(&mut self, _: &Module, _: &[u64], _: &mut dyn FnMut(usize, &[Symbol])) {}

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.0.kernel(addresses, name);
    }
}

impl Symbolizer for RecordedNames {
    fn native(&mut self, module: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        self.symbolizer.native(module, addresses, name);
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (number, address) in addresses.iter().enumerate() {
            if let Some(functions) = self.kernel.get(address) {
                name(number, functions);
            }
        }
    }

    fn starts(&mut self, module: &Module, addresses: &[u64], begin: &mut dyn FnMut(usize, u64)) {
        self.symbolizer.starts(module, addresses, begin);
    }

    fn calls(&mut self, module: &Module, addresses: &[u64], doubt: &mut dyn FnMut(usize)) {
        self.symbolizer.calls(module, addresses, doubt);
    }

    fn stats(&self) -> SymbolStats {
        self.symbolizer.stats()
    }
}
