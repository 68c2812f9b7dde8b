//! One frame of a stack.

use crate::process::ModuleId;

/// One frame.
///
/// Addresses are those that name the frame: of the interrupted instruction in the leaf, one byte
/// before the return address in every caller, so that they lie in the call and not behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Frame {
    /// Code of the kernel or of a BPF program, at a kernel address.
    Kernel {
        /// The address.
        address: u64,
    },
    /// Code of a mapped file.
    Native {
        /// The file.
        module: ModuleId,
        /// The virtual address in the file, not in the process.
        address: u64,
        /// Method by which the frame was found.
        found: Found,
    },
    /// A function of a script, in place of its interpreter's loop, or of JIT-compiled code.
    Script {
        /// The function.
        function: ScriptId,
        /// The current line; 0 if unknown.
        line: u32,
        /// Method by which the frame was found.
        found: Found,
    },
    /// Code that no file holds: made at run time, or no longer there.
    Anonymous {
        /// The address in the process.
        address: u64,
        /// Method by which the frame was found.
        found: Found,
    },
}

impl Frame {
    /// Returns the method by which the frame was found; `None` for the kernel's.
    pub(crate) fn found(self) -> Option<Found> {
        match self {
            Frame::Native { found, .. } | Frame::Anonymous { found, .. } | Frame::Script { found, .. } => {
                Some(found)
            }
            Frame::Kernel { .. } => None,
        }
    }
}

/// Number of a function of a script: an index into
/// [`Profile::scripts`](crate::profile::Profile::scripts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptId(pub u32);

/// Method by which a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Found {
    /// By unwind data, through a return address.
    Exactly,
    /// By unwind data or registers, without a return address behind a call: the leaf, code that a
    /// signal interrupted, the trampoline by which a signal handler returns, and the outermost
    /// function.
    Uncalled,
    /// Through the frame pointer of code without unwind data; plausible, not proven.
    Guessed,
    /// By a rule that was derived from the instructions of code without unwind data, through a
    /// return address.
    Derived,
    /// In the debug information of its caller, into which a compiler inlined it.
    Inlined,
}
