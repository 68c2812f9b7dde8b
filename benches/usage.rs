//! CPU time and memory of programs.

use std::fs;
use std::io;
use std::process::Child;
use std::time::Duration;

/// Waits for a child and returns the CPU time of it and its children.
///
/// # Errors
///
/// Fails if the child does.
#[expect(clippy::needless_pass_by_value, reason = "nobody may wait for it once more")]
pub fn wait(child: Child) -> io::Result<Duration> {
    let mut status = 0;
    // SAFETY: zero is a valid value of every field.
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

/// Returns the highest resident memory of this process, in bytes.
///
/// # Errors
///
/// Fails without `/proc`.
pub fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
    let kib: u64 = line.and_then(|number| number.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(kib * 1024)
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`, which all processes share.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// Returns the CPU time of this thread in nanoseconds; its `schedstat` has the resolution of a
/// tick.
pub fn on_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of all threads of this process.
pub fn all_on_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of all threads of another process.
///
/// # Errors
///
/// Fails if it has exited.
pub fn of_process(pid: u32) -> io::Result<Duration> {
    let mut id = 0;
    // SAFETY: the call writes one id.
    match unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut id) } {
        0 => Ok(clock(id)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
