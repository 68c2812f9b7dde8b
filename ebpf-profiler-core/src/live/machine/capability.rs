//! The capabilities of this program, and what the kernel demands of programs that sample.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{self, CapabilitySet};

/// A capability by name and bit, as in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct Capability {
    pub(in crate::live) name: &'static str,
    bit: u32,
}

pub(in crate::live) const BPF: Capability = Capability { name: "CAP_BPF", bit: 39 };
pub(in crate::live) const PERFMON: Capability = Capability { name: "CAP_PERFMON", bit: 38 };
pub(in crate::live) const SYS_PTRACE: Capability = Capability { name: "CAP_SYS_PTRACE", bit: 19 };
pub(in crate::live) const DAC_READ_SEARCH: Capability = Capability { name: "CAP_DAC_READ_SEARCH", bit: 2 };
pub(in crate::live) const CHECKPOINT_RESTORE: Capability =
    Capability { name: "CAP_CHECKPOINT_RESTORE", bit: 40 };
pub(in crate::live) const SYS_RESOURCE: Capability = Capability { name: "CAP_SYS_RESOURCE", bit: 24 };
pub(in crate::live) const SYS_NICE: Capability = Capability { name: "CAP_SYS_NICE", bit: 23 };
pub(in crate::live) const SYS_ADMIN: Capability = Capability { name: "CAP_SYS_ADMIN", bit: 21 };

impl Capability {
    /// Returns `true` if this program's effective set has the capability.
    ///
    /// `CAP_SYS_ADMIN` implies those that were split from it: `CAP_PERFMON`, `CAP_BPF`,
    /// `CAP_CHECKPOINT_RESTORE`.
    pub(in crate::live) fn is_held(self) -> bool {
        let split_from_admin = [BPF, PERFMON, CHECKPOINT_RESTORE].contains(&self);
        let held = effective();
        has(held, self) || (split_from_admin && has(held, SYS_ADMIN))
    }
}

/// Notes that a broker has the privileges to read other processes.
pub(super) fn set_broker() {
    HAS_BROKER.store(true, Ordering::Relaxed);
}

/// Returns `true` if a broker has been started, which has the capability.
pub(in crate::live) fn is_of_broker(capability: Capability) -> bool {
    let is_its = [SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE].contains(&capability);
    is_its && HAS_BROKER.load(Ordering::Relaxed)
}

static HAS_BROKER: AtomicBool = AtomicBool::new(false);

/// Returns the first of `needed` that this program lacks, or the first if it has all of them.
pub(in crate::live) fn first_missing(needed: &[Capability]) -> &'static str {
    let missing = needed.iter().find(|capability| !capability.is_held());
    missing.or(needed.first()).map_or("a capability", |capability| capability.name)
}

/// Returns `kernel.perf_event_paranoid`; 0 if it is negative.
pub(in crate::live) fn paranoia() -> u32 {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|level| level.trim().parse().ok())
        .unwrap_or(0)
}

/// Drops all capabilities except `kept` from all sets of this thread.
pub(super) fn restrict(kept: CapabilitySet) -> io::Result<()> {
    let mut sets = thread::capabilities(None)?;
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for dropped in !kept & CapabilitySet::all() {
            // The running kernel may not have it.
            let _ = thread::remove_capability_from_bounding_set(dropped);
        }
    }
    sets.effective &= kept;
    sets.permitted &= kept;
    // The ambient set follows: what is not inheritable is not in it.
    sets.inheritable &= kept;
    Ok(thread::set_capabilities(None, sets)?)
}

fn effective() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0");
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

fn has(set: u64, capability: Capability) -> bool {
    set >> capability.bit & 1 != 0
}
