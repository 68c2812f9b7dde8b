//! Marker frames in place of missing ones.
//!
//! ```text
//!   leaf   memcpy                          leaf   recurse
//!          copy_file                              recurse
//!   root   [stack not readable]                   [frames left out]
//!                                          root   main
//! ```
//!
//! Without a marker, an incomplete stack would look like a complete one that begins in the middle
//! of a program.

use std::fmt;

use ebpf_profiler_core::profile::TraceView;
use ebpf_profiler_core::trace::Stop;

/// The markers of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Markers {
    /// Index of the frame before which frames are missing.
    pub(crate) gap: Option<usize>,
    /// Marker after the last frame.
    pub(crate) end: Option<Marker>,
}

/// The text of a marker. It omits the number of missing frames, to keep the number of distinct
/// stacks low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marker {
    Omitted,
    Ends(Stop),
}

/// Returns the markers of a stack.
pub(crate) fn markers(trace: TraceView<'_>) -> Markers {
    let frames = trace.frames().len();
    let gap = trace.omitted().map(|(_, gap)| gap.min(frames));
    let end = match trace.stop() {
        Stop::TooDeep => None,
        Stop::Exec => Some(Marker::Ends(Stop::Exec)),
        _ if frames > 0 && trace.is_whole() => None,
        stop => Some(Marker::Ends(stop)),
    };
    Markers { gap, end }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Marker::Omitted => f.write_str("[frames left out]"),
            Marker::Ends(stop) => write!(f, "[{stop}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn markers_have_distinct_texts() {
        let ends = Stop::ALL.iter().map(|&stop| Marker::Ends(stop));
        let all: Vec<String> = ends.chain([Marker::Omitted]).map(|marker| marker.to_string()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    }
}
