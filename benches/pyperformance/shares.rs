//! Shares of whole stacks and of frames without name.

use std::collections::BTreeMap;

use ebpf_profiler_core::profile::{Call, FrameView, Profile, Sample};
use ebpf_profiler_core::trace::Frame;

/// Counts over samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) samples: u64,
    pub(crate) whole: u64,
    /// Samples with a script frame.
    pub(crate) scripted: u64,
    pub(crate) scripts: Frames,
    pub(crate) native: Frames,
    /// Number of samples or frames per problem.
    pub(crate) causes: BTreeMap<String, Cause>,
}

/// Frames of one kind, weighted by samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frames {
    pub(crate) all: u64,
    pub(crate) unnamed: u64,
}

/// Frequency of a problem, and the first stack with it, root first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cause {
    pub(crate) count: u64,
    pub(crate) example: String,
}

impl Shares {
    /// Adds the samples of a profile.
    pub(crate) fn add(&mut self, profile: &Profile) {
        for sample in profile.samples() {
            self.add_sample(&sample);
        }
    }

    /// Adds other counts.
    pub(crate) fn add_all(&mut self, others: &Shares) {
        self.samples += others.samples;
        self.whole += others.whole;
        self.scripted += others.scripted;
        for (own, others) in [(&mut self.scripts, others.scripts), (&mut self.native, others.native)] {
            own.all += others.all;
            own.unnamed += others.unnamed;
        }
        for (why, others) in &others.causes {
            let cause = self.causes.entry(why.clone()).or_default();
            cause.count += others.count;
            if cause.example.is_empty() {
                cause.example.clone_from(&others.example);
            }
        }
    }

    fn add_sample(&mut self, sample: &Sample<'_>) {
        let (trace, count) = (sample.trace(), sample.count());
        self.samples += count;
        if trace.is_whole() {
            self.whole += count;
        } else {
            self.blame(format!("cut: {}", trace.stop()), sample);
        }
        let mut is_scripted = false;
        for frame in trace.frames() {
            let why = match frame.frame() {
                Frame::Kernel { .. } => continue,
                Frame::Script { .. } => {
                    is_scripted = true;
                    self.scripts.all += count;
                    frame.script().filter(|script| script.is_unnamed).map(|script| script.name.to_string())
                }
                _ => {
                    self.native.all += count;
                    frame.symbols().is_empty().then(|| format!("no name: {}", place(frame)))
                }
            };
            let Some(why) = why else { continue };
            match frame.frame() {
                Frame::Script { .. } => self.scripts.unnamed += count,
                _ => self.native.unnamed += count,
            }
            self.blame(why, sample);
        }
        self.scripted += if is_scripted { count } else { 0 };
        if !is_scripted && trace.frames().any(|frame| is_loop(frame)) {
            self.blame("a loop without calls".to_owned(), sample);
        }
    }

    fn blame(&mut self, why: String, sample: &Sample<'_>) {
        let cause = self.causes.entry(why).or_default();
        cause.count += sample.count();
        if cause.example.is_empty() {
            let calls = sample.trace().calls().map(|call| match call {
                Call::Function { frame, .. } => frame.to_string(),
                other => format!("{other:?}"),
            });
            cause.example = calls.collect::<Vec<_>>().join(" ");
        }
    }
}

fn is_loop(frame: FrameView<'_>) -> bool {
    frame.symbols().iter().any(|symbol| symbol.function.contains("PyEval_EvalFrame"))
}

/// Returns the file of a frame.
fn place(frame: FrameView<'_>) -> String {
    frame.module().map_or("code without a file", |module| module.name()).to_owned()
}
