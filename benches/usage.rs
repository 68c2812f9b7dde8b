//! What programs used.

use std::fs;
use std::io;
use std::process::Child;
use std::time::Duration;

/// Waits for a child to end; the CPU time that it and its own children took.
///
/// # Errors
///
/// When it failed.
#[expect(clippy::needless_pass_by_value, reason = "nobody may wait for it once more")]
pub fn wait(child: Child) -> io::Result<Duration> {
    let mut status = 0;
    // SAFETY: the kernel fills in all of it; zero is a value of every field.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let pid = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        return Err(io::Error::other(format!("a child ended with wait status {status:#x}")));
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}

/// The most memory that this program ever had, in bytes.
///
/// # Errors
///
/// Where /proc isn't there.
pub fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
    let kib: u64 = line.and_then(|number| number.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(kib * 1024)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which all programs share.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// How long this thread was on a CPU, to the nanosecond: its `schedstat` only moves with the tick.
pub fn on_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How long all threads of this program were on a CPU.
pub fn all_on_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
