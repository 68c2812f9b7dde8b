//! The system calls of each sort of thread.

use libc::{
    CLONE_THREAD, O_ACCMODE, O_CREAT, O_TRUNC, PR_SET_NAME, PROT_EXEC, SYS_bpf, SYS_brk, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_clone, SYS_clone3, SYS_close, SYS_dup, SYS_epoll_ctl, SYS_epoll_pwait, SYS_exit,
    SYS_exit_group, SYS_fadvise64, SYS_fcntl, SYS_fdatasync, SYS_flock, SYS_fstat, SYS_fstatfs, SYS_fsync,
    SYS_ftruncate, SYS_futex, SYS_getdents64, SYS_getpid, SYS_getpriority, SYS_getrandom, SYS_getrusage,
    SYS_gettid, SYS_ioctl, SYS_lseek, SYS_madvise, SYS_memfd_create, SYS_mmap, SYS_mprotect, SYS_mremap,
    SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_openat2, SYS_perf_event_open, SYS_ppoll,
    SYS_prctl, SYS_pread64, SYS_preadv, SYS_prlimit64, SYS_process_vm_readv, SYS_pwrite64, SYS_read,
    SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam,
    SYS_sched_getscheduler, SYS_sched_setattr, SYS_sched_setscheduler, SYS_sched_yield, SYS_sendmsg,
    SYS_sendto, SYS_set_robust_list, SYS_setpriority, SYS_shutdown, SYS_sigaltstack, SYS_socketpair,
    SYS_statfs, SYS_statx, SYS_sysinfo, SYS_uname, SYS_wait4, SYS_write, SYS_writev,
};

use super::{AllowList, Rule};
use Rule::{Always, Fails, OneOf, With, Without};

/// Threads of the profiler that work on what other programs sent: they unwind, name, open and read files
/// and memory of other processes, and change what runs in the kernel.
pub(in crate::live) const PROFILER: AllowList =
    AllowList(&[BASIS, OLD_NAMES, FILES, SOCKETS, KERNEL, SCHEDULING, OUTPUT]);

/// A broker: it opens files and sends their descriptors.
pub(in crate::live) const BROKER: AllowList = AllowList(&[BASIS, OLD_NAMES, FILES, SOCKETS, CONTROL]);

/// Memory without code, threads, time.
const BASIS: &[Rule] = &[
    Always(SYS_brk),
    Without(SYS_mmap, 2, PROT_EXEC as u32),
    Without(SYS_mprotect, 2, PROT_EXEC as u32),
    Always(SYS_munmap),
    Always(SYS_mremap),
    Always(SYS_madvise),
    Always(SYS_futex),
    With(SYS_clone, 0, CLONE_THREAD as u32),
    // Its flags are in memory. The C library takes the former call then.
    Fails(SYS_clone3, libc::ENOSYS),
    Always(SYS_set_robust_list),
    Always(SYS_rseq),
    Always(SYS_sigaltstack),
    Always(SYS_rt_sigaction),
    Always(SYS_rt_sigprocmask),
    Always(SYS_rt_sigreturn),
    Always(SYS_restart_syscall),
    OneOf(SYS_prctl, 0, &[PR_SET_NAME as u32, PR_SET_VMA, PR_GET_AUXV]),
    Always(SYS_exit),
    Always(SYS_exit_group),
    Always(SYS_getpid),
    Always(SYS_gettid),
    Always(SYS_getrandom),
    Always(SYS_clock_gettime),
    Always(SYS_clock_nanosleep),
    Always(SYS_nanosleep),
    Always(SYS_sched_yield),
    Always(SYS_sched_getaffinity),
    Always(SYS_uname),
    Always(SYS_sysinfo),
    Always(SYS_prlimit64),
    Always(SYS_ppoll),
];

/// Names of memory, which the C library sets.
const PR_SET_VMA: u32 = 0x5356_4d41;

/// Facts of the kernel about this process.
const PR_GET_AUXV: u32 = 0x4155_5856;

/// Calls that newer architectures replaced by others.
#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[Rule] = &[
    Always(libc::SYS_poll),
    Without(libc::SYS_open, 1, WRITING),
    Always(libc::SYS_stat),
    Always(libc::SYS_lstat),
    Always(libc::SYS_readlink),
    Always(libc::SYS_epoll_wait),
    Always(libc::SYS_time),
    Always(libc::SYS_gettimeofday),
];

#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[Rule] = &[];

/// Flags of an opening that changes a file.
const WRITING: u32 = (O_ACCMODE | O_CREAT | O_TRUNC) as u32;

/// Opening and reading.
const FILES: &[Rule] = &[
    Without(SYS_openat, 2, WRITING),
    // Its flags are in memory. Files are found by it, not opened.
    Always(SYS_openat2),
    Always(SYS_close),
    Always(SYS_read),
    Always(SYS_readv),
    Always(SYS_pread64),
    Always(SYS_preadv),
    Always(SYS_lseek),
    Always(SYS_fadvise64),
    Always(SYS_fstat),
    Always(SYS_newfstatat),
    Always(SYS_statx),
    Always(SYS_statfs),
    Always(SYS_fstatfs),
    Always(SYS_readlinkat),
    Always(SYS_getdents64),
    Always(SYS_fcntl),
    Always(SYS_dup),
    Always(SYS_memfd_create),
];

/// Messages between profiler and broker.
const SOCKETS: &[Rule] = &[
    OneOf(SYS_socketpair, 0, &[libc::AF_UNIX as u32]),
    Always(SYS_sendmsg),
    Always(SYS_recvmsg),
    Always(SYS_sendto),
    Always(SYS_recvfrom),
    Always(SYS_shutdown),
];

/// Requests on files that were opened.
const CONTROL: &[Rule] = &[OneOf(SYS_ioctl, 1, &[GET_VERSION, PROCMAP_QUERY])];

/// `FS_IOC_GETVERSION`.
const GET_VERSION: u32 = 0x8008_7601;

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u32 = 0xc068_6611;

/// Programs, maps and events in the kernel, and memory of processes.
const KERNEL: &[Rule] =
    &[Always(SYS_bpf), Always(SYS_perf_event_open), Always(SYS_ioctl), Always(SYS_process_vm_readv)];

/// Priorities and reservations.
const SCHEDULING: &[Rule] = &[
    Always(SYS_sched_getattr),
    Always(SYS_sched_setattr),
    Always(SYS_sched_getparam),
    Always(SYS_sched_getscheduler),
    Always(SYS_sched_setscheduler),
    Always(SYS_getpriority),
    Always(SYS_setpriority),
    Always(SYS_getrusage),
    Always(SYS_epoll_pwait),
    Always(SYS_epoll_ctl),
    // The end of a broker.
    Always(SYS_wait4),
];

/// Recordings, which are open already; messages of a panic.
const OUTPUT: &[Rule] = &[
    Always(SYS_write),
    Always(SYS_writev),
    Always(SYS_pwrite64),
    Always(SYS_ftruncate),
    Always(SYS_fsync),
    Always(SYS_fdatasync),
    Always(SYS_flock),
];
