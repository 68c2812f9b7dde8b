//! In which order locations stand in their table.
//!
//! ```text
//!   numbers           locations
//!   1 to 127          those that most stacks have, by place: one byte in each of them
//!   128 and above     the others, by place
//! ```
//!
//! Neighbours in a file have most bytes of their addresses, functions and lines in common, so side by side they take less
//! when packed. Their names lie side by side in memory, too.

use ebpf_profiler_core::profile::Profile;

/// Of each frame of a profile whether its number is to be one byte.
pub(super) fn most_used(profile: &Profile) -> Vec<bool> {
    let mut uses = vec![0u32; profile.frames().len()];
    // Some of many stacks are enough to tell.
    for trace in profile.traces().step_by(profile.traces().len().div_ceil(ENOUGH).max(1)) {
        trace.frames().for_each(|frame| uses[frame.id().0 as usize] += 1);
    }
    let mut ranking = uses.clone();
    let most = match ranking.len() {
        0..=ONE_BYTE => 0,
        _ => *ranking.select_nth_unstable_by(ONE_BYTE, |a, b| b.cmp(a)).1,
    };
    uses.into_iter().map(|uses| uses > most).collect()
}

const ENOUGH: usize = 1_000;

/// How many numbers above 0 are one byte.
const ONE_BYTE: usize = 127;
