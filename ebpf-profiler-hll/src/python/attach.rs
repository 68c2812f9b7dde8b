//! A process that runs CPython.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::{Attachment, Memory, Reason, Target, Unreadable};
use ebpf_programs::abi::interpreter::{Interpreter, Path};

use super::name::Names;
use super::offsets::{CodeOffsets, CurrentOffsets, ListOffsets, Offsets};
use super::version::Version;
use crate::code::Origin;
use crate::thread_local;

/// The most members of a type that are looked at.
const MAX_MEMBERS: u64 = 64;

/// `{name, kind, offset, flags, documentation}`.
const MEMBER: u64 = 40;

/// The longest name of a member that is of use.
const MEMBER_NAME: usize = 16;

/// What is needed to attach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) arch: Arch,
    pub(super) version: Version,
    pub(super) offsets: Offsets,
    /// From a thread to its thread state.
    ///
    /// In 2.7 only what says whether there is one is of use: the first interpreter.
    pub(super) state: Origin,
    /// What says which thread state is in use, where there is a symbol for it.
    pub(super) current: Option<u64>,
    /// The type of code objects.
    pub(super) code_type: u64,
}

pub(super) fn attach(known: &Known, target: &Target<'_>) -> Result<Attachment, Reason> {
    let mut offsets = known.offsets;
    let code_type = target.address(known.code_type);
    if let Some(members) = offsets.type_members {
        refine(&mut offsets.code, code_type.wrapping_add(members.into()), target.memory())?;
        offsets.frames.check = offsets.code.check();
    }
    let (state, then) = offsets.top;
    let further: &[i64] = &[state, then.unwrap_or(0)];
    let further = if then.is_some() { further } else { &further[..1] };
    // Elsewhere the thread pointer isn't what states have as their thread.
    let is_thread = known.arch == Arch::X86_64;
    let top = match (offsets.listed, offsets.current) {
        (Some(_), _) if !is_thread => return Err(Reason::Unsupported),
        (Some(list), _) => listed(known.state, list, target, further)?,
        (None, Some(current)) if is_thread => in_use(known, current, target, further)?,
        (None, _) => thread_local::path(known.state, target, further)?,
    };
    let interpreter = Interpreter { loops: Default::default(), top, frames: offsets.frames };
    Ok(Attachment { interpreter, names: Box::new(Names::new(known.version, offsets, code_type)) })
}

/// The way to the state in use, or else to the thread's own.
///
/// A thread that works for several interpreters has the state of the first as its own.
fn in_use(
    known: &Known,
    current: CurrentOffsets,
    target: &Target<'_>,
    further: &[i64],
) -> Result<Path, Reason> {
    // {state in use, …, key {whether it is made, its number}}
    const NUMBER: u64 = 4;
    let head = match (known.current, current.before_key, known.state) {
        (Some(symbol), ..) => target.address(symbol),
        (None, Some(before), Origin::Key { number, .. }) => {
            thread_local::address(number, target)?.wrapping_sub(NUMBER + u64::from(before))
        }
        _ => return thread_local::path(known.state, target, further),
    };
    thread_local::current(head, current.thread, known.state, target, further)
}

/// The way over the first interpreter's list of thread states.
fn listed(state: Origin, list: ListOffsets, target: &Target<'_>, further: &[i64]) -> Result<Path, Reason> {
    // It is what the runtime looks at before it asks for a thread's state.
    let Origin::Key { made: Some(interpreter), .. } = state else { return Err(Reason::Unsupported) };
    match target.memory().u64(thread_local::address(interpreter, target)?)? {
        0 => Err(Reason::NotReady),
        interpreter => {
            let head = interpreter.wrapping_add(list.head.into());
            thread_local::listed(head, list.next, list.thread, further).ok_or(Reason::Unsupported)
        }
    }
}

/// Believes what the type says of its fields, more than the table: the table is of another build.
fn refine(code: &mut CodeOffsets, members: u64, memory: &dyn Memory) -> Result<(), Reason> {
    let first = match memory.u64(members)? {
        // The loader hasn't been there yet.
        0 => return Err(Reason::NotReady),
        first => first,
    };
    for index in 0..MAX_MEMBERS {
        let member = first.wrapping_add(index * MEMBER);
        let (name, offset) = (memory.u64(member)?, memory.u64(member.wrapping_add(16))?);
        if name == 0 {
            return Ok(());
        }
        let Ok(offset) = u32::try_from(offset) else { continue };
        if offset.checked_add(8).is_none_or(|end| end > code.size) {
            continue;
        }
        match member_name(name, memory)?.split(|&byte| byte == 0).next().unwrap_or_default() {
            b"co_filename" => code.filename = offset,
            b"co_name" => code.name = offset,
            b"co_qualname" => code.qualname = Some(offset),
            b"co_firstlineno" => code.first_line = offset,
            b"co_lnotab" | b"co_linetable" => code.table = offset,
            _ => {}
        }
    }
    Err(Reason::Implausible)
}

fn member_name(address: u64, memory: &dyn Memory) -> Result<[u8; MEMBER_NAME], Unreadable> {
    memory.array(address)
}
