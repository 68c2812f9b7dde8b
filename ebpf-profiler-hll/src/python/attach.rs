//! Attaches to a process that runs CPython.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::{
    Attachment, FramePath, FrameWalker, Memory, Reason, Target, ThreadLists, Unreadable,
};

use super::name::Names;
use super::offsets::{CodeOffsets, CurrentOffsets, Identity, Offsets, Position, Run};
use super::version::Version;
use crate::accessor::{Location, Origin};
use crate::thread_local;

/// The newest version that was tested. Later ones are accepted if their offsets pass a check in the process.
const NEWEST: Version = Version(3, 15);

/// Maximum number of interpreters that the check covers.
const MAX_INTERPRETERS: usize = 16;

/// Maximum number of members of a type that are read.
const MAX_MEMBERS: u64 = 64;

/// Size of a `PyMemberDef` `{name, type, offset, flags, doc}`, in bytes.
const MEMBER: u64 = 40;

/// Number of bytes of a member's name that are read; longer than all names that are used.
const MEMBER_NAME: usize = 16;

/// Facts about a runtime that are read once from its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuntimeFacts {
    pub(super) arch: Arch,
    pub(super) version: Version,
    pub(super) offsets: Offsets,
    /// Origin of a thread's thread state; unused in 2.7, which searches a list.
    pub(super) state: Origin,
    /// Virtual address of the pointer to the thread state in use, if there is a symbol for it.
    pub(super) current: Option<u64>,
    /// Location of the pointer to the first interpreter.
    pub(super) interpreters: Option<Location>,
    /// Virtual address of the type of code objects.
    pub(super) code_type: u64,
}

pub(super) fn attach(facts: &RuntimeFacts, target: &Target<'_>) -> Result<Attachment, Reason> {
    let mut offsets = facts.offsets;
    if facts.version > NEWEST {
        check_unknown(facts, target)?;
    }
    let code_type = target.address(facts.code_type);
    if let Some(members) = offsets.type_members {
        refine(&mut offsets.code, code_type.wrapping_add(members.into()), target.memory())?;
    }
    let (state, then) = offsets.top;
    let further: &[i64] = &[state, then.unwrap_or(0)];
    let further = if then.is_some() { further } else { &further[..1] };
    // On other architectures thread states don't hold the thread pointer as their thread id.
    let is_thread = facts.arch == Arch::X86_64;
    let current = offsets.current.filter(|_| is_thread);
    let (path, hops_to_state) = match current {
        Some(current) => in_use(facts, current, target, further)?,
        None if facts.version < Version(3, 0) => return Err(Reason::Unsupported),
        None => own_state(facts.state, target, further)?,
    };
    let frames = offsets.frames;
    let list = FrameWalker::list(path).caller(frames.caller).function(frames.code);
    let list = list.function_mask(frames.code_mask);
    let list = match frames.position {
        Position::Number(offset) => list.position_number(offset),
        Position::Address(offset) => list.position_address(offset),
    };
    let list = match frames.run {
        Run::One => list,
        Run::EndsWith { offset, value } => list.run_ends_with(offset, 0xff, value),
        Run::EndsBefore { offset, value, has_base: false } => list.run_ends_before(offset, 0xff, value),
        Run::EndsBefore { offset, value, .. } => list.run_ends_before_to_base(offset, 0xff, value),
    };
    let list = match offsets.identity().ok_or(Reason::Unsupported)? {
        Identity::Version(offset) => list.identity_number(offset),
        Identity::Contents(offset, contents) => list.identity_contents(offset, contents),
    };
    let list = match (facts.interpreters, offsets.lists) {
        (Some(head), Some(lists)) if is_thread => {
            let lists = ThreadLists::new(thread_local::address(head, target)?)
                .next(lists.interpreter)
                .entries(lists.threads)
                .link(lists.next)
                .thread(lists.thread);
            list.thread_lists(lists, hops_to_state)
        }
        _ => list,
    };
    let walker = list.build().map_err(|_| Reason::Unsupported)?;
    Ok(Attachment::new(walker, Names::new(facts.version, offsets, code_type, walker)))
}

