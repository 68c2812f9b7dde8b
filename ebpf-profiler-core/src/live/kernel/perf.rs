//! Perf events: sampling clocks, probes, tracepoints, counters, and buffers of life events.

#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// `struct perf_event_attr` up to and including `build_id` among its flags.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const CPU_CLOCK: u64 = 0;
const DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;

/// Bits of [`Attributes::flags`].
mod flag {
    pub(super) const EXCLUDE_IDLE: u64 = 1 << 7;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const TASK: u64 = 1 << 13;
    pub(super) const WATERMARK: u64 = 1 << 14;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const MMAP2: u64 = 1 << 23;
    pub(super) const COMM_EXEC: u64 = 1 << 24;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
    pub(super) const BUILD_ID: u64 = 1 << 34;
}

/// Opens a clock that runs `program` on `cpu` every `period`, except while the CPU is idle.
pub(in crate::live) fn clock(cpu: u32, period: Duration, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let event = open(
        Attributes {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            // A period, not a frequency: the kernel throttles frequencies on a busy machine.
            period: period.as_nanos() as u64,
            flags: flag::EXCLUDE_IDLE,
            ..Attributes::default()
        },
        cpu,
    )?;
    set_program(&event, program)?;
    Ok(event)
}

/// Lets an event run a program as long as it is open.
pub(in crate::live) fn set_program(event: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    const SET_BPF: libc::c_ulong = 0x4004_2408;
    // SAFETY: the request takes the descriptor of a program.
    let error = unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF as _, program.as_raw_fd()) };
    if error < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens a probe at offset `at` of `target`, the path of a file or a function of the kernel, in all processes. `kind` is the number
/// of the kernel's interface for these probes. The kernel counts the 16 bits at offset `semaphore` of the file up, unless that is 0.
pub(in crate::live) fn probe(
    kind: u32,
    target: &CStr,
    at: u64,
    semaphore: u64,
    is_return: bool,
) -> io::Result<OwnedFd> {
    const SEMAPHORE_SHIFT: u32 = 32;
    let attributes = Attributes {
        kind,
        config: u64::from(is_return) | semaphore << SEMAPHORE_SHIFT,
        config1: target.as_ptr() as u64,
        config2: at,
        ..Attributes::default()
    };
    // Probes of all processes run their program on every CPU.
    open(attributes, 0)
}

/// Opens tracepoint number `id`. Its program runs on every CPU.
pub(in crate::live) fn tracepoint(id: u64) -> io::Result<OwnedFd> {
    open(Attributes { kind: TRACEPOINT, config: id, period: 1, ..Attributes::default() }, 0)
}

/// Opens an event of type `kind` on `cpu` that triggers at every `period`-th event.
pub(in crate::live) fn counter(kind: u32, number: u64, period: u32, cpu: u32) -> io::Result<OwnedFd> {
    open(Attributes { kind, config: number, period: period.into(), ..Attributes::default() }, cpu)
}

/// Opens a stream of life events on `cpu`, which is readable once `watermark` bytes wait. Kernels before 5.12 have no build ids in it,
/// but files.
pub(super) fn life(cpu: u32, watermark: u32) -> io::Result<OwnedFd> {
    life_with(cpu, watermark, flag::BUILD_ID).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => life_with(cpu, watermark, 0),
        _ => Err(error),
    })
}

fn life_with(cpu: u32, watermark: u32, build_id: u64) -> io::Result<OwnedFd> {
    open(
        Attributes {
            kind: SOFTWARE,
            config: DUMMY,
            sample_type: SAMPLE_TID | SAMPLE_TIME,
            flags: flag::MMAP
                | flag::MMAP2
                | flag::COMM
                | flag::COMM_EXEC
                | flag::TASK
                | flag::WATERMARK
                | flag::SAMPLE_ID_ALL
                | flag::USE_CLOCKID
                | build_id,
            wakeup_watermark: watermark,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        },
        cpu,
    )
}

fn open(mut attributes: Attributes, cpu: u32) -> io::Result<OwnedFd> {
    const EVERY_PROCESS: i32 = -1;
    const NO_GROUP: i32 = -1;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    attributes.size = size_of::<Attributes>() as u32;
    // SAFETY: the attributes have the size that they state, and the call keeps no reference to them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attributes,
            EVERY_PROCESS,
            cpu as i32,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Waits up to `wait` for one of `fds` to be readable. Returns `true` for each that is.
pub(in crate::live) fn poll(fds: &[i32], wait: std::time::Duration) -> io::Result<Vec<bool>> {
    let entry = |&fd: &i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the count is that of the entries, and the call keeps no reference to them.
    let count = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, wait) };
    let error = io::Error::last_os_error();
    if count < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(entries.iter().map(|entry| entry.revents & libc::POLLIN != 0).collect())
}
