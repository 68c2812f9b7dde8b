//! Frames of code that has an unwind table.

use super::Walk;
use super::arch::Arch;
use super::table::{Table, find_rule};
use crate::abi::mapping::{Mapping, kind};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::{Rule, cfa, fp, kept, ra};
use crate::machine::Machine;

/// Whether a table says that the function at `pc`, in `mapping`, is the outermost of its stack.
#[inline(always)]
pub(super) fn is_outermost<M: Machine>(machine: &M, mapping: &Mapping, pc: u64) -> bool {
    if mapping.kind != kind::TABLE {
        return false;
    }
    let rule = find_rule(machine, mapping.table, pc.wrapping_add(mapping.bias), false);
    rule.is_some_and(|rule| rule.cfa == cfa::END)
}

/// The rule for the frame at `pc`, whose mapping is the current one; `None` where nothing describes the code.
#[inline(always)]
pub(super) fn rule<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<Option<Rule>, Stop> {
    let place = walk.mapping.table;
    let address = pc.wrapping_add(walk.mapping.bias);
    let called = walk.flags & frame::EXACT == 0;
    // The same address may have another rule where a call should end there.
    let key = address << 1 | called as u64;
    if let Some(rule) = machine.cached_rule(place, key) {
        return Ok(Some(rule));
    }
    if !walk.table.is_at(place) {
        walk.table = Table::load(machine, place).ok_or(Stop::BadTable)?;
    }
    let rule = walk.table.find(machine, address, called).ok_or(Stop::BadTable)?;
    if rule.cfa == cfa::NO_DATA {
        return Ok(None);
    }
    machine.cache_rule(place, key, &rule);
    Ok(Some(rule))
}

/// Takes the current frame and goes to its caller's where its rule is at hand and as most are, and what it reads is near; else
/// nothing happens.
#[inline(always)]
pub(super) fn usual<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let pc = (walk.registers.pc & frame::ADDRESS).wrapping_sub(1);
    if pc.wrapping_sub(walk.mapping.start) >= walk.mapping.end.wrapping_sub(walk.mapping.start) {
        return None;
    }
    let rule = if M::VERIFIED {
        machine.cached_rule(walk.mapping.table, pc.wrapping_add(walk.mapping.bias) << 1 | 1)?
    } else {
        rule(walk, machine, pc).ok()??
    };
    if rule.cfa != cfa::REGISTER {
        return None;
    }
    // Elsewhere is where arm64 has it.
    let from_cfa = match rule.ra {
        ra::BELOW => -8,
        kind if !M::VERIFIED && kind & !ra::SIGNED == ra::SAVED => rule.aux as i64,
        _ => return None,
    };
    let sp = walk.registers.values[A::SP];
    let base = if rule.register == A::SP as u8 {
        sp
    } else if rule.register == A::FP as u8 && !M::VERIFIED {
        walk.register(A::FP as u8)?
    } else {
        return None;
    };
    let cfa = base.wrapping_add(rule.offset as i64 as u64);
    if base == 0 || cfa <= sp {
        return None;
    }
    let (fp, known) = match rule.fp {
        fp::SAME => (walk.registers.values[A::FP], walk.registers.known & (1 << A::SP | 1 << A::FP)),
        fp::SAVED => {
            (machine.read_cached(cfa.wrapping_add(rule.fp_offset as i64 as u64))?, 1 << A::SP | 1 << A::FP)
        }
        _ => return None,
    };
    let return_address = A::strip(machine.read_cached(cfa.wrapping_add(from_cfa as u64))?);
    if return_address == 0 {
        return None;
    }
    machine.push_frame(pc);
    walk.taken += 1;
    walk.words += 1;
    walk.registers.pc = return_address;
    walk.registers.values[A::SP] = cfa;
    walk.registers.values[A::FP] = fp;
    walk.registers.known = known;
    Some(())
}