/// Checks the offsets of a version that is newer than all tested ones by the first thread of each interpreter: its id is the address of
/// its control block, which begins with its own address, and its frame's code object is of the type for code. Fails with
/// [`Reason::Unsupported`] otherwise.
fn check_unknown(facts: &RuntimeFacts, target: &Target<'_>) -> Result<(), Reason> {
    let memory = target.memory();
    let offsets = &facts.offsets;
    let lists = offsets.lists.filter(|_| facts.arch == Arch::X86_64).ok_or(Reason::Unsupported)?;
    let word = |at: u64, offset: u32| memory.u64(at.wrapping_add(offset.into()));
    let head = thread_local::address(facts.interpreters.ok_or(Reason::Unsupported)?, target)?;
    let (mut interpreter, mut is_checked) = (memory.u64(head)?, false);
    for _ in 0..MAX_INTERPRETERS {
        if interpreter == 0 {
            break;
        }
        let state = word(interpreter, lists.threads)?;
        let id = if state == 0 { 0 } else { word(state, lists.thread)? };
        // A new state has no thread yet.
        if id != 0 {
            if memory.u64(id).map_err(|_| Reason::Unsupported)? != id {
                return Err(Reason::Unsupported);
            }
            is_checked |= has_code(facts, state, target)?;
        }
        interpreter = word(interpreter, lists.interpreter)?;
    }
    if is_checked { Ok(()) } else { Err(Reason::NotReady) }
}

/// Returns `true` if a thread state has a frame of a code object, `false` if it has no frame or one of the loop itself. Fails with
/// [`Reason::Unsupported`] if that is another object.
fn has_code(facts: &RuntimeFacts, state: u64, target: &Target<'_>) -> Result<bool, Reason> {
    let (memory, offsets) = (target.memory(), &facts.offsets);
    let frame = memory.u64(state.wrapping_add_signed(offsets.top.0))?;
    let Run::EndsBefore { offset, value, .. } = offsets.frames.run else { return Err(Reason::Unsupported) };
    if frame == 0 || memory.array::<1>(frame.wrapping_add(offset.into()))?[0] >= value {
        return Ok(false);
    }
    let code = memory.u64(frame.wrapping_add(offsets.frames.code.into()))? & offsets.frames.code_mask;
    let found = memory.u64(code.wrapping_add(offsets.object_type.into())).map_err(|_| Reason::Unsupported)?;
    if found == target.address(facts.code_type) { Ok(true) } else { Err(Reason::Unsupported) }
}

/// Returns the path over a thread's own state, and the number of its hops that lead to the state.
fn own_state(state: Origin, target: &Target<'_>, further: &[i64]) -> Result<(FramePath, usize), Reason> {
    let path = thread_local::path(state, target)?;
    Ok((FramePath::from_thread_pointer(&[&path, further].concat()), path.len()))
}

/// Returns the path over the thread state in use, or else over the thread's own state, and the
/// number of its hops that lead to a state.
///
/// The own state of a thread that works for several interpreters is that of the first. In 2.7
/// threads have no own state.
fn in_use(
    facts: &RuntimeFacts,
    current: CurrentOffsets,
    target: &Target<'_>,
    further: &[i64],
) -> Result<(FramePath, usize), Reason> {
    // {tstate_current, …, autoTSSkey {is_initialized, key}}
    const NUMBER: u64 = 4;
    let head = match (facts.current, current.before_key, facts.state) {
        (Some(symbol), ..) => target.address(symbol),
        (None, Some(before), Origin::Key { number, .. }) => {
            thread_local::address(number, target)?.wrapping_sub(NUMBER + u64::from(before))
        }
        _ => return own_state(facts.state, target, further),
    };
    let fallback = match facts.version {
        Version(2, _) => {
            ensure_initialized(facts, target)?;
            Vec::new()
        }
        _ => thread_local::path(facts.state, target)?,
    };
    Ok((FramePath::from_entry_in_use(head, current.thread, &fallback, further), 1 + fallback.len()))
}

/// Fails unless an interpreter exists and is in the list, which leads to the states of waiting
/// threads.
fn ensure_initialized(facts: &RuntimeFacts, target: &Target<'_>) -> Result<(), Reason> {
    let head = thread_local::address(facts.interpreters.ok_or(Reason::Unsupported)?, target)?;
    if target.memory().u64(head)? == 0 { Err(Reason::NotReady) } else { Ok(()) }
}

/// Replaces offsets of code objects by those that the type's members declare: the table is of
/// another build.
fn refine(code: &mut CodeOffsets, members: u64, memory: &dyn Memory) -> Result<(), Reason> {
    let first = match memory.u64(members)? {
        // Not relocated yet.
        0 => return Err(Reason::NotReady),
        first => first,
    };
    for index in 0..MAX_MEMBERS {
        let member = first.wrapping_add(index * MEMBER);
        let words: [u8; 24] = memory.array(member)?;
        let [name, _, offset] = words.as_chunks::<8>().0 else { return Err(Reason::Implausible) };
        let (name, offset) = (u64::from_le_bytes(*name), u64::from_le_bytes(*offset));
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
