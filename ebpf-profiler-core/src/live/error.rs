//! Why a profiler can't start, each with what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::capability::{self, Capability, PERFMON};
use crate::files::Refused;

/// Why a profiler can't start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A frequency outside of 1 to 10,000.
    Frequency {
        /// The frequency that was asked for.
        hertz: u32,
    },
    /// There is no list of processes.
    NoProc {
        /// What the system said.
        error: io::Error,
    },
    /// A process that isn't there.
    NoProcess {
        /// Its id.
        pid: u32,
    },
    /// The program may not do what it must.
    Privilege {
        /// What was refused.
        what: &'static str,
        /// The capability that is missing.
        capability: &'static str,
    },
    /// The kernel lets only `CAP_SYS_ADMIN` sample the CPUs: those of some distributions know levels of
    /// `kernel.perf_event_paranoid` beyond Linux's own.
    Paranoid {
        /// The level that is set.
        level: u32,
    },
    /// The kernel is older than 5.17.
    OldKernel {
        /// Its release.
        release: String,
    },
    /// The kernel carries no type information.
    NoTypes,
    /// The kernel refuses the sampling program.
    Rejected {
        /// What it says.
        error: String,
        /// The verifier's log.
        log: String,
    },
    /// The system said no for another reason.
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// The kernel object doesn't fit this library.
    Object(String),
    /// There is nowhere to send profiles at an interval.
    NoSink,
    /// The file of a recording can't be created.
    Recording {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl StartError {
    /// A refusal by the system while `what` was tried.
    ///
    /// Names the first of `needed` that this program lacks.
    pub(super) fn system(what: &'static str, needed: &[Capability], error: io::Error) -> StartError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                StartError::Privilege { what, capability: capability::first_missing(needed) }
            }
            _ => StartError::System { what, error },
        }
    }

    /// A refusal to sample.
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
            StartError::Frequency { hertz } => {
                write!(f, "{hertz} ticks a second are not possible; choose a frequency from 1 to 10000")
            }
            StartError::NoProc { error } => {
                write!(f, "cannot read /proc: {error}; mount it: mount -t proc proc /proc")
            }
            StartError::NoProcess { pid } => {
                write!(f, "there is no process {pid}; list the processes that run with: ps -e")
            }
            StartError::Privilege { what, capability } => write!(
                f,
                "cannot {what}: {capability} is missing; run as root (sudo), or: \
                 setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep PROGRAM"
            ),
            StartError::Paranoid { level } => write!(
                f,
                "cannot sample the CPUs: kernel.perf_event_paranoid is {level}, and this kernel then lets only \
                 CAP_SYS_ADMIN do it; run as root (sudo), or: sysctl kernel.perf_event_paranoid=2"
            ),
            StartError::OldKernel { release } => {
                write!(f, "kernel {release} is too old for the sampling program; 5.17 or newer is needed")
            }
            StartError::NoTypes => f.write_str(
                "this kernel carries no type information (/sys/kernel/btf/vmlinux); \
                 use one that is built with CONFIG_DEBUG_INFO_BTF=y",
            ),
            StartError::Rejected { error, log } => {
                write!(f, "the kernel refuses the sampling program: {error}; please report this log:\n{log}")
            }
            StartError::System { what, error } => write!(f, "cannot {what}: {error}"),
            StartError::Object(error) => {
                write!(
                    f,
                    "the kernel object doesn't fit this library: {error}; rebuild it: cargo xtask object"
                )
            }
            StartError::Recording { path, error } => {
                let remedy = Refused::of(error).map_or("choose another file to record to", Refused::remedy);
                write!(f, "cannot create {}: {error}; {remedy}", path.display())
            }
            StartError::NoSink => {
                f.write_str("an interval was set, but no sink takes the profiles; add one with Builder::sink")
            }
        }
    }
}

impl std::error::Error for StartError {}
