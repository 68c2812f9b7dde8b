//! Names of functions, from the instructions of their callers.
//!
//! ```text
//!   TGETS  5  0  "area"       writes slot 5: a field of this name
//!   MOV    7  0
//!   CALL   5  2  2            calls the function in slot 5
//! ```

use ebpf_profiler_core::language::{Memory, Reason};

use super::instruction::{Effect, Instruction, operation};
use super::prototype::Prototype;

/// Maximum number of instructions before a call that are searched.
const MAX_SEARCHED: usize = 1 << 12;

/// Maximum number of moves from slot to slot that are followed.
const MAX_MOVES: u32 = 16;

/// Returns the name of the function that the instruction at `position` calls; `None` if it has none
/// there.
pub(super) fn name(caller: &Prototype, position: u32, memory: &dyn Memory) -> Result<Option<String>, Reason> {
    let code = caller.instructions(memory)?;
    let Some(&call) = code.get(position as usize) else { return Ok(None) };
    match call.called_slot() {
        Some(slot) => name_of_slot(caller, &code, position as usize, slot, memory),
        None => Ok(call.metamethod().map(str::to_owned)),
    }
}

/// Returns the name of the value in a slot before the instruction at `position`.
fn name_of_slot(
    caller: &Prototype,
    code: &[Instruction],
    position: usize,
    slot: u8,
    memory: &dyn Memory,
) -> Result<Option<String>, Reason> {
    let variables = caller.variables(memory)?;
    let (mut slot, mut moves) = (slot, 0);
    if let Some(name) = variables.name(slot, position as u32) {
        return Ok(Some(name));
    }
    // The first instruction is the function's header.
    for (at, instruction) in code.iter().enumerate().take(position).skip(1).rev().take(MAX_SEARCHED) {
        match instruction.effect() {
            Effect::WritesAll(first, last) if (first..=last).contains(&slot) => return Ok(None),
            Effect::Writes(written) if written == slot => {}
            _ => continue,
        }
        return match instruction.operation() {
            operation::MOV if moves < MAX_MOVES => {
                (slot, moves) = (instruction.d() as u8, moves + 1);
                match variables.name(slot, at as u32) {
                    Some(name) => Ok(Some(name)),
                    None => continue,
                }
            }
            operation::GGET => caller.string(instruction.d().into(), memory).map(Some),
            operation::TGETS => caller.string(instruction.c().into(), memory).map(Some),
            operation::UGET => caller.upvalue(instruction.d().into(), memory),
            _ => Ok(None),
        };
    }
    Ok(None)
}
