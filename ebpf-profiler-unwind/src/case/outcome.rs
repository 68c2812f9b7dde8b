//! Result of a walk.

use std::fmt;

use ebpf_profiler_core::trace::{Found, Stack, Stop};

use crate::walk::{Frame, ScriptCall, Walk};

/// The frames of a walk as text, and its stop reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Frames, leaf first, in the format of a case.
    pub frames: Vec<String>,
    /// Stop reason.
    pub stop: Stop,
}

impl Outcome {
    /// Walks to the end.
    pub(super) fn of<M: Stack>(mut walk: Walk<'_, M>) -> Outcome {
        let frames = walk.by_ref().map(|frame| words(&frame)).collect();
        Outcome { frames, stop: walk.stop().unwrap_or(Stop::TooLong) }
    }
}

/// Formats a frame for a case.
pub(super) fn words(frame: &Frame) -> String {
    match frame {
        Frame::Native(native) => {
            let exact = if native.exact { " exact" } else { "" };
            let guessed = if native.found == Found::Guessed { " guessed" } else { "" };
            let is_loop = if native.is_loop { " loop" } else { "" };
            format!("{:x}{exact}{guessed}{is_loop}", native.address)
        }
        Frame::Call(ScriptCall { interpreter, function, check, position, is_named_by_caller }) => {
            let named = if *is_named_by_caller { " named_by_caller" } else { "" };
            format!("call {interpreter} {function:x} {check:x} {position:x}{named}")
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.frames.iter().try_for_each(|frame| writeln!(f, "frame {frame}"))?;
        writeln!(f, "stop {}  # {}", self.stop as u8, self.stop)
    }
}
