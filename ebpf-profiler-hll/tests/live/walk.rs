//! A second, simple implementation of the kernel side's walk of a list of frames.

use ebpf_profiler_core::language::{FrameWalker, Memory};
use ebpf_programs::abi::interpreter::{Interpreter, from, position, run};

/// A frame: its function, the check of the function, and the position in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) function: u64,
    pub(crate) check: u32,
    pub(crate) position: u32,
}

/// Returns the frames of a thread, innermost first.
pub(crate) fn calls(walker: &FrameWalker, thread_pointer: u64, memory: &dyn Memory) -> Option<Vec<Call>> {
    let interpreter = &walker.abi().interpreter;
    let top = interpreter.top;
    let mut at = if top.from == from::THREAD { thread_pointer } else { 0 };
    let mut behind = 0;
    for (hop, offset) in top.offsets[..top.hops as usize].iter().enumerate() {
        if hop == 1 && top.from == from::CURRENT {
            match memory.u64(at + u64::from(top.thread)) == Ok(thread_pointer) {
                true => behind = 1 + top.next as usize,
                false if top.next == 0 => at = of_all(interpreter, thread_pointer, memory)?,
                false => at = thread_pointer,
            }
        }
        if hop < behind {
            continue;
        }
        at = memory.u64(at.wrapping_add_signed(*offset)).ok()?;
    }
    let frames = interpreter.frames;
    let mut calls = Vec::new();
    while at != 0 {
        let frame = memory.bytes(at, frames.size.into(), 128).ok()?;
        let word = |at: u32| u64::from_le_bytes(frame[at as usize..][..8].try_into().unwrap());
        let marked = u32::from(frame[frames.end as usize]) & frames.end_mask >= frames.end_value;
        at = word(frames.caller);
        if frames.run == run::BEFORE_MARKED && marked {
            continue;
        }
        let function = word(frames.function) & frames.function_mask;
        let position = match frames.position_kind {
            position::ADDRESS => word(frames.position).wrapping_sub(function) as u32,
            _ => word(frames.position) as u32,
        };
        let check = walker.check(function, |at| memory.u64(at)).ok()?;
        calls.push(Call { function, check, position });
    }
    Some(calls)
}

/// Searches the entry of a thread among those of all interpreters.
fn of_all(interpreter: &Interpreter, thread_pointer: u64, memory: &dyn Memory) -> Option<u64> {
    let others = interpreter.others;
    let word = |at: u64, plus: u32| memory.u64(at + u64::from(plus)).ok();
    let mut owner = word(others.head, 0)?;
    while owner != 0 {
        let mut entry = word(owner, others.entries)?;
        while entry != 0 {
            if word(entry, others.thread)? == thread_pointer {
                return Some(entry);
            }
            entry = word(entry, others.link)?;
        }
        owner = word(owner, others.next)?;
    }
    None
}
