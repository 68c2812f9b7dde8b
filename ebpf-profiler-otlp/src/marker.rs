//! What stands in a stack for the frames that are missing in it.
//!
//! ```text
//!   leaf   memcpy                          leaf   recurse
//!          copy_file                              recurse
//!   root   [stack not readable]                   [frames left out]
//!                                          root   main
//! ```
//!
//! Without it a stack that was cut would look like one that begins in the middle of a program.

use ebpf_profiler_core::profile::TraceView;
use ebpf_profiler_core::trace::Stop;

/// The markers of one stack.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    /// Before which frame, and what it says.
    pub(crate) gap: Option<(usize, &'static str)>,
    /// Behind the last frame.
    pub(crate) end: Option<String>,
}

/// The markers that a stack needs. The numbers of missing frames don't show, to keep the stacks few.
pub(crate) fn markers(trace: TraceView<'_>) -> Markers {
    let frames = trace.frames().len();
    let gap = trace.omitted().map(|(_, gap)| (gap.min(frames), GAP));
    let end = match trace.stop() {
        Stop::TooDeep => None,
        _ if frames > 0 && trace.is_whole() => None,
        stop => Some(format!("[{stop}]")),
    };
    Markers { gap, end }
}

const GAP: &str = "[frames left out]";
