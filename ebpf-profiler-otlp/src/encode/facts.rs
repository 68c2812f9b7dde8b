//! What is to be known of a profile besides what it says, and how much of it is to be told.

use std::sync::Arc;

use ebpf_profiler_core::profile::FrameView;
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;

use crate::identity::BuildIds;
use crate::semantic::frame_type;

/// What numbers need besides the profile.
#[derive(Debug)]
pub(super) struct Facts {
    /// Of each module of the profile.
    pub(super) modules: Vec<Arc<BuildIds>>,
    pub(super) kernel: BuildIds,
    /// Whether frames have types that not everybody accepts.
    pub(super) all_frame_types: bool,
    /// Whether functions have the names that the linker knows them by.
    pub(super) linker_names: bool,
}

impl Facts {
    /// Whether a function has a linker's name that is not to be said. One without another name keeps it.
    pub(super) fn leaves_out_linker_name(&self, symbol: &Symbol) -> bool {
        !self.linker_names && !symbol.system_name.is_empty() && !symbol.function.is_empty()
    }

    pub(super) fn frame_type(&self, frame: FrameView<'_>) -> &'static str {
        let precise = match frame.frame() {
            Frame::Kernel { .. } => return frame_type::KERNEL,
            Frame::Native { module, .. } => self.native_type(module.0 as usize, frame.symbols()),
            Frame::Script { .. } => frame.script().map_or("", |script| script.language),
            _ => return frame_type::NATIVE,
        };
        let is_accepted = || frame_type::ACCEPTED.contains(&precise);
        match precise {
            "" => frame_type::NATIVE,
            precise if self.all_frame_types || is_accepted() => precise,
            _ => frame_type::NATIVE,
        }
    }

    /// The innermost function decides; a Go program holds C as well.
    fn native_type(&self, module: usize, symbols: &[Symbol]) -> &'static str {
        let file = symbols.first().map_or(&b""[..], |symbol| symbol.file.as_bytes());
        let is_go = !self.modules[module].go.is_empty();
        match file {
            [.., b'.', b'g', b'o'] => frame_type::GO,
            [] | [.., b'.', b's'] if is_go => frame_type::GO,
            [.., b'.', b'r', b's'] => frame_type::RUST,
            _ => frame_type::NATIVE,
        }
    }
}
