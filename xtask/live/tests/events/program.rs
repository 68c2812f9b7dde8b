//! Functions in the profiles of programs.

use ebpf_profiler_core::profile::{Profile, Sample};

use crate::workload::chain;

/// Returns the sum of the values of the samples of kind number `kind` that `is_wanted` accepts.
pub(crate) fn sum(profile: &Profile, kind: usize, is_wanted: impl Fn(&Sample<'_>) -> bool) -> u64 {
    profile.of_kind(kind).samples().filter(|sample| is_wanted(sample)).map(|sample| sample.value()).sum()
}

/// Returns `true` if a function is in the stack of a sample.
pub(crate) fn is_in(sample: &Sample<'_>, function: &str) -> bool {
    chain(sample).iter().any(|name| name.split('(').next() == Some(function))
}
