//! The order of locations in their table.
//!
//! ```text
//!   index             locations
//!   1 to 127          the most frequent ones, by address: one byte in each stack
//!   128 and above     the others, by address
//! ```
//!
//! Adjacent locations of a file share most bytes of their addresses, functions and lines, so in
//! this order they compress better. Their names are adjacent in memory, too.

use ebpf_profiler_core::profile::Profile;

/// Returns for each frame of a profile whether its index should be one byte.
pub(super) fn most_used(profile: &Profile) -> Vec<bool> {
    let mut uses = vec![0u32; profile.frames().len()];
    for trace in profile.traces().step_by(profile.traces().len().div_ceil(MAX_TRACES).max(1)) {
        trace.frames().for_each(|frame| uses[frame.id().0 as usize] += 1);
    }
    let mut ranking = uses.clone();
    let most = match ranking.len() {
        0..=ONE_BYTE => 0,
        _ => *ranking.select_nth_unstable_by(ONE_BYTE, |a, b| b.cmp(a)).1,
    };
    uses.into_iter().map(|uses| uses > most).collect()
}

/// Maximum number of traces that are counted.
const MAX_TRACES: usize = 1_000;

/// Number of indices above 0 that take one byte.
const ONE_BYTE: usize = 127;
