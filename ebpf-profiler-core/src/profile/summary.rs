//! Summary of a profile in one line.

use std::fmt;
use std::time::Duration;

use super::Profile;
use crate::text::{Number, Share};

/// Counts of a profile for display: samples, whole stacks and losses.
///
/// # Examples
///
/// ```
/// let profile = ebpf_profiler_core::testing::profile("cat;main;read_[k] 3\ncat;[truncated: stack not readable];f 1");
/// assert_eq!(profile.summary().to_string(), "4 samples in 1.0 s, 75.0 % of the stacks whole, none lost");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Length of the profile.
    pub duration: Duration,
    /// Number of samples of all kinds in the profile. Lost events are no samples.
    pub samples: u64,
    /// Number of samples whose stack reaches from leaf to root.
    pub whole: u64,
    /// Number of samples whose stack has a [derived](super::FrameView::is_derived) frame, and no
    /// guessed one.
    pub derived: u64,
    /// Number of samples whose stack has a [guessed](super::FrameView::is_guessed) frame. All
    /// others are exact or derived.
    pub guessed: u64,
    /// Number of samples whose stack has a [doubtful](super::FrameView::is_doubtful) frame.
    pub doubtful: u64,
    /// Totals of the kinds of samples other than CPU time, such as `1.5 s off-cpu`.
    pub totals: Vec<String>,
    /// Number of events that did not become samples, by reason.
    pub losses: Vec<(String, u64)>,
}

impl Profile {
    /// Returns the summary, which displays as one line.
    pub fn summary(&self) -> Summary {
        let whole = self.samples().filter(|sample| sample.trace().is_whole());
        let doubtful = self.samples().filter(|sample| sample.trace().is_doubtful());
        let guessed = self.samples().filter(|sample| sample.trace().is_guessed());
        let derived = self.samples().filter(|sample| {
            let trace = sample.trace();
            trace.is_derived() && !trace.is_guessed()
        });
        Summary {
            duration: self.duration(),
            samples: self.count(),
            whole: whole.map(|sample| sample.count()).sum(),
            derived: derived.map(|sample| sample.count()).sum(),
            guessed: guessed.map(|sample| sample.count()).sum(),
            doubtful: doubtful.map(|sample| sample.count()).sum(),
            totals: self
                .by_kind()
                .filter(|profile| !profile.kind().is_cpu())
                .map(|profile| format!("{} {}", profile.kind().format(profile.total()), profile.kind()))
                .collect(),
            losses: self.losses().map(|(cause, count)| (cause.to_owned(), count)).collect(),
        }
    }
}

impl Summary {
    /// Returns the parts of the line: samples, whole stacks, losses.
    pub fn parts(&self) -> [String; 3] {
        let seconds = self.duration.as_secs_f64();
        let totals: String = self.totals.iter().map(|total| format!(" ({total})")).collect();
        let samples = format!("{}{totals} in {seconds:.1} s", Number(self.samples).of("sample"));
        [samples, self.whole_part(), self.lost_part()]
    }

    fn whole_part(&self) -> String {
        match self.samples {
            0 => "no stacks".into(),
            all => {
                let whole = format!("{} of the stacks whole", Share { part: self.whole, all });
                match self.doubtful {
                    0 => whole,
                    doubtful => format!("{whole} ({} doubtful)", Number(doubtful)),
                }
            }
        }
    }

    fn lost_part(&self) -> String {
        let reasons: Vec<String> =
            self.losses.iter().map(|(reason, count)| format!("{} {reason}", Number(*count))).collect();
        match reasons.is_empty() {
            true => "none lost".into(),
            false => format!("lost: {}", reasons.join(", ")),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().join(", "))
    }
}
