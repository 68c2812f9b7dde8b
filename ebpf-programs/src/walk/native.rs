//! Frames of code that has an unwind table.
//!
//! ```text
//!   step: rule ──► caller ──► Walk::enter_caller       any rule, reads the stack
//!   run:  rule ──► caller ──► Walk::set_caller         plain rules only, reads what is cached
//! ```
//!
//! [`caller`] is the only code that applies a rule, in the kernel and on the host, in a step and in a run.

use super::arch::Arch;
use super::table::{Table, find_rule};
use super::{Caller, Walk};
use crate::abi::mapping::{Mapping, kind};
use crate::abi::reason::Stop;
use crate::abi::record::frame;
use crate::abi::table::{Rule, cfa, fp, kept, ra};
use crate::machine::Machine;

/// Returns `true` if the unwind table of `mapping` marks the function at `pc` as the outermost of its stack.
#[inline(always)]
pub(super) fn is_outermost<M: Machine>(machine: &M, mapping: &Mapping, pc: u64) -> bool {
    if mapping.kind != kind::TABLE {
        return false;
    }
    let rule = find_rule(machine, mapping.table, pc.wrapping_add(mapping.bias), false);
    rule.is_some_and(|rule| rule.cfa == cfa::END)
}

/// Returns the rule for the frame at `pc`, which lies in the current mapping; `None` if the code has no unwind data.
#[inline(always)]
fn rule<M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<Option<Rule>, Stop> {
    let place = walk.mapping.table;
    let (address, is_call, key) = key(walk, pc);
    if let Some(rule) = machine.cached_rule(place, key) {
        return Ok(Some(rule));
    }
    if !walk.table.is_at(place) {
        walk.table = Table::load(machine, place).ok_or(Stop::BadTable)?;
    }
    let rule = walk.table.find(machine, address, is_call).ok_or(Stop::BadTable)?;
    if rule.cfa == cfa::NO_DATA {
        return Ok(None);
    }
    machine.cache_rule(place, key, &rule);
    Ok(Some(rule))
}

/// Returns the virtual address of `pc` in its file, whether the frame is at a call, and the key of its rule in a cache. The
/// key includes both, because the end of a call may have another rule than the same address elsewhere.
#[inline(always)]
fn key(walk: &Walk, pc: u64) -> (u64, bool, u64) {
    let address = pc.wrapping_add(walk.mapping.bias);
    let is_call = walk.flags & frame::EXACT == 0;
    (address, is_call, address << 1 | is_call as u64)
}

/// Unwinds from the frame at `pc`, which was emitted, to its caller. Returns `false` if the code has no unwind data.
#[inline(always)]
pub(super) fn step<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M, pc: u64) -> Result<bool, Stop> {
    let Some(rule) = rule(walk, machine, pc)? else { return Ok(false) };
    let read = |machine: &mut M, address| Ok(machine.read_stack(address));
    let caller = caller::<A, M>(walk, machine, pc, &rule, read)?;
    walk.enter_caller::<A>(&caller)?;
    Ok(true)
}

/// Emits the current frame and unwinds to its caller, if its rule is plain and the words that it reads are cached.
/// Otherwise returns `None` and changes nothing.
#[inline(always)]
pub(super) fn run<A: Arch, M: Machine>(walk: &mut Walk, machine: &mut M) -> Option<()> {
    let pc = (walk.registers.pc & frame::ADDRESS).wrapping_sub(1);
    if !walk.is_in_mapping(pc) {
        return None;
    }
    let rule = if M::VERIFIED {
        machine.cached_rule(walk.mapping.table, key(walk, pc).2)?
    } else {
        rule(walk, machine, pc).ok()??
    };
    if !is_plain::<A, M>(&rule) {
        return None;
    }
    let read = |machine: &mut M, address| machine.read_cached(address).map(Some).ok_or(Stop::Unreadable);
    let caller = caller::<A, M>(walk, machine, pc, &rule, read).ok()?;
    if caller.pc == 0 || caller.sp <= walk.registers.values[A::SP] {
        return None;
    }
    machine.push_frame(pc);
    walk.taken += 1;
    walk.words += 1;
    walk.set_caller::<A>(&caller);
    Some(())
}

/// Returns `true` if a run applies this rule, which most frames have.
///
/// In the kernel of x86_64 a run excludes further rules, which steps apply: the verifier follows 26,611 instructions as it is, and
/// 31,533 if a run may start from the frame pointer or read the return address elsewhere. On arm64 no frame would be left.
#[inline(always)]
fn is_plain<A: Arch, M: Machine>(rule: &Rule) -> bool {
    let is_wide = !M::VERIFIED || A::SIGNAL_LINK.is_some();
    let ra = rule.ra == ra::BELOW || is_wide && rule.ra & !ra::SIGNED == ra::SAVED;
    let base = rule.register == A::SP as u8 || is_wide && rule.register == A::FP as u8;
    rule.cfa == cfa::REGISTER && ra && base && (rule.fp == fp::SAME || rule.fp == fp::SAVED)
}

