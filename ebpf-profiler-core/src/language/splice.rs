//! Splicing of interpreter frames into the native stack.
//!
//! A walk emits, after each native frame of an interpreter loop, the interpreter frames that this
//! loop runs. They replace the loop's frame:
//!
//! ```text
//!   memcpy, loop, [inner, middle], call_method, loop, [outer], main
//!   memcpy,        inner, middle,  call_method,        outer,  main
//! ```
//!
//! A loop that was just called, or is about to return, is not in the interpreter's list. Then every
//! run of frames is one loop too close to the leaf, and the outermost loop has none:
//!
//! ```text
//!   loop, [middle], call_method, loop, [outer], call_method, loop, [], main
//!   loop,           call_method,        middle, call_method,       outer, main
//! ```

use ebpf_programs::abi::record::frame::{ADDRESS, DETAIL, INTERPRETED, LOOP};

/// The words of one stack, leaf first, with buffers that are reused from stack to stack.
#[derive(Debug, Default)]
pub(crate) struct Splice {
    words: Vec<u64>,
    loops: Vec<Loop>,
    spliced: Vec<u64>,
}

/// A frame of an interpreter loop and its run of interpreter frames.
#[derive(Debug)]
struct Loop {
    at: usize,
    /// Index of the first word after those of this loop.
    end: usize,
    run: std::ops::Range<usize>,
}

impl Splice {
    /// Clears the words for the next stack.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    /// Appends words of a walk.
    pub(crate) fn extend(&mut self, words: &[u64]) {
        self.words.extend_from_slice(words);
    }

    /// Appends words of a walk without interpreter frames, and the runs of `calls`, each terminated
    /// by the word `LOOP`, after the loops at addresses for which `runs_them` returns `true`.
    pub(crate) fn extend_with(&mut self, words: &[u64], calls: &[u64], runs_them: impl Fn(u64) -> bool) {
        let mut runs = calls.split(|&word| word == LOOP);
        for &word in words {
            self.words.push(word);
            if is_loop(word) && runs_them(word & ADDRESS) {
                self.words.extend_from_slice(runs.next().unwrap_or_default());
            }
        }
    }

    /// Removes incomplete frames before a gap: a loop without its run, a frame without its second
    /// word. Returns their number.
    ///
    /// The root side of a gap needs no trimming: half a frame is skipped, and a frame whose loop is
    /// missing is kept.
    pub(crate) fn trim(&mut self) -> u32 {
        let before = self.words.len();
        if self.words.last().is_some_and(|word| word & INTERPRETED != 0) {
            self.words.pop();
        }
        if self.words.last().is_some_and(|&word| is_loop(word)) {
            self.words.pop();
        }
        (before - self.words.len()) as u32
    }

    /// Splices the runs and returns all words.
    ///
    /// `is_whole` is `true` if the words reach from the leaf to the root.
    pub(crate) fn run(&mut self, is_whole: bool) -> &[u64] {
        self.find();
        if self.loops.is_empty() {
            return &self.words;
        }
        if is_whole && self.is_late() {
            for index in (1..self.loops.len()).rev() {
                self.loops[index].run = self.loops[index - 1].run.clone();
            }
            self.loops[0].run = 0..0;
        }
        self.lay_out();
        &self.spliced
    }

    fn find(&mut self) {
        let Splice { words, loops, .. } = self;
        loops.clear();
        for (at, _) in words.iter().enumerate().filter(|(_, word)| is_loop(**word)) {
            let calls = words[at + 1..].iter().take_while(|word| *word & (INTERPRETED | DETAIL) != 0).count();
            loops.push(Loop { at, end: at + 1 + calls, run: at + 1..at + 1 + calls });
        }
    }

    /// Returns `true` if all runs are one loop too close to the leaf.
    fn is_late(&self) -> bool {
        let [first, .., last] = &self.loops[..] else { return false };
        // At most one loop can be starting or returning. More loops without a run belong to another
        // interpreter.
        let bare = self.loops.iter().filter(|each| each.run.is_empty()).count();
        let is_broken = |word: &u64| word & INTERPRETED != 0 && word & ADDRESS == 0;
        !first.run.is_empty() && last.run.is_empty() && bare == 1 && !self.words.iter().any(is_broken)
    }

    fn lay_out(&mut self) {
        let Splice { words, loops, spliced } = self;
        spliced.clear();
        let mut next = 0;
        for each in loops {
            spliced.extend_from_slice(&words[next..each.at]);
            if each.run.is_empty() {
                spliced.push(words[each.at]);
            }
            spliced.extend_from_slice(&words[each.run.clone()]);
            next = each.end;
        }
        spliced.extend_from_slice(&words[next..]);
    }
}

