//! A process that runs CPython.

use ebpf_profiler_core::elf::Arch;
use ebpf_profiler_core::language::{Attachment, Memory, Reason, Target, Unreadable};
use ebpf_programs::abi::interpreter::{Interpreter, Others, Path};

use super::name::Names;
use super::offsets::{CodeOffsets, CurrentOffsets, ListOffsets, Offsets};
use super::version::Version;
use crate::code::{Origin, Place};
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
    /// The address of the first interpreter.
    pub(super) interpreters: Option<Place>,
    /// The type of code objects.
    pub(super) code_type: u64,
}

pub(super) fn attach(known: &Known, target: &Target<'_>) -> Result<Attachment, Reason> {
    let mut offsets = known.offsets;
    let code_type = target.address(known.code_type);
    if let Some(members) = offsets.type_members {
        refine(&mut offsets.code, code_type.wrapping_add(members.into()), target.memory())?;
    }
    let (check, check_words) = offsets.code.check();
    offsets.frames.check = check;
    let (state, then) = offsets.top;
    let further: &[i64] = &[state, then.unwrap_or(0)];
    let further = if then.is_some() { further } else { &further[..1] };
    // Elsewhere the thread pointer isn't what states have as their thread.
    let is_thread = known.arch == Arch::X86_64;
    let current = offsets.current.filter(|_| is_thread);
    let top = match current {
        Some(current) => in_use(known, current, target, further)?,
        None if known.version < Version(3, 0) => return Err(Reason::Unsupported),
        None => thread_local::path(known.state, target, further)?,
    };
    let others = match (known.interpreters, offsets.lists) {
        (Some(head), Some(lists)) if is_thread => others(&top, head, lists, target, further)?,
        _ => Others::default(),
    };
    let interpreter = Interpreter {
        loops: Default::default(),
        top,
        frames: offsets.frames,
        others,
        check_words,
        reserved: 0,
    };
    Ok(Attachment { interpreter, names: Box::new(Names::new(known.version, offsets, code_type)) })
}

/// The lists of all interpreters' thread states.
fn others(
    top: &Path,
    head: Place,
    lists: ListOffsets,
    target: &Target<'_>,
    further: &[i64],
) -> Result<Others, Reason> {
    Ok(Others {
        head: thread_local::address(head, target)?,
        next: lists.interpreter,
        entries: lists.threads,
        link: lists.next,
        thread: lists.thread,
        hop: top.hops - further.len() as u32,
        reserved: 0,
    })
}

/// The way to the state in use, or else to the thread's own.
///
/// A thread that works for several interpreters has the state of the first as its own. 2.7's has none.
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
    let own = match known.version {
        Version(2, _) => {
            has_begun(known, target)?;
            None
        }
        _ => Some(known.state),
    };
    thread_local::current(head, current.thread, own, target, further)
}

/// Whether there is an interpreter. Without their list there is no way to the states of threads that wait.
fn has_begun(known: &Known, target: &Target<'_>) -> Result<(), Reason> {
    let head = thread_local::address(known.interpreters.ok_or(Reason::Unsupported)?, target)?;
    if target.memory().u64(head)? == 0 { Err(Reason::NotReady) } else { Ok(()) }
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
