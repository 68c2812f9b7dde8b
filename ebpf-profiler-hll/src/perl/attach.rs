//! Attaches to a process that runs Perl.

use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Reason, Target};
use ebpf_programs::abi::interpreter::walker;

use super::find::RuntimeFacts;
use super::name::Names;
use crate::accessor::{Location, Origin};
use crate::thread_local;

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let origin = Origin::Key { number: Location::at(facts.key), created: None };
    let path = FramePath::from_thread_pointer(&thread_local::path(origin, target)?);
    // The current statement in the interpreter; the current stack is 16 bytes behind.
    let statement = if facts.version < 34 { 224 } else { 208 };
    let operations = facts.operations.operations(target)?;
    let address = |of_file: u64| if of_file == 0 { 0 } else { target.address(of_file) };
    let parameters = [statement, address(operations.catch.start), address(operations.catch.end)];
    let walker = FrameWalker::with_parameters(walker::PERL, Some(path), &parameters)
        .map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(facts.version, target.address(operations.next_state))))
}
