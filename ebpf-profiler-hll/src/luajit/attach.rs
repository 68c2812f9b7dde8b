//! Attaches to a process that runs LuaJIT.
//!
//! Nothing of the process is read: each frame of the loop leads to its state. Areas of code that it
//! compiles begin with the address of the area before and with their size (`MCLink`): other code
//! that is generated at run time, as PCRE's beside it, isn't its own.

use ebpf_profiler_core::language::{Attachment, CodeRanges, FramePath, FrameWalker, Reason};
use ebpf_programs::abi::interpreter::walker;
use ebpf_programs::abi::luajit::parameter;

use super::build::Build;
use super::name::Names;

pub(super) fn attach(build: Build, parameters: &[u64; parameter::COUNT]) -> Result<Attachment, Reason> {
    let path = FramePath::from_stack_pointer(&[build.layout.native_frame.state as i64]);
    let walker = FrameWalker::with_parameters(walker::LUAJIT, Some(path), parameters);
    let walker = walker.map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names(build)).with_code(CodeRanges::new([]).with_linked_areas()))
}
