//! Attaches to a process that runs Ruby.

use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Reason, Target};

use ebpf_programs::abi::interpreter::walker;

use super::name::Names;
use super::offsets::Offsets;
use super::symbol::Symbols;
use crate::accessor::Origin;
use crate::thread_local;

/// Offset of the innermost control frame in an execution context, in all versions.
const INNERMOST: i64 = 16;

/// Facts about a runtime that are read once from its file.
#[derive(Clone, Debug)]
pub(super) struct RuntimeFacts {
    pub(super) offsets: Offsets,
    /// Origin of the thread's execution context, from 3.0 on.
    pub(super) context: Option<Origin>,
    /// Virtual address of the pointer to the execution context in use, up to 2.7.
    pub(super) global: Option<u64>,
    /// Virtual addresses of variables, one of which is the global symbol table.
    pub(super) tables: Vec<u64>,
}

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let offsets = facts.offsets;
    let variables = facts.tables.iter().map(|variable| target.address(*variable));
    let symbols = Symbols::find(variables, &offsets, target.memory())?;
    let path = match (facts.global, facts.context) {
        (Some(global), _) => FramePath::from_address(target.address(global), &[INNERMOST]),
        (None, Some(origin)) => {
            let mut path = thread_local::path(origin, target)?;
            path.push(INNERMOST);
            FramePath::from_thread_pointer(&path)
        }
        (None, None) => return Err(Reason::Unsupported),
    };
    let walker = FrameWalker::with_parameters(walker::RUBY, Some(path), &[offsets.frame_size.into()]);
    let walker = walker.map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(offsets, symbols)))
}
