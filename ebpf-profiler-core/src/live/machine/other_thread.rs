//! Processes whose first thread has exited while others run on.

use std::fs;

/// Returns a running thread of a process whose first thread has exited.
///
/// `/proc/PID` shows nothing of such a process; `/proc/TID` of another thread does.
pub(super) fn of(pid: u32) -> Option<u32> {
    let is_there = |id: u32| fs::read_link(format!("/proc/{id}/exe")).is_ok();
    if is_there(pid) {
        return None;
    }
    let folder = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let threads = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    threads.filter(|&thread| thread != pid).find(|&thread| is_there(thread))
}