/// Goes from the frame at `pc` to its caller's by a rule.
#[inline(always)]
pub(super) fn apply<A: Arch, M: Machine>(
    walk: &mut Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
) -> Result<(), Stop> {
    if rule.cfa < cfa::REGISTER {
        return Err(if rule.cfa == cfa::END { Stop::Root } else { Stop::Unsupported });
    }
    let register = walk.register(rule.register).ok_or(Stop::LostRegister)?;
    if register == 0 {
        // By convention the outermost frame of a stack has no frame pointer.
        return Err(Stop::Root);
    }
    let base = register.wrapping_add(rule.offset as i64 as u64);
    let cfa = match rule.cfa {
        cfa::REGISTER => base,
        cfa::DEREF => {
            let value = machine.read_stack(base).ok_or(Stop::Unreadable)?;
            value.wrapping_add(rule.aux as i64 as u64)
        }
        cfa::PLT if pc & 15 >= rule.aux as u64 => base.wrapping_add(8),
        cfa::PLT => base,
        cfa::DEPTH => from_top(machine, base).ok_or(Stop::Unreadable)?.wrapping_add(rule.aux as i64 as u64),
        _ => return signal::<A, M>(walk, machine, base),
    };
    // The lower word first: the machine reads ahead, upwards.
    let kept = keep(walk, machine, cfa, rule);
    let fp = frame_pointer::<A, M>(walk, machine, cfa, rule)?;
    let place = match rule.ra & ra::KIND {
        ra::BELOW => Some(cfa.wrapping_sub(8)),
        ra::SAVED => Some(cfa.wrapping_add(rule.aux as i64 as u64)),
        _ => None,
    };
    let return_address = match place {
        Some(place) => machine.read_stack(place).ok_or(Stop::Unreadable)?,
        None => walk.register(rule.aux as u8).ok_or(Stop::LostRegister)?,
    };
    walk.enter_caller::<A>(return_address, cfa, fp)?;
    if let Some(value) = kept {
        let number = kept_register(rule);
        walk.registers.values[number as usize] = value;
        walk.registers.known |= 1 << number;
    }
    walk.flags = 0;
    Ok(())
}

/// The caller's frame pointer, where it can be had.
#[inline(always)]
fn frame_pointer<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    cfa: u64,
    rule: &Rule,
) -> Result<Option<u64>, Stop> {
    let base = match rule.fp & fp::KIND {
        fp::SAME => return Ok(walk.register(A::FP as u8)),
        fp::SAVED => cfa,
        fp::DIRECT => walk.register(A::FP as u8).ok_or(Stop::LostRegister)?,
        _ => return Ok(None),
    };
    Ok(machine.read_stack(base.wrapping_add(rule.fp_offset as i64 as u64)))
}

/// The stack pointer on a stack that may have been moved, from what lies at `place`: see `DEPTH`.
#[inline(always)]
fn from_top<M: Machine>(machine: &mut M, place: u64) -> Option<u64> {
    let depth = machine.read_stack(place)?;
    let object = machine.read_stack(place.wrapping_add(8))?;
    if object == 0 {
        return Some(depth);
    }
    Some(machine.read_memory(object.wrapping_add(8))?.wrapping_sub(depth))
}

/// The number of the register that a rule keeps, 0 for none.
#[inline(always)]
fn kept_register(rule: &Rule) -> u8 {
    rule.ra >> kept::SHIFT & kept::NUMBER
}

/// The caller's value of that register.
#[inline(always)]
fn keep<M: Machine>(walk: &Walk, machine: &mut M, cfa: u64, rule: &Rule) -> Option<u64> {
    let number = kept_register(rule);
    if number == 0 {
        return None;
    }
    match rule.fp >> kept::SHIFT {
        kept::SAME => walk.register(number),
        kept::LOST => None,
        place => machine.read_stack(cfa.wrapping_sub(8 + 8 * place as u64)),
    }
}

/// Takes the registers of the code that a signal interrupted.
#[inline(always)]
fn signal<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, context: u64) -> Result<(), Stop> {
    let pc = machine.read_stack(context.wrapping_add(A::SIGNAL_PC)).ok_or(Stop::Unreadable)?;
    let sp = machine.read_stack(context.wrapping_add(A::SIGNAL_SP)).ok_or(Stop::Unreadable)?;
    let fp = machine.read_stack(context.wrapping_add(A::SIGNAL_FP));
    walk.set_frame::<A>(pc, sp, fp)?;
    walk.flags = frame::EXACT;
    Ok(())
}
