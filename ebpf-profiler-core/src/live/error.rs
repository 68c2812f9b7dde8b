//! Errors of a profiler, each with its remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::kernel::fault::KernelFault;
use super::machine::capability::{self, Capability, PERFMON};
use super::trigger::filter::FilterError;
use super::trigger::{AttachError, Trigger};
use crate::files::Refused;
use crate::sample::SourceError;

/// An error that prevents a profiler from starting.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An option is invalid.
    Option(OptionError),
    /// The kernel side is not compiled for this architecture.
    Architecture {
        /// Name of the architecture, as in [`std::env::consts::ARCH`].
        name: &'static str,
    },
    /// `/proc` can't be read.
    NoProc {
        /// Error of the system.
        error: io::Error,
    },
    /// The program lacks a capability.
    Privilege {
        /// The operation that the system did not permit.
        what: &'static str,
        /// Name of the missing capability.
        capability: &'static str,
    },
    /// The kernel permits only `CAP_SYS_ADMIN` to sample the CPUs: kernels of some distributions have levels of
    /// `kernel.perf_event_paranoid` beyond Linux's own.
    Paranoid {
        /// The level that is set.
        level: u32,
    },
    /// The kernel has no ring buffers for BPF programs: it is older than 5.8, and its distribution has not added them.
    OldKernel {
        /// Release of the kernel.
        release: String,
    },
    /// The kernel is older than 5.11 and permits this program to lock less memory than a profiler needs (`RLIMIT_MEMLOCK`).
    LockedMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The kernel has a fault that a profiler would trigger: see [`Builder::accept_kernel_faults`](super::Builder::accept_kernel_faults).
    FaultyKernel {
        /// Release of the kernel.
        release: String,
        /// The fault.
        fault: KernelFault,
    },
    /// The kernel has no BTF (`/sys/kernel/btf/vmlinux`).
    NoTypes,
    /// The kernel's compiler for BPF programs is switched off, and its interpreter doesn't run loops.
    NoCompiler,
    /// The kernel's verifier rejects the sampling program.
    Rejected {
        /// Error of the system.
        error: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// A system call failed for another reason.
    System {
        /// The operation that failed.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// A trigger cannot be attached.
    Trigger {
        /// The trigger.
        trigger: Box<Trigger>,
        /// The reason.
        error: AttachError,
    },
    /// The programs of the crate `ebpf-programs` do not match this library.
    Object {
        /// The part that does not match.
        what: String,
    },
    /// The file of a recording can't be created.
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// An invalid option, with the values that are allowed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionError {
    /// A frequency outside of 1 to 10,000.
    Frequency {
        /// The frequency.
        hertz: u32,
    },
    /// An interval shorter than 10 ms.
    Interval {
        /// The interval.
        interval: Duration,
    },
    /// A jitter outside of 0 to 1.
    Jitter {
        /// The jitter.
        share: f64,
    },
    /// A time of a walk outside of 20 µs to 4 s.
    WalkTime {
        /// The time.
        longest: Duration,
    },
    /// A ring size that is no power of two from 64 KiB to 1 GiB.
    RingSize {
        /// The size in bytes.
        bytes: u32,
    },
    /// A budget of CPU time outside of 0 to 1.
    CpuBudget {
        /// The share of all CPUs.
        share: f64,
    },
    /// A reservation of CPU time outside of 0 to 0.5.
    Reservation {
        /// The share of all CPUs.
        share: f64,
    },
    /// A budget of memory that is too small for any profile.
    MemoryBudget {
        /// The budget in bytes.
        bytes: u64,
        /// The least budget on this machine.
        least: u64,
    },
    /// A text that is no budget.
    BudgetText {
        /// The text.
        text: String,
    },
    /// No process has this id.
    NoProcess {
        /// The id.
        pid: u32,
    },
    /// The id of a thread instead of its process.
    Thread {
        /// The id of the thread.
        tid: u32,
        /// The id of its process.
        pid: u32,
    },
    /// The same trigger twice, or more than 64.
    Triggers {
        /// The trigger as text.
        trigger: String,
    },
    /// A filter that cannot be applied.
    Filter(FilterError),
    /// An interval without a sink that takes the profiles.
    NoSink,
    /// Neither unwind tables nor the choice to do without them.
    NoUnwindTables,
    /// The id of this program, for a profiler that was started without it.
    ExcludedSelf,
}

/// An error while changing a running profiler.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The new value is invalid; the profiler is as it was.
    Option(OptionError),
    /// The profiler has failed.
    Stop(StopError),
}

