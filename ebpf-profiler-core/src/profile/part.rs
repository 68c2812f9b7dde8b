//! Parts of a profile: some of its samples, or some of its frames.

use std::sync::Arc;

use super::merge::Merger;
use super::{FrameView, Profile, Sample};
use crate::symbol::Symbol;

/// A change of a frame by [`Profile::map_frames`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameChange {
    /// The frame stays as it is.
    Keep,
    /// The frame is removed from all stacks. Its callee appears to be called by its caller.
    Drop,
    /// Replaces the functions of the frame, innermost first. An empty list leaves the frame without
    /// a name.
    Rename(Vec<Symbol>),
}

impl FrameChange {
    /// Returns a change that renames the frame to one function, without file and line.
    pub fn rename(function: impl Into<Arc<str>>) -> FrameChange {
        FrameChange::Rename(vec![Symbol::new(function)])
    }
}

impl Profile {
    /// Returns a profile of the samples for which `is_included` returns `true`.
    ///
    /// It has nothing of the other samples: no process, thread, module, stack or function that only
    /// they have. Names are shared with this profile. It has the times, kinds and losses of the
    /// whole: nobody knows whose samples were lost. [`merge`](Profile::merge) counts the losses
    /// of several parts of a profile once.
    ///
    /// # Examples
    ///
    /// ```
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;read 3\nls;main;sort 5");
    /// let part = profile.filter(|sample| &*sample.process().executable == "/usr/bin/ls");
    /// assert_eq!(part.count(), 5);
    /// assert!(part.functions().all(|function| &*function.function != "read"));
    /// ```
    #[must_use = "returns another profile"]
    pub fn filter<'p>(&'p self, mut is_included: impl FnMut(Sample<'p>) -> bool) -> Profile {
        self.part(self.samples().filter(|&sample| is_included(sample)))
    }

    /// Returns a profile with changed frames: renamed ones, or without some of them. Stacks that
    /// become equal are one.
    ///
    /// Calls `change` once for each distinct frame. A renamed frame keeps its address and module,
    /// by which other tools can still name it. The leaf of a stack without frames displays as
    /// `[no stack]`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ebpf_profiler_core::profile::FrameChange;
    ///
    /// let profile = ebpf_profiler_core::testing::profile("cat;main;libc.so.6`malloc 3\ncat;main;libc.so.6`free;trim 1");
    /// let simple = profile.map_frames(|frame| match frame.module() {
    ///     Some(module) if module.name() == "libc.so.6" => FrameChange::rename("memory"),
    ///     _ if frame.to_string() == "trim" => FrameChange::Drop,
    ///     _ => FrameChange::Keep,
    /// });
    /// assert!(simple.samples().all(|sample| sample.trace().leaf().to_string() == "memory"));
    /// ```
    #[must_use = "returns another profile"]
    pub fn map_frames<'p>(&'p self, mut change: impl FnMut(FrameView<'p>) -> FrameChange) -> Profile {
        let mut merger = Merger::new(self.kinds().to_vec());
        merger.add(self, self.samples(), &mut change);
        merger.finish(self.start(), self.duration())
    }

    /// Returns a profile of some samples of this one.
    pub(super) fn part<'p>(&'p self, samples: impl Iterator<Item = Sample<'p>>) -> Profile {
        let mut merger = Merger::new(self.kinds().to_vec());
        merger.add(self, samples, &mut keep);
        merger.finish(self.start(), self.duration())
    }
}

