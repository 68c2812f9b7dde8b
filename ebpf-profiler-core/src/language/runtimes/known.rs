//! A named function of an interpreter.

use std::sync::Arc;

use crate::language::Function;
use crate::trace::ScriptId;

/// Initial delay until one of the named functions is read again, in nanoseconds; doubles as long as
/// they are the same.
pub(super) const REREAD_DELAY: u64 = 1_000_000_000;

/// A function that was seen in a frame, with its name or the reason why it has none.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) script: ScriptId,
    /// Time at which an unnamed function is read again.
    pub(super) unnamed_until: Option<u64>,
    /// `true` for the address of code that the runtime doesn't know.
    pub(super) is_foreign: bool,
    /// Hidden functions produce no output frame.
    pub(super) is_hidden: bool,
    pub(super) function: Arc<Function>,
    /// The functions inlined into it, by index.
    pub(super) inlined: Box<[ScriptId]>,
}
