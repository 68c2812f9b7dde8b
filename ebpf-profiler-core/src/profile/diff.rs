//! The difference between two profiles.

use std::time::Duration;

use hashbrown::HashMap;

use super::{FrameView, Profile, TraceView};
use crate::trace::Frame;

/// Stacks of two profiles with their times in both, made by [`Profile::diff`].
#[derive(Clone, Debug)]
pub struct ProfileDiff<'p> {
    changes: Vec<StackChange<'p>>,
}

/// One stack of two profiles.
#[derive(Clone, Copy, Debug)]
pub struct StackChange<'p> {
    trace: TraceView<'p>,
    before: Amount,
    after: Amount,
}

/// Samples of a stack in one profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    count: u64,
    time: Duration,
    value: u64,
    /// Seconds per second of the profile; values per second for a kind that is no time.
    rate: f64,
}

impl Profile {
    /// Compares this profile with an earlier one, stack by stack.
    ///
    /// Of profiles with several kinds of samples, the first kind is compared.
    ///
    /// Two stacks are equal if their frames are, by content: function names and module of a frame with names; module
    /// and address of one without. Lines, processes, threads and the reason why a stack ends don't count.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::testing;
    ///
    /// let before = testing::profile("cat;main;read 3\ncat;main 1");
    /// let after = testing::profile("cat;main;write 2\ncat;main;read 4");
    /// let diff = after.diff(&before);
    /// let changes = diff.changes().iter();
    /// let changes: Vec<_> = changes.map(|it| (it.trace().leaf().to_string(), it.counts())).collect();
    /// assert_eq!(changes[0], ("write".to_string(), (0, 2)));
    /// assert_eq!(changes.len(), 3);
    /// ```
    pub fn diff<'p>(&'p self, before: &'p Profile) -> ProfileDiff<'p> {
        let mut stacks = Stacks::default();
        stacks.add(self, |change| &mut change.after);
        stacks.add(before, |change| &mut change.before);
        let mut changes = stacks.changes;
        // Stable, so that equal changes stay in the order of the profiles.
        changes.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()));
        ProfileDiff { changes }
    }
}

impl<'p> ProfileDiff<'p> {
    /// Returns all stacks, the largest change first.
    pub fn changes(&self) -> &[StackChange<'p>] {
        &self.changes
    }
}

impl<'p> StackChange<'p> {
    /// Returns the stack; that of the later profile if it is in both.
    pub fn trace(&self) -> TraceView<'p> {
        self.trace
    }

    /// Returns the counts of samples in the earlier and in the later profile.
    pub fn counts(&self) -> (u64, u64) {
        (self.before.count, self.after.count)
    }

    /// Returns the values in the earlier and in the later profile, in the kind's unit.
    pub fn values(&self) -> (u64, u64) {
        (self.before.value, self.after.value)
    }

    /// Returns the times in the earlier and in the later profile: CPU time, or time that threads did not run. Zero for a
    /// kind that is no time.
    pub fn times(&self) -> (Duration, Duration) {
        (self.before.time, self.after.time)
    }

    /// Returns the change in seconds per second, or in values per second for a kind that is no time, so that profiles of different lengths and frequencies compare:
    /// 0.5 is half a CPU more.
    pub fn change(&self) -> f64 {
        self.after.rate - self.before.rate
    }
}

/// Stacks by content.
#[derive(Default)]
struct Stacks<'p> {
    frames: HashMap<Content<'p>, u32>,
    stacks: HashMap<Vec<u32>, usize>,
    changes: Vec<StackChange<'p>>,
}

/// The parts of a frame that decide whether two are equal.
#[derive(PartialEq, Eq, Hash)]
struct Content<'p> {
    is_kernel: bool,
    module: Option<&'p str>,
    functions: Vec<&'p str>,
    /// Of a frame without names.
    address: Option<u64>,
}

impl<'p> Content<'p> {
    fn of(frame: FrameView<'p>) -> Content<'p> {
        let functions: Vec<&str> = frame.symbols().iter().map(|symbol| &*symbol.function).collect();
        let address = match frame.frame() {
            Frame::Native { address, .. } => Some(frame.start().unwrap_or(address)),
            Frame::Kernel { address } | Frame::Anonymous { address, .. } => Some(address),
            Frame::Script { .. } => None,
        };
        let module = frame.module().map(|module| &*module.path);
        Content {
            is_kernel: matches!(frame.frame(), Frame::Kernel { .. }),
            module: module.or_else(|| frame.script().map(|script| &*script.file)),
            address: address.filter(|_| functions.is_empty()),
            functions,
        }
    }
}

impl<'p> Stacks<'p> {
    fn add(
        &mut self,
        profile: &'p Profile,
        side: impl for<'a> Fn(&'a mut StackChange<'p>) -> &'a mut Amount,
    ) {
        let frames: Vec<u32> = profile
            .frames()
            .map(|frame| {
                let next = self.frames.len() as u32;
                *self.frames.entry(Content::of(frame)).or_insert(next)
            })
            .collect();
        for sample in profile.samples_of_first_kind() {
            let trace = sample.trace();
            let stack: Vec<u32> = trace.frames().map(|frame| frames[frame.id().0 as usize]).collect();
            let number = *self.stacks.entry(stack).or_insert(self.changes.len());
            if number == self.changes.len() {
                let (before, after) = Default::default();
                self.changes.push(StackChange { trace, before, after });
            }
            let time = sample.kind().time(sample.value());
            let amount = side(&mut self.changes[number]);
            amount.count += sample.count();
            amount.value = amount.value.saturating_add(sample.value());
            amount.time += time.unwrap_or_default();
            let all = if time.is_some() { amount.time.as_secs_f64() } else { amount.value as f64 };
            let length = profile.duration().as_secs_f64();
            amount.rate = if length > 0.0 { all / length } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn stacks_are_equal_by_content_not_by_number() {
        let before = testing::profile("ls;a 9\ncat;main;libc.so.6`read;sys_read_[k] 3\ncat;main;f_[i] 1");
        let after = testing::profile("cat;main;f_[i] 1\ncat;main;libc.so.6`read;sys_read_[k] 5");
        let diff = after.diff(&before);
        let seen: Vec<_> =
            diff.changes().iter().map(|it| (it.trace().leaf().to_string(), it.counts())).collect();
        let expected = [("a", (9, 0)), ("sys_read", (3, 5)), ("f", (1, 1))];
        assert_eq!(seen, expected.map(|(name, counts)| (name.to_string(), counts)));
        // 100 samples a second, one second.
        assert!((diff.changes()[0].change() + 0.09).abs() < 1e-9);
    }

    #[test]
    fn module_and_names_distinguish_stacks() {
        let before = testing::profile("cat;main;libc.so.6`read 3");
        let after = testing::profile("cat;main;libd.so.6`read 3");
        assert_eq!(after.diff(&before).changes().len(), 2);
        assert_eq!(after.diff(&after).changes()[0].change(), 0.0);
    }
}