/// Changes no frame.
pub(super) fn keep(_: FrameView<'_>) -> FrameChange {
    FrameChange::Keep
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::language::Script;
    use crate::profile::{Process, ProfileBuilder, SampleKind, Thread};
    use crate::sink::folded::sorted_lines as lines;
    use crate::symbol::NoSymbols;
    use crate::testing;
    use crate::trace::{Found, Frame, ScriptId, Stop, Trace};

    /// Returns the names of all parts, used or not.
    fn parts(profile: &Profile) -> Vec<String> {
        let processes = profile.processes().iter().map(|it| it.executable.to_string());
        let threads = profile.threads().iter().map(|it| it.name.to_string());
        let modules = profile.modules().iter().map(|it| it.path.to_string());
        let functions = profile.functions().map(|it| it.function.to_string());
        let scripts = profile.scripts().iter().map(|it| it.name.to_string());
        processes.chain(threads).chain(modules).chain(functions).chain(scripts).collect()
    }

    #[test]
    fn part_has_nothing_of_other_samples() {
        let profile =
            testing::profile("cat;main;libc.so.6`read 3\nls;sort;x_[j] 5\ncat`worker;main;wait_[k] 2");
        let part = profile.filter(|sample| sample.process().executable.ends_with("cat"));
        assert_eq!(part.count(), 5);
        assert!(parts(&part).iter().all(|name| !["sort", "x", "/usr/bin/ls", "ls"].contains(&name.as_str())));
        let rest = profile.filter(|sample| !sample.process().executable.ends_with("cat"));
        let merged = Profile::merge([&part, &rest]).unwrap();
        assert_eq!(lines(&merged), lines(&profile));
        assert_eq!((part.start(), part.duration()), (profile.start(), profile.duration()));
        assert_eq!(profile.filter(|_| false).samples().len(), 0);
        assert_eq!(lines(&profile.filter(|_| true)), lines(&profile));
    }

    #[test]
    fn kinds_and_values_stay_and_losses_count_once() {
        let kinds = [SampleKind::cpu(Duration::from_millis(10)), SampleKind::off_cpu()];
        let mut builder = ProfileBuilder::of_kinds(kinds);
        builder.record_loss("ring full", 7);
        let trace = Trace::new([].as_slice(), Stop::NoUserStack);
        for pid in [9, 8] {
            let process = builder.process(Process::new(pid));
            let thread = builder.thread(Thread::new(process, pid, "t"));
            builder.add_value(1, u64::from(pid) * 1000, Some(pid), thread, &trace, 5);
            builder.add(thread, &trace, 3);
        }
        let profile =
            builder.finish(SystemTime::UNIX_EPOCH, Duration::from_secs(1), |_| None, &mut NoSymbols);
        let of = |pid| profile.filter(move |sample| sample.process().pid == pid);
        let part = of(8);
        assert_eq!((part.of_kind(0).total(), part.of_kind(1).total()), (1, 8000));
        assert_eq!(part.of_kind(1).samples().next().unwrap().cpus().collect::<Vec<_>>(), [Some(8)]);
        let off_cpu = profile.of_kind(1).filter(|sample| sample.process().pid == 9);
        assert_eq!((off_cpu.kinds().len(), off_cpu.total()), (1, 9000));
        for part in [&part, &Profile::merge([&part, &of(9)]).unwrap()] {
            assert_eq!(part.losses().collect::<Vec<_>>(), [("ring full", 7)]);
        }
    }

    #[test]
    fn gap_moves_with_dropped_frames() {
        let profile = testing::profile("cat;main;a;[… 12 frames left out];b;c 1");
        let drop = |name: &'static str| {
            let changed = profile.map_frames(|frame| match frame.to_string() == name {
                true => FrameChange::Drop,
                false => FrameChange::Keep,
            });
            lines(&changed)
        };
        assert_eq!(drop("b"), ["cat;main;a;[… 12 frames left out];c 1"]);
        assert_eq!(drop("a"), ["cat;main;[… 12 frames left out];b;c 1"]);
    }

    #[test]
    fn renamed_script_keeps_nothing_of_its_name() {
        let mut builder = ProfileBuilder::new(Duration::ZERO);
        let process = builder.process(Process::new(1));
        let thread = builder.thread(Thread::new(process, 1, "t"));
        let frames = [Frame::Script { function: ScriptId(7), line: 3, found: Found::Exactly }];
        builder.add(thread, &Trace::new(frames.as_slice(), Stop::Root), 0);
        builder.add_scripts(|_| Some(Script::new("php", "secret").with_file("secret.php", 1)));
        let profile = builder.finish(SystemTime::UNIX_EPOCH, Duration::ZERO, |_| None, &mut NoSymbols);
        let changed = profile.map_frames(|_| FrameChange::rename("x"));
        assert_eq!(changed.scripts(), [Script::new("php", "x")]);
        assert_eq!(changed.frames().next().unwrap().symbols(), [Symbol::new("x")]);
        let unnamed = profile.map_frames(|_| FrameChange::Rename(Vec::new()));
        assert_eq!(unnamed.samples().next().unwrap().trace().leaf().to_string(), "[script]");
        let empty = profile.map_frames(|_| FrameChange::Drop);
        assert_eq!(empty.samples().next().unwrap().trace().leaf().to_string(), "[no stack]");
        assert_eq!((empty.scripts().len(), empty.count()), (0, 1));
    }

    #[test]
    fn panic_of_a_closure_leaves_the_profile_whole() {
        let profile = testing::profile("cat;main;read 3\nls;main;sort 5");
        let before = lines(&profile);
        let panics = [
            catch_unwind(AssertUnwindSafe(|| profile.filter(|_| panic!("filter")).count())),
            catch_unwind(AssertUnwindSafe(|| profile.map_frames(|_| panic!("frame")).count())),
            catch_unwind(AssertUnwindSafe(|| profile.group_by(|_| -> u8 { panic!("key") }).len() as u64)),
        ];
        assert!(panics.iter().all(Result::is_err));
        assert_eq!(lines(&profile), before);
    }
}