fn is_loop(word: u64) -> bool {
    word & (INTERPRETED | DETAIL) == 0 && word & LOOP != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVAL: u64 = LOOP | 0x1000;

    fn call(number: u64) -> [u64; 2] {
        [INTERPRETED | number, DETAIL | number]
    }

    fn stack(parts: &[&[u64]]) -> Vec<u64> {
        parts.concat()
    }

    fn of(parts: &[&[u64]]) -> Splice {
        let mut splice = Splice::default();
        splice.extend(&stack(parts));
        splice
    }

    fn spliced(parts: &[&[u64]]) -> Vec<u64> {
        of(parts).run(true).to_vec()
    }

    #[test]
    fn calls_stand_for_their_loop() {
        let found = spliced(&[&[1, EVAL], &call(7), &call(8), &[2, EVAL], &call(9), &[3]]);
        assert_eq!(found, stack(&[&[1], &call(7), &call(8), &[2], &call(9), &[3]]));
    }

    #[test]
    fn a_loop_that_has_just_begun_stands_for_itself() {
        let found = spliced(&[&[EVAL], &call(8), &[2, EVAL], &call(9), &[3, EVAL, 4]]);
        assert_eq!(found, stack(&[&[EVAL, 2], &call(8), &[3], &call(9), &[4]]));
    }

    #[test]
    fn loops_of_another_interpreter_stand_for_themselves() {
        let found = spliced(&[&[1, EVAL], &call(7), &[2, EVAL], &call(8), &[3, EVAL, 4, EVAL, 5]]);
        assert_eq!(found, stack(&[&[1], &call(7), &[2], &call(8), &[3, EVAL, 4, EVAL, 5]]));
    }

    #[test]
    fn what_is_cut_or_broken_stays_as_it_is() {
        let parts: [&[u64]; 6] = [&[EVAL], &call(8), &[2, EVAL], &call(9), &[3, EVAL, 4], &[]];
        assert_eq!(of(&parts).run(false), stack(&[&call(8), &[2], &call(9), &[3, EVAL, 4]]));
        let found = spliced(&[&[EVAL], &call(8), &[2, EVAL], &call(0), &[3, EVAL, 4]]);
        assert_eq!(found, stack(&[&call(8), &[2], &call(0), &[3, EVAL, 4]]));
    }

    #[test]
    fn calls_that_were_taken_apart_come_to_their_loops() {
        let words = [1, EVAL, 2, EVAL, 3];
        let calls = stack(&[&call(7), &call(8), &[LOOP], &call(9), &[LOOP], &call(10)]);
        let expected = stack(&[&[1, EVAL], &call(7), &call(8), &[2, EVAL], &call(9), &[3]]);
        let with = |words: &[u64], calls: &[u64]| {
            let mut splice = Splice::default();
            splice.extend_with(words, calls, |address| address == EVAL & ADDRESS);
            splice.words
        };
        assert_eq!(with(&words, &calls), expected);
        assert_eq!(with(&words, &[]), words);
        assert_eq!(with(&[1, 2], &calls), [1, 2]);
        // A loop of another interpreter.
        let expected = stack(&[&[LOOP | 0x2000, 2, EVAL], &call(7), &call(8), &[3]]);
        assert_eq!(with(&[LOOP | 0x2000, 2, EVAL, 3], &calls), expected);
    }

    #[test]
    fn native_stacks_are_left_alone() {
        assert_eq!(spliced(&[&[1, 2, 3]]), [1, 2, 3]);
        assert_eq!(spliced(&[&[1, EVAL, 3]]), [1, EVAL, 3]);
    }

    #[test]
    fn what_a_gap_cuts_in_two_is_left_out() {
        let trimmed = |parts: &[&[u64]]| {
            let mut splice = of(parts);
            (splice.trim(), splice.words)
        };
        assert_eq!(trimmed(&[&[1, EVAL], &call(7)]), (0, stack(&[&[1, EVAL], &call(7)])));
        assert_eq!(trimmed(&[&[1, EVAL]]), (1, vec![1]));
        assert_eq!(trimmed(&[&[1, EVAL, INTERPRETED | 7]]), (2, vec![1]));
        assert_eq!(trimmed(&[&[1, EVAL], &call(7), &[INTERPRETED | 8]]), (1, stack(&[&[1, EVAL], &call(7)])));
    }

    #[test]
    fn halves_of_calls_do_no_harm() {
        assert_eq!(spliced(&[&[DETAIL | 1, EVAL, DETAIL | 1, 2]]), [DETAIL | 1, DETAIL | 1, 2]);
        assert_eq!(spliced(&[&[EVAL, INTERPRETED | 1]]), [INTERPRETED | 1]);
    }
}
