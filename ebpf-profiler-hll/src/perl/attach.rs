//! Attaches to a process that runs Perl.

use ebpf_profiler_core::language::{Attachment, FramePath, FrameWalker, Reason, Target};
use ebpf_programs::abi::interpreter::walker;

use super::find::{RuntimeFacts, State};
use super::name::Names;
use crate::accessor::{Location, Origin};
use crate::thread_local;

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let operations = facts.operations.operations(target)?;
    let address = |of_file: u64| if of_file == 0 { 0 } else { target.address(of_file) };
    let (path, variable) = match facts.state {
        State::OfThread { key } => {
            let origin = Origin::Key { number: Location::at(key), created: None };
            (FramePath::from_thread_pointer(&thread_local::path(origin, target)?), 0)
        }
        State::OfProcess { statement, stack } => {
            (FramePath::from_address(target.address(stack), &[]), target.address(statement))
        }
    };
    // The current statement in the interpreter; the current stack is 16 bytes behind.
    let statement = if facts.version < 34 { 224 } else { 208 };
    let parameters = [statement, address(operations.catch.start), address(operations.catch.end), variable];
    let walker = FrameWalker::with_parameters(walker::PERL, Some(path), &parameters)
        .map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(facts.version, target.address(operations.next_state))))
}
