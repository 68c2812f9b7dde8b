//! The states of all instructions of one function.

use ebpf_profiler_core::unwind::Entry;

use super::backward;
use super::flow::{Callees, ENTRY, Flow, State, Step, target};

/// A function, and the state before each of its instructions.
pub(super) struct Function<'a, S> {
    pub(super) code: &'a [u8],
    /// For each byte, the number of its state from 1; 0 if no instruction begins there, or it was not reached.
    numbers: Vec<u32>,
    states: Vec<S>,
}

/// The longest instruction, in bytes.
pub(super) const MAX_INSTRUCTION: usize = 15;

impl<'a, S: State> Function<'a, S> {
    /// Follows the code of a function from its entry. Each instruction that is executed takes one from `budget`.
    pub(super) fn follow(code: &'a [u8], entry: S, budget: &mut usize) -> Function<'a, S> {
        let mut function = Function { code, numbers: vec![0; code.len()], states: Vec::new() };
        function.follow_from(entry, budget);
        function.follow_unreached(budget);
        if function.has_overlap() {
            function.numbers.fill(0);
            return function;
        }
        backward::complete(&mut function, budget);
        function
    }

    /// Calls `row` for each instruction at which the state changes, and for each at which it becomes unknown.
    pub(super) fn rows(&self, mut row: impl FnMut(usize, Option<&S>)) {
        let (mut at, mut is_known) = (0, true);
        while at < self.code.len() {
            let state = self.state(at);
            if state.is_some() || at == 0 || is_known && !is_padding(self.code[at]) {
                row(at, state);
                is_known = state.is_some();
            }
            at += self.step(at).map_or(1, |step| step.size);
        }
    }

    /// Returns the state before the instruction at an offset.
    pub(super) fn state(&self, at: usize) -> Option<&S> {
        let number = *self.numbers.get(at)?;
        self.states.get((number as usize).checked_sub(1)?)
    }

    pub(super) fn set(&mut self, at: usize, state: S) {
        let number = self.numbers.get(at).map_or(0, |&number| number as usize);
        if number != 0 {
            self.states[number - 1] = state;
        } else if let Some(number) = self.numbers.get_mut(at) {
            self.states.push(state);
            *number = self.states.len() as u32;
        }
    }

    /// Executes the instruction at an offset in a state.
    pub(super) fn execute(&self, at: usize, state: &mut S) -> Option<Step> {
        let code = self.code.get(at..)?;
        state.step(&code[..code.len().min(MAX_INSTRUCTION)])
    }

    /// Executes the instruction at an offset in any state.
    pub(super) fn step(&self, at: usize) -> Option<Step> {
        self.execute(at, &mut S::at_entry(Entry::Called, Callees::PopArguments))
    }

    /// Follows code from the entry. What is behind calls comes last: if a jump leads there with another frame, the callee doesn't
    /// return, as one that throws.
    fn follow_from(&mut self, entry: S, budget: &mut usize) {
        let (mut pending, mut returned) = (vec![(0, entry)], Vec::new());
        while let Some((mut at, mut state)) = pending.pop().or_else(|| self.next_returned(&mut returned)) {
            while at < self.code.len() && *budget > 0 {
                *budget -= 1;
                if let Some(known) = self.state(at) {
                    state = known.merge(&state);
                    if state == *known {
                        break;
                    }
                }
                self.set(at, state);
                let Some(Step { size, flow, .. }) = self.execute(at, &mut state) else { break };
                let next = at + size;
                at = match flow {
                    Flow::Next | Flow::Push => next,
                    Flow::Call => {
                        returned.push((next, state));
                        break;
                    }
                    Flow::Jump(distance) => match target(next, distance, self.code.len()) {
                        Some(target) => target,
                        None => break,
                    },
                    Flow::Branch(distance) => {
                        pending.extend(target(next, distance, self.code.len()).map(|target| (target, state)));
                        next
                    }
                    Flow::Indirect | Flow::Return | Flow::Trap => break,
                };
            }
        }
    }

    /// Returns the next state behind a call that may return.
    fn next_returned(&self, returned: &mut Vec<(usize, S)>) -> Option<(usize, S)> {
        let is_possible = |(at, state): &(usize, S)| {
            self.state(*at).is_none_or(|known| known.is_unlinked() == state.is_unlinked())
        };
        std::iter::from_fn(|| returned.pop()).find(is_possible)
    }

    /// Follows code that was not reached, on trial: with a whole frame, else with none.
    fn follow_unreached(&mut self, budget: &mut usize) {
        let (mut at, mut is_start) = (0, false);
        while at < self.code.len() && *budget > 0 {
            *budget -= 1;
            let step = self.step(at);
            let is_reached = self.state(at).is_some();
            if is_start && !is_reached && !is_padding(self.code[at]) {
                let accepted = self.try_from(at, S::at_entry(Entry::Framed, Callees::PopArguments), budget)
                    || self.try_from(at, S::at_entry(Entry::Called, Callees::PopArguments), budget);
                is_start = accepted;
            }
            match step {
                Some(Step { size, flow, .. }) => {
                    at += size;
                    is_start |= matches!(flow, Flow::Jump(_) | Flow::Indirect | Flow::Return | Flow::Trap);
                    is_start |= is_reached;
                }
                None => at += 1,
            }
        }
    }

    /// Follows code from `start` in a state. Returns `false` and changes nothing unless all paths agree with it: they lead to
    /// known states with the same frame, or to ends without one.
    fn try_from(&mut self, start: usize, state: S, budget: &mut usize) -> bool {
        let first = self.states.len();
        let mut set = Vec::new();
        let mut pending = vec![(start, state)];
        let (mut agreeing, mut is_wrong) = (0, false);
        while let Some((mut at, mut state)) = pending.pop() {
            while !is_wrong {
                if *budget == 0 || at >= self.code.len() {
                    is_wrong = true;
                    break;
                }
                *budget -= 1;
                let known = self.state(at);
                if let Some(known) = known.filter(|_| self.numbers[at] as usize <= first) {
                    is_wrong = !known.has_same_frame(&state);
                    agreeing += 1;
                    break;
                }
                if let Some(known) = known {
                    state = known.merge(&state);
                    if state == *known {
                        break;
                    }
                } else {
                    set.push(at);
                }
                self.set(at, state);
                let mut after = state;
                let Some(Step { size, flow, .. }) = self.execute(at, &mut after) else {
                    is_wrong = true;
                    break;
                };
                let next = at + size;
                let is_end = state.is_unlinked() && state.stack().is_none_or(|stack| stack == ENTRY);
                match flow {
                    Flow::Next | Flow::Push | Flow::Call => at = next,
                    Flow::Branch(distance) => {
                        match target(next, distance, self.code.len()) {
                            Some(target) => pending.push((target, after)),
                            None => is_wrong |= !is_end,
                        }
                        at = next;
                    }
                    Flow::Jump(distance) => match target(next, distance, self.code.len()) {
                        Some(target) => at = target,
                        None => {
                            (is_wrong, agreeing) = (!is_end, agreeing + 1);
                            break;
                        }
                    },
                    Flow::Indirect | Flow::Return => {
                        (is_wrong, agreeing) = (!is_end, agreeing + 1);
                        break;
                    }
                    Flow::Trap => break,
                }
                state = after;
            }
        }
        let is_accepted = !is_wrong && agreeing > 0;
        if !is_accepted {
            set.into_iter().for_each(|at| self.numbers[at] = 0);
            self.states.truncate(first);
        }
        is_accepted
    }

    /// Returns `true` if an instruction begins within another.
    fn has_overlap(&self) -> bool {
        let mut end = 0;
        (0..self.code.len()).filter(|&at| self.numbers[at] != 0).any(|at| {
            let is_within = at < end;
            end = at + self.step(at).map_or(1, |step| step.size);
            is_within
        })
    }
}

/// Returns `true` for an instruction between functions: `int3` or `nop`.
fn is_padding(byte: u8) -> bool {
    matches!(byte, 0xcc | 0x90)
}
