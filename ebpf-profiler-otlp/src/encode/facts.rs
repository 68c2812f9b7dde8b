//! Build ids and options of an encoding.

use std::sync::Arc;

use ebpf_profiler_core::profile::FrameView;
use ebpf_profiler_core::symbol::Symbol;
use ebpf_profiler_core::trace::Frame;

use crate::identity::BuildIds;
use crate::semantic::frame_type;

/// Build ids of a profile's files, and the encoder's options.
#[derive(Debug)]
pub(super) struct Facts {
    /// Build ids by module of the profile.
    pub(super) modules: Vec<Arc<BuildIds>>,
    pub(super) kernel: BuildIds,
    /// Option [`Encoder::all_frame_types`](crate::Encoder::all_frame_types).
    pub(super) all_frame_types: bool,
    /// Option [`Encoder::linker_names`](crate::Encoder::linker_names).
    pub(super) linker_names: bool,
}

impl Facts {
    /// Returns `true` if the function's linker name is omitted. A function without another name
    /// keeps it.
    pub(super) fn omits_linker_name(&self, symbol: &Symbol) -> bool {
        !self.linker_names && !symbol.system_name.is_empty() && !symbol.function.is_empty()
    }

    /// Returns the value of the attribute `profile.frame.type`.
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

    /// Returns the type of native code by the source file of the innermost function; a Go program
    /// can contain C.
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
