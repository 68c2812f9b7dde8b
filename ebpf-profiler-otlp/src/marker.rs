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

use std::fmt;

use ebpf_profiler_core::profile::TraceView;
use ebpf_profiler_core::trace::Stop;

/// The markers of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Markers {
    /// Before which frame some are left out.
    pub(crate) gap: Option<usize>,
    /// What stands behind the last frame.
    pub(crate) end: Option<Marker>,
}

/// What a marker says. The numbers of missing frames don't show, to keep the stacks few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marker {
    LeftOut,
    Ends(Stop),
}

/// The markers that a stack needs.
pub(crate) fn markers(trace: TraceView<'_>) -> Markers {
    let frames = trace.frames().len();
    let gap = trace.omitted().map(|(_, gap)| gap.min(frames));
    let end = match trace.stop() {
        Stop::TooDeep => None,
        _ if frames > 0 && trace.is_whole() => None,
        stop => Some(Marker::Ends(stop)),
    };
    Markers { gap, end }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Marker::LeftOut => f.write_str("[frames left out]"),
            Marker::Ends(stop) => write!(f, "[{stop}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn markers_can_be_told_apart() {
        let ends = Stop::ALL.iter().map(|&stop| Marker::Ends(stop));
        let all: Vec<String> = ends.chain([Marker::LeftOut]).map(|marker| marker.to_string()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    }
}
