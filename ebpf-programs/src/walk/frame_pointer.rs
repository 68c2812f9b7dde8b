//! Frames of code without unwind data: follow the frame pointer, believe it only where it can be checked.
//!
//! A frame is taken when the frame pointer is aligned, lies above the stack pointer and not absurdly far from
//! it, and when the return address lies in executable memory behind a call instruction. It is marked as
//! guessed all the same.

use super::Walk;
use super::arch::{Arch, Prologue};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::machine::Machine;

/// The largest frame that is believed.
const MAX_FRAME: u64 = 1 << 24;

/// Goes from the frame at `pc` to its caller's.
#[inline(always)]
pub(super) fn caller<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<(), Stop> {
    let (return_address, sp, fp) = guess::<A, M>(walk, machine, pc)?;
    let target = A::strip(return_address);
    if target == 0 {
        return Err(Stop::Root);
    }
    if !walk.is_code(machine, target.wrapping_sub(1)) || !A::follows_call(machine, target) {
        return Err(Stop::Implausible);
    }
    walk.go::<A>(return_address, sp, fp)?;
    walk.flags = frame::GUESSED;
    walk.guessed += 1;
    Ok(())
}

/// The return address, the caller's stack pointer and frame pointer.
#[inline(always)]
fn guess<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    pc: u64,
) -> Result<(u64, u64, Option<u64>), Stop> {
    let sp = walk.registers.values[A::SP];
    let fp = walk.register(A::FP as u8);
    let exact = walk.flags & frame::EXACT != 0;
    // The first instructions of a function run before its frame stands, and the last one after it is gone.
    let prologue = if exact { A::prologue(machine, pc) } else { Prologue::Done };
    if let Prologue::Pushed(bytes) = prologue {
        let return_address = machine.stack(sp.wrapping_add(bytes)).ok_or(Stop::Unreadable)?;
        let caller = if bytes == 0 { fp } else { machine.stack(sp) };
        return Ok((return_address, sp.wrapping_add(bytes + 8), caller));
    }
    let fp = fp.ok_or(Stop::LostRegister)?;
    if fp == 0 && !exact {
        // By convention the outermost frame of a thread has no frame pointer.
        return Err(Stop::Root);
    }
    if fp & 7 != 0 || fp < sp || fp.wrapping_sub(sp) > MAX_FRAME {
        return Err(Stop::Implausible);
    }
    let caller = machine.stack(fp).ok_or(Stop::Unreadable)?;
    let return_address = machine.stack(fp.wrapping_add(8)).ok_or(Stop::Unreadable)?;
    Ok((return_address, fp.wrapping_add(16), Some(caller)))
}