/// Applies a rule: returns the registers of the caller of the frame at `pc`.
///
/// `read` reads a word of the stack. It returns `Ok(None)` if the word is not readable, and an error to give up.
#[inline(always)]
fn caller<A: Arch, M: Machine>(
    walk: &Walk,
    machine: &mut M,
    pc: u64,
    rule: &Rule,
    read: impl Fn(&mut M, u64) -> Result<Option<u64>, Stop>,
) -> Result<Caller, Stop> {
    if rule.cfa < cfa::REGISTER {
        return Err(match rule.cfa {
            cfa::END if rule.aux != 0 => Stop::Coroutine,
            cfa::END => Stop::Root,
            _ => Stop::Unsupported,
        });
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
            let value = read(machine, base)?.ok_or(Stop::Unreadable)?;
            value.wrapping_add(rule.aux as i64 as u64)
        }
        cfa::PLT if pc & 15 >= rule.aux as u64 => base.wrapping_add(8),
        cfa::PLT => base,
        cfa::DEPTH => from_top(machine, base).ok_or(Stop::Unreadable)?.wrapping_add(rule.aux as i64 as u64),
        _ => return interrupted::<A, M>(machine, base),
    };
    // Lowest word first: the machine reads ahead, upwards.
    let number = kept_register(rule);
    let kept = if number == 0 { None } else { kept_value(walk, machine, cfa, rule) };
    let registers = &walk.registers;
    let (fp, is_fp_known) = match rule.fp & fp::KIND {
        fp::SAME => (registers.values[A::FP], registers.known >> A::FP & 1 != 0),
        fp::SAVED => known(read(machine, cfa.wrapping_add(rule.fp_offset as i64 as u64))?),
        fp::DIRECT => {
            let base = walk.register(A::FP as u8).ok_or(Stop::LostRegister)?;
            known(read(machine, base.wrapping_add(rule.fp_offset as i64 as u64))?)
        }
        _ => (0, false),
    };
    let saved_at = match rule.ra & ra::KIND {
        ra::BELOW => Some(cfa.wrapping_sub(8)),
        ra::SAVED => Some(cfa.wrapping_add(rule.aux as i64 as u64)),
        _ => None,
    };
    let return_address = match saved_at {
        Some(address) => read(machine, address)?.ok_or(Stop::Unreadable)?,
        None => walk.register(rule.aux as u8).ok_or(Stop::LostRegister)?,
    };
    let kept = kept.map(|value| (number, value));
    Ok(Caller { pc: A::strip(return_address), sp: cfa, fp, is_fp_known, kept, flags: 0 })
}

/// Returns a value and `true`, or 0 and `false`.
#[inline(always)]
pub(super) fn known(value: Option<u64>) -> (u64, bool) {
    match value {
        Some(value) => (value, true),
        None => (0, false),
    }
}

/// Returns the stack pointer on a stack that may have been moved, from the two words at `address`: see `DEPTH` in [`Rule`].
#[inline(always)]
fn from_top<M: Machine>(machine: &mut M, address: u64) -> Option<u64> {
    let depth = machine.read_stack(address)?;
    let object = machine.read_stack(address.wrapping_add(8))?;
    if object == 0 {
        return Some(depth);
    }
    Some(machine.read_memory(object.wrapping_add(8))?.wrapping_sub(depth))
}

/// Returns the number of the register that a rule keeps, 0 for none.
#[inline(always)]
fn kept_register(rule: &Rule) -> u8 {
    rule.ra >> kept::SHIFT & kept::NUMBER
}

/// Returns the caller's value of the register that a rule keeps.
#[inline(always)]
fn kept_value<M: Machine>(walk: &Walk, machine: &mut M, cfa: u64, rule: &Rule) -> Option<u64> {
    match rule.fp >> kept::SHIFT {
        kept::SAME => walk.register(kept_register(rule)),
        kept::LOST => None,
        location => machine.read_stack(cfa.wrapping_sub(8 + 8 * location as u64)),
    }
}

/// Returns the registers of the code that a signal interrupted, from the signal frame's context.
#[inline(always)]
fn interrupted<A: Arch, M: Machine>(machine: &mut M, context: u64) -> Result<Caller, Stop> {
    let pc = machine.read_stack(context.wrapping_add(A::SIGNAL_PC)).ok_or(Stop::Unreadable)?;
    let sp = machine.read_stack(context.wrapping_add(A::SIGNAL_SP)).ok_or(Stop::Unreadable)?;
    let (fp, is_fp_known) = known(machine.read_stack(context.wrapping_add(A::SIGNAL_FP)));
    let kept = match A::SIGNAL_LINK {
        Some((number, at)) => machine.read_stack(context.wrapping_add(at)).map(|value| (number, value)),
        None => None,
    };
    Ok(Caller { pc: A::strip(pc), sp, fp, is_fp_known, kept, flags: frame::EXACT })
}
