//! The difference between two profiles.

use std::borrow::Cow;
use std::time::Duration;

use hashbrown::HashMap;

use super::{Call, FrameView, Kind, Profile, TraceView};
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
    /// Two stacks are equal if their frames are, by content: function names and module of a frame
    /// with names; module path, build id and address of one without. Code without a name in the
    /// kernel, or that no file holds, is equal whatever its address. Lines, processes, threads
    /// and the reason why a stack ends don't count, so profiles of different runs, processes
    /// and builds of a program compare.
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

    /// Returns all functions, the largest change of their own samples first.
    ///
    /// Two functions are equal if name and file name of the module are; without a name, if the
    /// build id and the start of the function, or the address, are. The folder doesn't count,
    /// so that a program's builds in several folders compare.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::testing;
    ///
    /// let before = testing::profile("cat;main;read 3\ncat;main 1");
    /// let after = testing::profile("cat;start;main;read 9\ncat;main 1");
    /// let diff = after.diff(&before);
    /// let functions = diff.by_function();
    /// assert_eq!((functions[0].name(), functions[0].values()), ("read".into(), (3, 9)));
    /// let main = functions.iter().find(|it| it.name() == "main").unwrap();
    /// assert_eq!((main.values(), main.total_values()), ((1, 1), (4, 10)));
    /// ```
    pub fn by_function(&self) -> Vec<FunctionChange<'p>> {
        let mut functions = Functions::default();
        self.changes.iter().for_each(|change| functions.add(change));
        let mut changes = functions.changes;
        let key = |it: &FunctionChange<'_>| (it.change().abs(), it.total_change().abs());
        changes.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        changes
    }
}

/// One function of two profiles.
#[derive(Clone, Copy, Debug)]
pub struct FunctionChange<'p> {
    call: Call<'p>,
    /// Samples in the function itself, before and after.
    own: [Amount; 2],
    /// Samples in the function and what it calls, before and after.
    total: [Amount; 2],
}

impl<'p> FunctionChange<'p> {
    /// Returns the name, without one the frame as [`FrameView`] displays it.
    pub fn name(&self) -> Cow<'p, str> {
        match self.call.symbol() {
            Some(symbol) if !symbol.function.is_empty() => Cow::Borrowed(&*symbol.function),
            _ => Cow::Owned(self.call.to_string()),
        }
    }

    /// Returns one call of the function, in the later profile if it is in both.
    pub fn call(&self) -> Call<'p> {
        self.call
    }

    /// Returns the values of samples in the function itself, in the earlier and in the later
    /// profile, in the kind's unit.
    pub fn values(&self) -> (u64, u64) {
        (self.own[0].value, self.own[1].value)
    }

    /// Returns the values of samples in the function or in what it calls, in the earlier and in the
    /// later profile.
    pub fn total_values(&self) -> (u64, u64) {
        (self.total[0].value, self.total[1].value)
    }

    /// Returns the change of the function itself, as [`StackChange::change`].
    pub fn change(&self) -> f64 {
        self.own[1].rate - self.own[0].rate
    }

    /// Returns the change of the function and what it calls, as [`StackChange::change`].
    pub fn total_change(&self) -> f64 {
        self.total[1].rate - self.total[0].rate
    }
}

/// Functions by content.
#[derive(Default)]
struct Functions<'p> {
    by_content: HashMap<FunctionKey<'p>, usize>,
    changes: Vec<FunctionChange<'p>>,
}

/// The parts of a function that decide whether two are equal.
#[derive(PartialEq, Eq, Hash)]
struct FunctionKey<'p> {
    is_kernel: bool,
    module: Option<&'p str>,
    /// Of a function without a name.
    build_id: &'p [u8],
    name: Cow<'p, str>,
}

impl<'p> FunctionKey<'p> {
    fn of(frame: FrameView<'p>, change: &FunctionChange<'p>) -> FunctionKey<'p> {
        let (call, name) = (change.call, change.name());
        let module = frame.module().filter(|_| matches!(name, Cow::Owned(_)));
        FunctionKey {
            is_kernel: call.kind() == Kind::Kernel,
            module: call.module(),
            build_id: module.map(|module| &*module.build_id).unwrap_or_default(),
            name,
        }
    }
}

impl<'p> Functions<'p> {
    fn add(&mut self, change: &StackChange<'p>) {
        let amounts = [change.before, change.after];
        let mut seen: Vec<usize> = Vec::new();
        for call in change.trace.calls() {
            let Call::Function { frame, .. } = call else { continue };
            let new = FunctionChange { call, own: Default::default(), total: Default::default() };
            let next = self.changes.len();
            let index = *self.by_content.entry(FunctionKey::of(frame, &new)).or_insert(next);
            if index == next {
                self.changes.push(new);
            }
            seen.push(index);
        }
        if let Some(&leaf) = seen.last() {
            add(&mut self.changes[leaf].own, amounts);
        }
        // A recursive function counts once.
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().for_each(|index| add(&mut self.changes[index].total, amounts));
    }
}

