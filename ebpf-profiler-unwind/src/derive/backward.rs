//! Offsets of the stack pointer that the code before an instruction doesn't give: counted back from
//! the function's end.
//!
//! ```text
//!   call f               f pops its arguments, whose number is not known
//!   mov rbp, [rbp]
//!   add rsp, 144         cfa = rsp + 152
//!   jmp g                cfa = rsp + 8: where a function ends, the return address is at the stack pointer
//! ```

use super::flow::{ENTRY, Flow, State, Step, target};
use super::function::Function;

/// An offset far below the canonical frame address, where an instruction finds nothing that is
/// followed.
const UNREACHED_OFFSET: i32 = -1 << 24;

/// Maximum number of passes. Each but the first goes back through loops.
const PASSES: usize = 8;

/// Completes the states that lack only the offset of the stack pointer, in code without a frame.
/// If another register leads to the frame, arguments are moved on the stack, and the return
/// address is not at its end yet.
///
/// An offset may come from one of two ways at first. It is kept only if the other way leads to the
/// same.
pub(super) fn complete<S: State>(function: &mut Function<'_, S>, budget: &mut usize) {
    let lacks = |state: &S| state.is_unlinked() && state.rule(None).is_none();
    let size = function.code.len();
    let mut incomplete: Vec<(usize, S)> = Vec::new();
    for at in (0..size).rev() {
        incomplete.extend(function.state(at).filter(|state| lacks(state)).map(|state| (at, *state)));
    }
    let mut is_after_push = vec![false; if incomplete.is_empty() { 0 } else { size }];
    for &(at, _) in &incomplete {
        if let Some(Step { size, flow: Flow::Push, .. }) = function.step(at)
            && let Some(after) = is_after_push.get_mut(at + size)
        {
            *after = true;
        }
    }
    for pass in 0..PASSES {
        let is_strict = pass > 1;
        let mut is_changed = false;
        for &(at, before) in &incomplete {
            *budget = budget.saturating_sub(1);
            let offset = offset(function, at, &before, is_after_push[at], is_strict);
            let state = offset.map_or(before, |offset| before.with_stack(offset));
            is_changed |= function.state(at) != Some(&state);
            function.set(at, state);
        }
        if is_strict && !is_changed {
            return;
        }
    }
    incomplete.into_iter().for_each(|(at, before)| function.set(at, before));
}

/// Returns the offset before the instruction at `at`, from those after it.
fn offset<S: State>(
    function: &Function<'_, S>,
    at: usize,
    state: &S,
    is_after_push: bool,
    is_strict: bool,
) -> Option<i32> {
    let mut after = state.with_stack(UNREACHED_OFFSET);
    let Step { size, flow, stores_indexed } = function.execute(at, &mut after)?;
    if stores_indexed {
        // It may be what moves the return address there.
        return None;
    }
    let change = after.stack()?.checked_sub(UNREACHED_OFFSET)?;
    let next = at + size;
    let known = |at: usize| function.state(at).filter(|state| state.is_unlinked()).and_then(S::stack);
    let jumped = |distance| target(next, distance, function.code.len());
    let end = match flow {
        // `push target; ret` is a jump.
        Flow::Return if is_after_push => ENTRY - 8,
        Flow::Return | Flow::Indirect => ENTRY,
        Flow::Next | Flow::Push | Flow::Call => known(next)?,
        Flow::Jump(distance) => jumped(distance).map_or(Some(ENTRY), known)?,
        Flow::Branch(distance) => {
            let other = jumped(distance).map_or(Some(ENTRY), known);
            match (known(next), other) {
                (Some(next), Some(other)) => Some(next).filter(|_| next == other)?,
                (next, other) => next.or(other).filter(|_| !is_strict)?,
            }
        }
        Flow::Trap => return None,
    };
    end.checked_sub(change)
}
