//! Attaches to a process that runs Ruby.

use std::ops::Range;

use ebpf_profiler_core::language::{Attachment, CodeRanges, FramePath, FrameWalker, Reason, Target};

use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::ruby::{CONTEXT_FRAME, PARAMETER_COLLECTION, PARAMETER_STRING, PARAMETER_TEXT};

use super::collection::Collection;
use super::name::Names;
use super::offsets::Offsets;
use super::symbol::Symbols;
use crate::accessor::Origin;
use crate::thread_local;

/// Facts about a runtime that are read once from its file.
#[derive(Clone, Debug)]
pub(super) struct RuntimeFacts {
    pub(super) offsets: Offsets,
    /// Origin of the thread's execution context; up to 2.7 of the thread's structure, which leads
    /// to it.
    pub(super) context: Origin,
    /// Ranges of the loop's caller, in virtual addresses.
    pub(super) callers: Vec<Range<u64>>,
    /// Range of all code, in virtual addresses.
    pub(super) text: Range<u64>,
    /// Virtual addresses of variables, one of which is the global symbol table.
    pub(super) tables: Vec<u64>,
    /// Flag of the garbage collector; `None` if unknown.
    pub(super) collection: Option<Collection>,
}

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let offsets = facts.offsets;
    let variables = facts.tables.iter().map(|variable| target.address(*variable));
    let symbols = Symbols::find(variables, &offsets, target.memory())?;
    let mut path = thread_local::path(facts.context, target)?;
    path.extend(offsets.thread_context.map(i64::from));
    path.push(CONTEXT_FRAME as i64);
    let path = FramePath::from_thread_pointer(&path);
    let mut parameters = vec![u64::from(offsets.frame_size)];
    for range in &facts.callers {
        parameters.extend([range.start, range.end].map(|address| target.address(address)));
    }
    parameters.resize(PARAMETER_TEXT, 0);
    parameters.extend([facts.text.start, facts.text.end].map(|address| target.address(address)));
    parameters.resize(PARAMETER_COLLECTION, 0);
    if let Some(collection) = &facts.collection {
        parameters.extend(collection.flag(target)?);
    }
    parameters.resize(PARAMETER_STRING, 0);
    parameters.push(offsets.text.data.into());
    let walker = FrameWalker::with_parameters(walker::RUBY, Some(path), &parameters);
    let walker = walker.map_err(|_| Reason::Unsupported)?;
    let attachment = Attachment::new(walker, Names::new(offsets, symbols));
    // Code in it that Ruby didn't compile is walked as if it belonged to nobody.
    Ok(attachment.with_code(CodeRanges::new([]).with_anonymous()))
}
