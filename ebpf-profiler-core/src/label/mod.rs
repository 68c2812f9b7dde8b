//! Labels that a program sets for its own work: a request, a tenant, a phase.
//!
//! ```text
//!   label("request", 7)         ──► history of the thread: (time, labels)          sample: thread, time
//!   drop of the guard           ──► history of the thread: (time, former labels)   ──► the labels at that time
//!   with_labels(labels).await       the same in each poll
//! ```
//!
//! Samples have the labels in profiles of this program (`Builder::include_self`): in
//! [`Sample::labels`](crate::profile::Sample::labels), and where sinks have a place for labels.
//! Libraries can set labels without the feature `live`: whether a profiler runs is up to the
//! program.
//!
//! | `cargo bench -p benches --bench labels` | without a profiler | with one |
//! | --- | --- | --- |
//! | a poll of [`with_labels`](WithLabels::with_labels), [`enter`] | 4 ns | 0.13 µs, no allocation |
//! | [`label`] | 0.15 µs | 0.19 µs |
//!
//! A sample is read up to some 0.3 s after it was taken. So each thread keeps the changes of ten
//! seconds, at most the last 131,072 (3 MiB; 0.6 s of 100,000 polls a second), and wakes the
//! profiler after each eighth of them. Samples that are read still later have no labels, and are
//! counted in [`PipelineStats::unlabelled`](crate::stats::PipelineStats::unlabelled). A profile has
//! at most 16,384 combinations of threads and labels; later ones have none. Recordings don't hold
//! labels.
//!
//! # Examples
//!
//! ```
//! use ebpf_profiler_core::label::{WithLabels, label};
//! use ebpf_profiler_core::profile::Labels;
//!
//! fn handle(request: i64) {
//!     let _request = label("request", request);
//!     // The work of the request.
//! }
//!
//! async fn serve(request: i64) {
//!     async { /* await anything */ }.with_labels(Labels::from([("request", request)])).await;
//! }
//! # handle(7);
//! # drop(serve(7));
//! ```

mod future;
#[cfg_attr(not(any(feature = "live", test)), expect(dead_code, reason = "profilers are part of the feature"))]
mod history;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::profile::{LabelValue, Labels, SampleLabel};

pub use future::WithLabels;
#[cfg(feature = "live")]
pub(crate) use history::{Recording, labels_at};

/// Sets a label of the current thread until the guard is dropped.
///
/// An inner scope with the same key replaces the value. It is kept without a profiler, too, so that
/// one that starts later finds it.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::label::label;
///
/// fn handle(request: i64) {
///     let _request = label("request", request);
///     let _tenant = label("tenant", "blue");
///     // The work of the request.
/// }
/// # handle(7);
/// ```
pub fn label(key: impl Into<Arc<str>>, value: impl Into<LabelValue>) -> LabelGuard {
    let label = SampleLabel::new(key, value);
    LabelGuard::new(history::change(|labels| labels.with(label)).unwrap_or_default())
}

/// Sets prepared labels of the current thread until the guard is dropped, in addition to those that
/// it has.
///
/// Does nothing if no profiler includes this program: then one that starts meanwhile finds no
/// labels. It does not allocate if the thread has no labels.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::{label, profile::Labels};
///
/// let labels = Labels::from([("phase", "parse"), ("tenant", "blue")]);
/// for _ in 0..1_000 {
///     let _labels = label::enter(&labels);
///     // The work.
/// }
/// ```
#[inline]
pub fn enter(labels: &Labels) -> Option<LabelGuard> {
    if !history::is_recording() {
        return None;
    }
    history::change(|former| former.and(labels)).map(LabelGuard::new)
}

/// Restores the labels that the thread had before [`label`] or [`enter`], when it is dropped.
///
/// Guards of one thread are dropped in the reverse order in which they were made: each puts back
/// the labels of the time at which it was made. A guard stays in its thread, so it is not held
/// across `.await`: there, [`with_labels`](WithLabels::with_labels) takes its place.
#[derive(Debug)]
#[must_use = "the label is removed when the guard is dropped"]
pub struct LabelGuard {
    former: Labels,
    /// Keeps the guard in its thread.
    _thread: PhantomData<*const ()>,
}

impl LabelGuard {
    fn new(former: Labels) -> LabelGuard {
        LabelGuard { former, _thread: PhantomData }
    }
}

impl Drop for LabelGuard {
    fn drop(&mut self) {
        let former = std::mem::take(&mut self.former);
        history::change(|_| former);
    }
}