fn add(sums: &mut [Amount; 2], amounts: [Amount; 2]) {
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        sum.count = sum.count.saturating_add(amount.count);
        sum.value = sum.value.saturating_add(amount.value);
        sum.time = sum.time.saturating_add(amount.time);
        sum.rate += amount.rate;
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

    /// Returns the times in the earlier and in the later profile: CPU time, or time that threads
    /// did not run. Zero for a kind that is no time.
    pub fn times(&self) -> (Duration, Duration) {
        (self.before.time, self.after.time)
    }

    /// Returns the change in seconds per second, or in values per second for a kind that is no
    /// time, so that profiles of different lengths and frequencies compare: 0.5 is half a CPU
    /// more.
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
    /// Build id and address of a frame without names.
    address: Option<(&'p [u8], u64)>,
}

impl<'p> Content<'p> {
    fn of(frame: FrameView<'p>) -> Content<'p> {
        let functions: Vec<&str> = frame.symbols().iter().map(|symbol| &*symbol.function).collect();
        let address = match (frame.frame(), frame.module()) {
            (Frame::Native { address, .. }, Some(module)) => {
                Some((&*module.build_id, frame.start().unwrap_or(address)))
            }
            // Addresses of other processes and boots mean other code.
            _ => None,
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
            amount.time = amount.time.saturating_add(time.unwrap_or_default());
            let all = if time.is_some() { amount.time.as_secs_f64() } else { amount.value as f64 };
            let length = profile.duration().as_secs_f64();
            amount.rate = if length > 0.0 { all / length } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::process::{Module, ModuleId};
    use crate::profile::{Process, ProfileBuilder, Thread};
    use crate::symbol::NoSymbols;
    use crate::testing;
    use crate::trace::{Found, Stop, Trace};

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

    /// Returns a profile of a process with one sample at an address without a name.
    fn unnamed(pid: u32, path: &str, build_id: u8, frame: Frame) -> Profile {
        let mut builder = ProfileBuilder::new(Duration::from_millis(10));
        let process = builder.process(Process::new(pid));
        let thread = builder.thread(Thread::new(process, pid, "t"));
        builder.add(thread, &Trace::new([frame].as_slice(), Stop::Root), 0);
        let mut module = Module::new(path);
        module.build_id = [build_id].into();
        let start = SystemTime::UNIX_EPOCH;
        builder.finish(start, Duration::from_secs(1), |_| Some(module.clone()), &mut NoSymbols)
    }

    #[test]
    fn frames_without_names_are_equal_in_one_build() {
        let native = |address| Frame::Native { module: ModuleId(0), address, found: Found::Exactly };
        let anonymous = |address| Frame::Anonymous { address, found: Found::Exactly };
        let kernel = |address| Frame::Kernel { address };
        // Path, build id and frame of both, and whether their stacks and functions are equal.
        let cases = [
            (("/a/f", 1, native(7)), ("/a/f", 1, native(7)), true, true),
            (("/a/f", 1, native(7)), ("/a/f", 1, native(8)), false, false),
            (("/a/f", 1, native(7)), ("/a/f", 2, native(7)), false, false),
            (("/a/f", 1, native(7)), ("/b/f", 1, native(7)), false, true),
            (("/a/f", 1, anonymous(7)), ("/a/f", 1, anonymous(8)), true, true),
            (("/a/f", 1, kernel(7)), ("/a/f", 1, kernel(8)), true, true),
            (("/a/f", 1, kernel(7)), ("/a/f", 1, anonymous(7)), false, false),
        ];
        for (index, (first, second, is_stack, is_function)) in cases.into_iter().enumerate() {
            let before = unnamed(1, first.0, first.1, first.2);
            let after = unnamed(2, second.0, second.1, second.2);
            let diff = after.diff(&before);
            let count = |is_equal| if is_equal { 1 } else { 2 };
            assert_eq!(diff.changes().len(), count(is_stack), "stacks of case {index}");
            assert_eq!(diff.by_function().len(), count(is_function), "functions of case {index}");
        }
    }

    #[test]
    fn functions_of_different_builds_compare() {
        let before = testing::profile("app;main;run;parse 6\napp;main;run 2\napp;main;sys_[k] 1");
        let after = testing::profile("x;y 1\napp;start;main;run;run;run;parse;inner_[i] 9");
        let diff = after.diff(&before);
        let functions = diff.by_function();
        let of = |name: &str| {
            let found = functions.iter().filter(|it| it.name() == name).collect::<Vec<_>>();
            assert_eq!(found.len(), 1, "{name}");
            (found[0].values(), found[0].total_values())
        };
        assert_eq!(of("run"), ((2, 0), (8, 9)), "recursion counts once");
        assert_eq!(of("parse"), ((6, 0), (6, 9)));
        assert_eq!(of("inner"), ((0, 9), (0, 9)));
        assert_eq!(of("sys"), ((1, 0), (1, 0)));
        assert_eq!(functions[0].name(), "inner");
        assert!((functions[0].change() - 0.09).abs() < 1e-9, "{}", functions[0].change());
    }

    #[test]
    fn module_and_names_distinguish_stacks() {
        let before = testing::profile("cat;main;libc.so.6`read 3");
        let after = testing::profile("cat;main;libd.so.6`read 3");
        assert_eq!(after.diff(&before).changes().len(), 2);
        assert_eq!(after.diff(&after).changes()[0].change(), 0.0);
    }
}
