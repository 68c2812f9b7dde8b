//! Memory of the different stacks of a profile.

use hashbrown::HashMap;

use crate::profile::{ProfileBuilder, TraceId};
use crate::registry::{Limits, stacks_on};
use crate::trace::{Frame, Stop, Trace};

/// Bytes of the different stacks of each process.
#[derive(Default)]
pub(super) struct StackShares {
    of_process: HashMap<u32, usize>,
    /// One more than the highest number of a CPU with samples.
    cpus: usize,
    /// Bytes at most of one process, and of all, on that many CPUs.
    most: [usize; 2],
}

impl StackShares {
    /// Returns the number of a trace of a process on a CPU in `builder`, and `true` if the trace
    /// was cut. Beyond the limits, an unknown trace is cut to its kernel frames and its
    /// innermost function.
    pub(super) fn trace(
        &mut self,
        builder: &mut ProfileBuilder,
        limits: &Limits,
        (pid, cpu): (u32, u32),
        trace: &Trace<'_>,
    ) -> (TraceId, bool) {
        if cpu as usize >= self.cpus {
            self.cpus = (cpu as usize).saturating_add(1);
            self.most =
                [limits.process_stack_bytes, limits.stack_bytes].map(|bytes| stacks_on(self.cpus, bytes));
        }
        let [of_process, of_all] = self.most;
        let before = builder.stack_bytes();
        let share = self.of_process.entry(pid).or_default();
        if *share < of_process && before < of_all {
            let number = builder.trace(trace);
            *share += builder.stack_bytes() - before;
            return (number, false);
        }
        if let Some(number) = builder.known_trace(trace) {
            return (number, false);
        }
        let is_kernel = |frame: &&Frame| matches!(frame, Frame::Kernel { .. });
        let kept = trace.frames.iter().take_while(is_kernel).count() + 1;
        let frames = &trace.frames[..kept.min(trace.frames.len())];
        (builder.trace(&Trace::new(frames, Stop::TooManyStacks)), true)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::Found;

    const FRAMES: usize = 60;

    fn kernel(address: u64) -> Frame {
        Frame::Kernel { address }
    }

    fn user(address: u64) -> Frame {
        Frame::Anonymous { address, found: Found::Exactly }
    }

    /// A stack of two kernel frames and many of user code, different for each `number`.
    fn stack(number: u64) -> Vec<Frame> {
        let user = (0..FRAMES as u64).map(|at| user(1 + at * (number >> at & 1)));
        [kernel(1), kernel(2)].into_iter().chain(user).collect()
    }

    #[test]
    fn unknown_stacks_beyond_the_share_keep_their_leaf() {
        let mut builder = ProfileBuilder::new(Duration::ZERO);
        let mut shares = StackShares::default();
        let limits = Limits { process_stack_bytes: 20_000, stack_bytes: 60_000, ..Limits::default() };
        let mut number = |pid, frames: &[Frame], stop| {
            shares.trace(&mut builder, &limits, (pid, 0), &Trace::new(frames, stop)).0
        };
        let whole = number(1, &stack(0), Stop::Root);
        let numbers: Vec<_> = (1..200).map(|at| number(1, &stack(at), Stop::Root)).collect();
        let cut = number(1, &[kernel(1), kernel(2), user(1)], Stop::TooManyStacks);
        assert_eq!(numbers.last(), Some(&cut));
        assert_eq!(number(1, &stack(0), Stop::Root), whole, "known ones are kept");
        assert_ne!(number(2, &stack(1000), Stop::Root), cut, "another process has a share of its own");
        let in_all = (3..100).flat_map(|pid| (0..200).map(move |at| (pid, at + (u64::from(pid) << 9))));
        let last = in_all.map(|(pid, at)| number(pid, &stack(at), Stop::Root)).last();
        assert_eq!(last, Some(cut));
        assert!(builder.stack_bytes() < limits.stack_bytes + 2 * FRAMES * size_of::<Frame>());
    }

    #[test]
    fn more_cpus_grant_slowly_more() {
        let limits = Limits { process_stack_bytes: 10_000, stack_bytes: 10_000, ..Limits::default() };
        let [one, two, many, any] = [0, 1, 255, u32::MAX].map(|cpu| {
            let (mut builder, mut shares) = (ProfileBuilder::new(Duration::ZERO), StackShares::default());
            for number in 0..4000 {
                let stack = stack(number);
                shares.trace(&mut builder, &limits, (1, cpu), &Trace::new(&stack[..], Stop::Root));
            }
            builder.stack_bytes() / 1000
        });
        assert!((10..13).contains(&one) && (20..23).contains(&two), "{one} {two}");
        assert!((226..230).contains(&many) && (320..324).contains(&any), "{many} {any}");
    }
}
