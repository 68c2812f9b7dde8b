//! Attaches to a process that runs PHP.

use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Reason, Target};

use super::find::RuntimeFacts;
use super::name::Names;
use super::offsets::{IDENTITY_WORDS, frame};

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let offsets = facts.offsets;
    let path = FramePath::from_address(target.address(facts.current), &[]);
    let walker = FrameWalker::list(path)
        .caller(frame::PREVIOUS)
        .function(frame::FUNC)
        .position_address(frame::OPLINE)
        .identity_words(offsets.identity(), IDENTITY_WORDS)
        .run_ends_with(frame::CALL_INFO, frame::TOP, frame::TOP)
        .build()
        .map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(offsets, walker)))
}
