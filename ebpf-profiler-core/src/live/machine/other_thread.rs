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

/// Returns `true` until the last thread of a process has exited.
pub(in crate::live) fn is_alive(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        // Everyone may read it.
        fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| !has_exited(&stat))
    })
}

/// Returns `true` if a line of `stat` is that of a thread that has exited. The name before its state
/// may hold anything.
fn has_exited(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['Z', 'X', 'x']))
}

#[test]
fn exited_threads_are_told_by_their_state() {
    assert!(has_exited("7 (a) R 1) Z 1 2") && has_exited("7 (a) X 1"));
    assert!(!has_exited("7 (a) Z 1) S 1 2") && !has_exited(""));
    assert!(is_alive(std::process::id()) && !is_alive(u32::MAX));
}
