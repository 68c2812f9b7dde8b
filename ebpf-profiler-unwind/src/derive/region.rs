//! Code between the functions that unwind data describes, whose functions are not known either.
//!
//! ```text
//!   unwind data │ padding │ function │ padding │ function, function │ table of numbers │ function │ unwind data
//!                         ▲                    ▲         ▲          ▲ refused
//!                         └────────────────────┴─────────┴─ starts: behind padding, after a return or a jump
//! ```
//!
//! Each start is tried with the state of a called function. It is accepted if all paths from it agree with that: where they return,
//! the stack pointer is at the return address, and where they meet, or lead to code that was accepted before, the states do not
//! contradict each other. Everything else has no rule.

use ebpf_profiler_core::unwind::Entry;

use super::flow::{Callees, Flow, State, Step, target};
use super::function::MAX_INSTRUCTION;

/// A part of a gap, and the state before each of its instructions.
pub(super) struct Region<'a, S> {
    code: &'a [u8],
    /// For each byte, the number of its state from 1; 0 if no instruction begins there, [`WITHIN`] if it is inside one.
    marks: Vec<u32>,
    states: Vec<S>,
    /// Starts that were accepted with the state of a called function.
    starts: Vec<usize>,
    /// Targets of calls.
    called: Vec<usize>,
    /// Starts that were refused with the state of a called function.
    refused: Vec<(usize, Refusal)>,
}

const WITHIN: u32 = u32::MAX;

/// Maximum number of instructions that are executed from one start.
const MAX_STEPS: usize = 1 << 20;

/// Alignment of functions that begin behind others.
const ALIGNMENT: u64 = 16;

/// A trial of code from one start.
struct Trial<S> {
    /// Number of states before it.
    first: usize,
    /// Instructions and their sizes.
    reached: Vec<(usize, usize)>,
    pending: Vec<(usize, S)>,
    /// Code behind calls: comes last, since callees may not return.
    returned: Vec<(usize, S)>,
    /// Code behind calls and padding: the same function, or the next one.
    doubtful: Vec<(usize, S)>,
    /// Number of returns, and of ways to accepted code: only these prove the state.
    proofs: usize,
    /// Number of instructions that it may execute.
    budget: usize,
}

/// The reason for which code from a start was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// An instruction cannot be decoded.
    Instruction,
    /// An instruction overlaps another one, or the end of the code.
    Overlap,
    /// Two paths meet with different frames.
    Disagreement,
    /// The stack pointer is above the return address.
    Beyond,
    /// A path returns, or leaves the code, while the stack pointer is not at the return address.
    Return,
    /// No path returns.
    Unproven,
    /// It takes too many steps.
    Budget,
}

impl<'a, S: State> Region<'a, S> {
    /// Follows the functions in a part of a gap at `address`. Those at the offsets in `known`, which are sorted, are called; the
    /// first byte may be the start of another one if `is_start`.
    pub(super) fn follow(
        code: &'a [u8],
        address: u64,
        is_start: bool,
        known: &[usize],
        budget: &mut usize,
    ) -> Region<'a, S> {
        let marks = vec![0; code.len()];
        let (states, starts, called, refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut region = Region { code, marks, states, starts, called, refused };
        region.sweep(address, is_start, known, budget);
        let mut called = std::mem::take(&mut region.called);
        called.retain(|&at| region.marks[at] == 0);
        if !called.is_empty() {
            called.sort_unstable();
            called.dedup();
            region.sweep(address, is_start, &called, budget);
        }
        region
    }

    /// Returns the starts that were refused.
    pub(super) fn refused(&self) -> &[(usize, Refusal)] {
        &self.refused
    }

    /// Returns the last start of a function in the second half, where the code is cut in order to continue there.
    pub(super) fn cut(&self) -> Option<usize> {
        self.starts.iter().copied().max().filter(|&at| at >= self.code.len() / 2)
    }

    /// Calls `row` for each instruction before `end` at which a state begins, and for each at which it becomes unknown.
    pub(super) fn rows(&self, end: usize, mut row: impl FnMut(usize, Option<&S>)) {
        let (mut at, mut is_known) = (0, false);
        while at < end {
            let state = self.state(at);
            if state.is_some() || is_known && padding(&self.code[at..]).is_none() {
                row(at, state);
                is_known = state.is_some();
            }
            at += 1;
            while self.marks.get(at) == Some(&WITHIN) {
                at += 1;
            }
        }
    }

    /// Iterates over the instructions: their offsets, sizes and states.
    pub(super) fn instructions(&self) -> impl Iterator<Item = (usize, usize, Option<&S>)> {
        let begins = |at: &usize| self.marks[*at] != WITHIN;
        let size = |at: usize| 1 + self.marks[at + 1..].iter().take_while(|&&mark| mark == WITHIN).count();
        (0..self.code.len()).filter(begins).map(move |at| (at, size(at), self.state(at)))
    }

