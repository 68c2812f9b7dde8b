//! Resource usage of this program.

use std::fs;
use std::time::Duration;

use super::clock;

/// Resource usage of the calling process: the profiler and the program that embeds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Peak of the resident memory in bytes.
    pub peak: u64,
}

impl Usage {
    /// Returns the current usage; a value that `/proc` does not have is 0.
    pub fn now() -> Usage {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Usage {
            cpu: Duration::from_nanos(clock::read(libc::CLOCK_PROCESS_CPUTIME_ID)),
            resident: bytes(&status, "VmRSS:").unwrap_or_default(),
            peak: bytes(&status, "VmHWM:").unwrap_or_default(),
        }
    }
}

/// Parses a line such as `VmRSS:     12 kB`.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lines_of_status() {
        let status = "VmPeak:\t    9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((bytes(status, "VmRSS:"), bytes(status, "VmHWM:")), (Some(1 << 20), Some(2 << 20)));
        assert_eq!((bytes(status, "VmSwap:"), bytes("VmRSS: much", "VmRSS:")), (None, None));
    }

    #[test]
    fn usage_of_running_program_is_not_zero() {
        let usage = Usage::now();
        assert!(usage.cpu > Duration::ZERO && usage.resident > 0 && usage.peak >= usage.resident);
    }
}