/// An error of a running profiler, which [`finish`](super::Profiler::finish), [`stop`](super::Profiler::stop) and others return.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StopError {
    /// The event stream failed.
    Broken(Arc<SourceError>),
    /// The samples of the profile were still being unwound at the [deadline](super::Builder::deadline).
    Deadline,
    /// The profile was not ready at the [deadline](super::Builder::reply_deadline) of the call. The sinks get it later.
    NotReady {
        /// The deadline.
        waited: Duration,
    },
    /// The profiler has ended.
    Ended,
    /// A thread of the profiler panicked, in code of this library or of a
    /// [`Symbolizer`](crate::symbol::Symbolizer), [`Language`](crate::language::Language) or
    /// [`UnwindCompiler`](crate::unwind::UnwindCompiler) that was plugged in.
    Panicked {
        /// Name of the thread.
        thread: String,
        /// Message of the panic.
        message: String,
    },
}

impl StartError {
    /// Returns the error for a failed operation; a missing privilege names the first of `needed` that this program lacks.
    pub(super) fn system(what: &'static str, needed: &[Capability], error: io::Error) -> StartError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                StartError::Privilege { what, capability: capability::first_missing(needed) }
            }
            _ => StartError::System { what, error },
        }
    }

    /// Returns `true` if the kernel's verifier gave a program up because it is too large.
    pub(super) fn is_of_large_program(&self) -> bool {
        matches!(self, StartError::Rejected { error, .. } if error.raw_os_error() == Some(libc::E2BIG))
    }

    /// Returns the error for a perf event that can't be opened.
    pub(super) fn sampling(error: io::Error) -> StartError {
        match (StartError::system("sample the CPUs", &[PERFMON], error), capability::paranoia()) {
            (StartError::Privilege { .. }, level @ 3..) if PERFMON.is_held() => {
                StartError::Paranoid { level }
            }
            (error, _) => error,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Option(error) => error.fmt(f),
            StartError::Architecture { name } => write!(
                f,
                "cannot profile on {name}: the kernel side is compiled for x86_64 and arm64 only; \
                 use ebpf-profiler-core without the feature live to read recordings here"
            ),
            StartError::NoProc { error } => {
                write!(f, "cannot read /proc: {error}; mount it: mount -t proc proc /proc")
            }
            StartError::Privilege { what, capability } => write!(
                f,
                "cannot {what}: {capability} is missing; run as root (sudo), or: \
                 setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep PROGRAM"
            ),
            StartError::Paranoid { level } => write!(
                f,
                "cannot sample the CPUs: kernel.perf_event_paranoid is {level}, and this kernel then permits only \
                 CAP_SYS_ADMIN to do it; run as root (sudo), or: sysctl kernel.perf_event_paranoid=2"
            ),
            StartError::OldKernel { release } if cfg!(target_arch = "aarch64") => {
                write!(f, "kernel {release} does not compile the sampling programs; on arm64 use Linux 6.1 or newer")
            }
            StartError::OldKernel { release } => {
                write!(f, "kernel {release} has no ring buffers, through which samples leave it; use Linux 5.10 or newer")
            }
            StartError::LockedMemory { limit } => write!(
                f,
                "this kernel counts the profiler's memory as locked, of which it permits {} KiB; \
                 run as root (sudo), or: ulimit -l unlimited",
                limit / 1024
            ),
            StartError::FaultyKernel { release, fault } => {
                write!(f, "kernel {release} has a fault: {fault}; {}", fault.remedy())
            }
            StartError::NoCompiler => f.write_str(
                "the kernel's BPF compiler is off, without which no loop runs; switch it on: sysctl net.core.bpf_jit_enable=1",
            ),
            StartError::NoTypes => f.write_str(
                "this kernel has no type information (/sys/kernel/btf/vmlinux); \
                 use one that is built with CONFIG_DEBUG_INFO_BTF=y",
            ),
            StartError::Rejected { error, log } => write!(
                f,
                "the kernel's verifier rejects the sampling program: {error}; please report this log:\n{log}"
            ),
            StartError::System { what, error } => write!(f, "cannot {what}: {error}"),
            StartError::Trigger { trigger, error } => write!(f, "cannot sample on {trigger}: {error}"),
            StartError::Object { what } => write!(
                f,
                "the kernel programs of the crate ebpf-programs don't match ebpf-profiler-core: {what}; \
                 use both in one version (cargo tree -i ebpf-programs shows them), or report this"
            ),
            StartError::Recording { path, error } => {
                let remedy = Refused::of(error).map_or("choose another file to record to", Refused::remedy);
                write!(f, "cannot create {}: {error}; {remedy}", path.display())
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Shows as the option's error, so that one's source is the next.
            StartError::Option(error) => error.source(),
            // Shows as part of this one.
            StartError::Trigger { error, .. } => error.source(),
            StartError::NoProc { error }
            | StartError::Rejected { error, .. }
            | StartError::System { error, .. }
            | StartError::Recording { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<OptionError> for StartError {
    fn from(error: OptionError) -> StartError {
        StartError::Option(error)
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Frequency { hertz } => {
                write!(f, "cannot sample at {hertz} Hz; choose a frequency from 1 to 10000")
            }
            OptionError::Interval { interval } => {
                write!(f, "cannot finish a profile every {interval:?}; choose an interval of at least 10 ms")
            }
            OptionError::Jitter { share } => {
                write!(f, "the jitter cannot be {share}; choose a share from 0 to 1")
            }
            OptionError::WalkTime { longest } => {
                write!(f, "a walk of {longest:?} is not possible; choose 20 µs to 4 s")
            }
            OptionError::RingSize { bytes } => write!(
                f,
                "the ring cannot have {bytes} bytes; choose a power of two from 65536 to 1073741824"
            ),
            OptionError::CpuBudget { share } => write!(
                f,
                "the budget cannot be {} % of all CPUs; choose a share above 0 % and up to 100 %",
                share * 100.0
            ),
            OptionError::Reservation { share } => write!(
                f,
                "{} % of all CPUs cannot be reserved; choose a share above 0 % and up to 50 %",
                share * 100.0
            ),
            OptionError::MemoryBudget { bytes, least } => write!(
                f,
                "the budget of {} MiB of memory is too small; give at least {} MiB, or none",
                bytes >> 20,
                least.div_ceil(1 << 20)
            ),
            OptionError::BudgetText { text } => write!(
                f,
                "the budget cannot be {text:?}; give a share of all CPUs, and memory if it is limited: 0.5%,64MiB"
            ),
            OptionError::NoProcess { pid } => {
                write!(f, "there is no process {pid}; list the processes that run with: ps -e")
            }
            OptionError::Thread { tid, pid } => {
                write!(f, "{tid} is a thread of process {pid}; choose the process: {pid}")
            }
            OptionError::Triggers { trigger } => {
                write!(f, "cannot sample on {trigger}; choose at most 64 triggers, each once")
            }
            OptionError::ExcludedSelf => {
                f.write_str("this program is excluded from the profiler; start it with Builder::include_self")
            }
            OptionError::Filter(error) => write!(f, "{error}"),
            OptionError::NoSink => {
                f.write_str("an interval was set, but no sink takes the profiles; add one with Builder::sink")
            }
            OptionError::NoUnwindTables => f.write_str(
                "no unwind tables; add .unwind(ebpf_profiler_unwind::tables()), or .frame_pointers_only() for stacks of \
                 code with frame pointers",
            ),
        }
    }
}

impl std::error::Error for OptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Shows as the filter's error.
            OptionError::Filter(error) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Option(error) => error.fmt(f),
            ChangeError::Stop(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ChangeError::Option(error) => error.source(),
            ChangeError::Stop(error) => error.source(),
        }
    }
}

impl From<OptionError> for ChangeError {
    fn from(error: OptionError) -> ChangeError {
        ChangeError::Option(error)
    }
}

impl From<StopError> for ChangeError {
    fn from(error: StopError) -> ChangeError {
        ChangeError::Stop(error)
    }
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::Broken(error) => error.fmt(f),
            StopError::Deadline => f.write_str(
                "the last profile was not ready in time; set a longer deadline with Builder::deadline",
            ),
            StopError::NotReady { waited } => write!(
                f,
                "the profile was not ready within {waited:?}, and only the sinks get it; set a longer time with \
                 Builder::reply_deadline"
            ),
            StopError::Ended => f.write_str("the profiler has ended"),
            StopError::Panicked { thread, message } => {
                write!(f, "thread {thread} of the profiler panicked: {message}; please report this")
            }
        }
    }
}

impl std::error::Error for StopError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Shows as the stream's error.
            StopError::Broken(error) => error.source(),
            _ => None,
        }
    }
}

/// Errors of the event stream are equal if their texts are.
impl PartialEq for StopError {
    fn eq(&self, other: &StopError) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.to_string() == other.to_string()
    }
}

impl Eq for StopError {}