    fn state(&self, at: usize) -> Option<&S> {
        let mark = *self.marks.get(at)?;
        self.states.get((mark as usize).checked_sub(1)?)
    }

    /// Tries all starts in order.
    fn sweep(&mut self, address: u64, mut is_start: bool, mut known: &[usize], budget: &mut usize) {
        // The state of the last jump to an unknown address in this function.
        let mut indirect = None;
        let mut at = 0;
        while at < self.code.len() && *budget > 0 {
            *budget -= 1;
            while known.first().is_some_and(|&known| known < at) {
                known = &known[1..];
            }
            let is_known = known.first() == Some(&at);
            if self.marks[at] == 0
                && !is_known
                && let Some(size) = padding(&self.code[at..])
            {
                at += size;
                is_start |= (address + at as u64).is_multiple_of(ALIGNMENT);
                continue;
            }
            if self.marks[at] == 0 && (is_start || is_known) {
                self.try_at(at, is_known, &mut indirect, budget);
            }
            let state = self.state(at).copied();
            let Some(Step { size, flow, .. }) = execute(self.code, at, &mut state.unwrap_or_else(called))
            else {
                // Data. Functions behind it are aligned.
                let next = (address + at as u64 + 1).next_multiple_of(ALIGNMENT);
                (at, is_start) = ((next - address) as usize, true);
                continue;
            };
            if flow == Flow::Indirect {
                indirect = state;
            }
            at += size;
            is_start = matches!(flow, Flow::Jump(_) | Flow::Indirect | Flow::Return | Flow::Trap)
                || flow == Flow::Call && is_padding(self.code, at);
        }
    }

    /// Tries the states that code at `at` may have, until one is accepted.
    fn try_at(&mut self, at: usize, is_known: bool, indirect: &mut Option<S>, budget: &mut usize) {
        match self.try_from(at, called(), is_known, budget) {
            Ok(()) => {
                self.starts.push(at);
                *indirect = None;
            }
            Err(refusal) => {
                self.refused.push((at, refusal));
                if let Some(state) = *indirect {
                    let _ = self.try_from(at, state, false, budget);
                }
            }
        }
    }

    /// Follows code from `start` in a state. Fails and changes nothing if a path contradicts it, or none proves it, unless it
    /// `is_known`.
    fn try_from(
        &mut self,
        start: usize,
        state: S,
        is_known: bool,
        budget: &mut usize,
    ) -> Result<(), Refusal> {
        let granted = MAX_STEPS.min(*budget);
        let mut trial = Trial::new(self.states.len(), start, state, granted);
        let mut result = self.run(&mut trial);
        if result.is_ok() {
            self.follow_doubtful(&mut trial);
            if !trial.is_proven() && !is_known {
                result = Err(Refusal::Unproven);
            }
        }
        *budget -= granted - trial.budget;
        if result.is_err() {
            self.undo(trial);
        }
        result
    }

    /// Follows the code behind calls and padding, each on a trial of its own.
    fn follow_doubtful(&mut self, trial: &mut Trial<S>) {
        while let Some((at, state)) = trial.doubtful.pop() {
            if self.marks[at] != 0 {
                continue;
            }
            let mut part = Trial::new(self.states.len(), at, state, trial.budget);
            let result = self.run(&mut part);
            trial.budget = part.budget;
            if result.is_ok() && part.is_proven() {
                trial.proofs += part.proofs;
                trial.reached.append(&mut part.reached);
                trial.doubtful.append(&mut part.doubtful);
            } else {
                self.undo(part);
            }
        }
    }

    fn undo(&mut self, trial: Trial<S>) {
        for (at, size) in trial.reached {
            self.marks[at..at + size].fill(0);
        }
        self.states.truncate(trial.first);
    }

    /// Follows all paths.
    fn run(&mut self, trial: &mut Trial<S>) -> Result<(), Refusal> {
        while let Some((at, state)) = trial.pending.pop().or_else(|| self.next_returned(trial)) {
            self.path(trial, at, state)?;
        }
        Ok(())
    }

    /// Returns the next code behind a call, unless it is reached with another frame: then the callee does not return.
    fn next_returned(&self, trial: &mut Trial<S>) -> Option<(usize, S)> {
        let may_return = |(at, state): &(usize, S)| {
            self.state(*at).is_none_or(|known| !known.has_frame() || known.merge(state).has_frame())
        };
        std::iter::from_fn(|| trial.returned.pop()).find(may_return)
    }

    /// Follows one path up to its end, or to where it meets another one.
    fn path(&mut self, trial: &mut Trial<S>, mut at: usize, mut state: S) -> Result<(), Refusal> {
        loop {
            trial.budget = trial.budget.checked_sub(1).ok_or(Refusal::Budget)?;
            let Some(merged) = self.meet(trial, at, state)? else { return Ok(()) };
            state = merged;
            let mut after = state;
            let Step { size, flow, .. } = execute(self.code, at, &mut after).ok_or(Refusal::Instruction)?;
            self.mark(trial, at, size, state)?;
            if after.is_beyond() && flow != Flow::Return {
                return Err(Refusal::Beyond);
            }
            let next = at + size;
            at = match flow {
                Flow::Next | Flow::Push => next,
                Flow::Call => {
                    match is_padding(self.code, next) {
                        true if next < self.code.len() && after.is_aligned() => {
                            trial.doubtful.push((next, after))
                        }
                        true => {}
                        false => trial.returned.push((next, after)),
                    }
                    self.called.extend(self.call_target(at, next));
                    return Ok(());
                }
                Flow::Jump(distance) => match target(next, distance, self.code.len()) {
                    Some(target) => target,
                    None => return Ok(()),
                },
                Flow::Branch(distance) => {
                    trial
                        .pending
                        .extend(target(next, distance, self.code.len()).map(|target| (target, after)));
                    next
                }
                Flow::Return if state.is_end() == Some(true) => {
                    trial.proofs += 1;
                    return Ok(());
                }
                Flow::Return => return Err(Refusal::Return),
                Flow::Indirect | Flow::Trap => return Ok(()),
            };
            state = after;
        }
    }

    /// Returns the state in which the instruction at `at` is executed; `None` if it was executed in this one.
    fn meet(&self, trial: &mut Trial<S>, at: usize, state: S) -> Result<Option<S>, Refusal> {
        let Some(known) = self.state(at) else { return Ok(Some(state)) };
        let merged = known.merge(&state);
        let is_same = merged == *known;
        if self.marks[at] as usize <= trial.first {
            trial.proofs += 1;
            return if is_same { Ok(None) } else { Err(Refusal::Disagreement) };
        }
        if is_same {
            return Ok(None);
        }
        if merged.has_frame() || !known.has_frame() { Ok(Some(merged)) } else { Err(Refusal::Disagreement) }
    }

    /// Sets the state of an instruction.
    fn mark(&mut self, trial: &mut Trial<S>, at: usize, size: usize, state: S) -> Result<(), Refusal> {
        let bytes = self.marks.get_mut(at..at + size).ok_or(Refusal::Overlap)?;
        if bytes[0] != 0 && bytes[0] != WITHIN {
            self.states[bytes[0] as usize - 1] = state;
            return Ok(());
        }
        if bytes.iter().any(|&mark| mark != 0) {
            return Err(Refusal::Overlap);
        }
        self.states.push(state);
        bytes.fill(WITHIN);
        bytes[0] = self.states.len() as u32;
        trial.reached.push((at, size));
        Ok(())
    }

    fn call_target(&self, at: usize, next: usize) -> Option<usize> {
        let &[0xe8, ref distance @ ..] = self.code.get(at..next)? else { return None };
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        target(next, distance.into(), self.code.len())
    }
}

impl<S: State> Trial<S> {
    fn new(first: usize, start: usize, state: S, budget: usize) -> Trial<S> {
        let (reached, returned, doubtful) = (Vec::new(), Vec::new(), Vec::new());
        Trial { first, reached, pending: vec![(start, state)], returned, doubtful, proofs: 0, budget }
    }

    fn is_proven(&self) -> bool {
        self.proofs > 0
    }
}

fn called<S: State>() -> S {
    S::at_entry(Entry::Called, Callees::Standard)
}

fn execute<S: State>(code: &[u8], at: usize, state: &mut S) -> Option<Step> {
    let code = code.get(at..)?;
    if code.starts_with(&[0, 0]) {
        // Zeros are padding or data, though they could be executed.
        return None;
    }
    state.step(&code[..code.len().min(MAX_INSTRUCTION)])
}

/// Returns `true` if padding or the end is at an offset.
fn is_padding(code: &[u8], at: usize) -> bool {
    code.get(at..).is_none_or(|code| code.is_empty() || padding(code).is_some())
}

/// Returns the size of an instruction between functions: `int3`, a `nop` of any length, or zeros.
pub(super) fn padding(code: &[u8]) -> Option<usize> {
    let prefixes = code.iter().take(MAX_INSTRUCTION).take_while(|&&byte| matches!(byte, 0x66 | 0x2e)).count();
    match code.get(prefixes..)? {
        [0x90, ..] => Some(prefixes + 1),
        [0xcc, ..] if prefixes == 0 => Some(1),
        [0, ..] if prefixes == 0 => Some(1),
        [0x0f, 0x1f, modrm, rest @ ..] => {
            let sib = usize::from(modrm & 7 == 4 && modrm >> 6 != 3);
            let displacement = match modrm >> 6 {
                1 => 1,
                2 => 4,
                _ => 0,
            };
            (rest.len() >= sib + displacement).then_some(prefixes + 3 + sib + displacement)
        }
        _ => None,
    }
}
