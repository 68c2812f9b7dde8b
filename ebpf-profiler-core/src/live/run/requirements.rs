//! Requirements of a profiler, checked on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::live::kernel::fault::KernelFault;
use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::types::VMLINUX;
use crate::live::kernel::{memlock, version};
use crate::live::machine::capability::{
    self, BPF, CHECKPOINT_RESTORE, Capability, DAC_READ_SEARCH, PERFMON, SYS_ADMIN, SYS_NICE, SYS_PTRACE,
};
use crate::live::machine::memory;

/// A requirement of a profiler, or something that improves its profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// Name of the requirement.
    pub what: &'static str,
    /// State on this machine.
    pub state: State,
    /// Value that was found.
    pub found: String,
    /// Purpose of the requirement.
    pub purpose: &'static str,
    /// Remedy if it is not met.
    pub remedy: &'static str,
}

impl Requirement {
    /// Returns the remedy of a requirement that is not met, and the purpose of another.
    pub fn advice(&self) -> &'static str {
        if self.state == State::There { self.purpose } else { self.remedy }
    }
}

/// State of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Met.
    There,
    /// Not met; profiles will lack something.
    Limited,
    /// Not met; no profiler can start.
    Missing,
}

/// Checks all requirements of a profiler on this machine.
///
/// # Examples
///
/// ```
/// for requirement in ebpf_profiler_core::live::requirements() {
///     println!("{:<20} {:?}: {}", requirement.what, requirement.state, requirement.found);
/// }
/// ```
#[doc(alias("capabilities", "perf_event_paranoid", "BTF", "lockdown"))]
pub fn requirements() -> Vec<Requirement> {
    vec![
        kernel(),
        faults(),
        architecture(),
        types(),
        compiler(),
        locked_memory(),
        required_capability(BPF, "loads the sampling program", CAPABILITIES),
        required_capability(
            PERFMON,
            "reads the stacks of the kernel and of other users' programs",
            CAPABILITIES,
        ),
        sampling(),
        helpful_capability(SYS_PTRACE, "opens the files and reads the code of other users' programs"),
        helpful_capability(DAC_READ_SEARCH, "opens programs that only their owner may read"),
        helpful_capability(CHECKPOINT_RESTORE, "opens programs that were deleted or replaced while they run"),
        helpful_capability(SYS_NICE, "reserves CPU time for a profiler, which counts where it is scarce"),
        process_numbers(),
        kernel_names(),
        lockdown(),
    ]
}

/// Remedy for a missing capability without which no profiler starts.
const CAPABILITIES: &str =
    "run as root (sudo), or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep PROGRAM";

fn kernel() -> Requirement {
    Requirement {
        what: "kernel",
        state: state(!KernelFeature::BASIS.is_missing(), State::Missing),
        found: version::release(),
        purpose: "has the ring buffers through which samples leave it",
        remedy: if cfg!(target_arch = "aarch64") {
            "boot Linux 6.1 or newer, which compiles the sampling programs for arm64"
        } else {
            "boot Linux 5.10 or newer, for the ring buffers through which samples leave it"
        },
    }
}

fn faults() -> Requirement {
    let fault = KernelFault::find();
    Requirement {
        what: "kernel faults",
        state: state(fault.is_none(), State::Missing),
        found: fault.map_or_else(|| "none known".to_owned(), |fault| fault.to_string()),
        purpose: "no known fault that a profiler would trigger",
        remedy: fault.map_or("", KernelFault::remedy),
    }
}

fn architecture() -> Requirement {
    Requirement {
        what: "CPU",
        state: state(crate::live::IS_SUPPORTED, State::Missing),
        found: std::env::consts::ARCH.to_owned(),
        purpose: "the kernel side is compiled for it",
        remedy: "use x86_64 or arm64; the kernel side is compiled for no other yet",
    }
}

fn types() -> Requirement {
    let size = fs::metadata(VMLINUX).map(|file| file.len());
    let state = state(size.is_ok(), State::Missing);
    Requirement {
        what: "type information",
        state,
        found: size.map_or_else(|error| error.to_string(), |size| format!("{} KiB", size / 1024)),
        purpose: "tells where the kernel keeps registers and names of threads",
        remedy: "use a kernel that is built with CONFIG_DEBUG_INFO_BTF=y",
    }
}

fn compiler() -> Requirement {
    let is_on = has_compiler();
    Requirement {
        what: "BPF compiler",
        state: state(is_on, State::Missing),
        found: if is_on { "on" } else { "off" }.to_owned(),
        purpose: "runs the loop that walks stacks",
        remedy: "switch it on: sysctl net.core.bpf_jit_enable=1",
    }
}

/// Returns `true` if the kernel compiles BPF programs. Its interpreter rejects loops with a callback.
pub(super) fn has_compiler() -> bool {
    // A kernel that always compiles has no switch.
    read("/proc/sys/net/core/bpf_jit_enable") != "0"
}

fn locked_memory() -> Requirement {
    let limit = memlock::too_low();
    Requirement {
        what: "locked memory",
        state: state(limit.is_none(), State::Missing),
        found: limit.map_or_else(|| "enough".to_owned(), |limit| format!("{} KiB", limit / 1024)),
        purpose: "holds programs and tables in kernels before 5.11",
        remedy: "run as root (sudo), or: ulimit -l unlimited",
    }
}

fn sampling() -> Requirement {
    let level = capability::paranoia();
    Requirement {
        what: "perf events",
        state: state(level <= 2 || SYS_ADMIN.is_held(), State::Missing),
        found: format!("level {level}"),
        purpose: "runs the sampling program on each CPU's clock",
        remedy: "run as root (sudo), or: sysctl kernel.perf_event_paranoid=2; this kernel wants CAP_SYS_ADMIN above",
    }
}

fn state(is_met: bool, otherwise: State) -> State {
    if is_met { State::There } else { otherwise }
}

fn required_capability(capability: Capability, purpose: &'static str, remedy: &'static str) -> Requirement {
    let is_held = capability.is_held();
    let found = if is_held { "held" } else { "not held" }.to_owned();
    Requirement { what: capability.name, state: state(is_held, State::Missing), found, purpose, remedy }
}

fn helpful_capability(capability: Capability, purpose: &'static str) -> Requirement {
    let remedy =
        "profiles have fewer names without it; run as root (sudo), or add it: setcap, AmbientCapabilities=";
    let mut requirement = required_capability(capability, purpose, remedy);
    if requirement.state != State::There && capability::is_of_broker(capability) {
        requirement.state = State::There;
        requirement.found = "held by the broker".to_owned();
    }
    Requirement { state: state(requirement.state == State::There, State::Limited), ..requirement }
}

fn process_numbers() -> Requirement {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(FIRST_NAMESPACE, |file| file.ino());
    let (state, found) = numbering(namespace, &read("/proc/self/status"));
    Requirement {
        what: "process numbers",
        state,
        found: found.to_owned(),
        purpose: "matches processes with samples by the kernel's number",
        remedy: "share the machine's processes: docker run --pid=host, in Kubernetes hostPID: true",
    }
}

/// Compares the process ids of samples, which are of the initial namespace, with those of the mounted `/proc`.
fn numbering(namespace: u64, status: &str) -> (State, &'static str) {
    if namespace == FIRST_NAMESPACE || !memory::is_ours(status) {
        (State::There, "the kernel's")
    } else {
        (State::Limited, "a namespace's own")
    }
}

/// Inode of the initial process namespace: `PROC_PID_INIT_INO`.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

fn kernel_names() -> Requirement {
    let names = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let shown = names.lines().take(64).any(|line| !line.starts_with("0000000000000000"));
    let (state, found) = match (names.is_empty(), shown) {
        (true, _) => (State::Limited, "no list"),
        (false, false) => (State::Limited, "addresses are hidden"),
        (false, true) => (State::There, "readable"),
    };
    Requirement {
        what: "kernel symbols",
        state,
        found: found.to_owned(),
        purpose: "names code that the kernel generates",
        remedy: "hold CAP_SYSLOG, and: sysctl kernel.kptr_restrict=1",
    }
}

fn lockdown() -> Requirement {
    let modes = read("/sys/kernel/security/lockdown");
    let mode = modes.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
    let state = state(mode != "confidentiality", State::Missing);
    Requirement {
        what: "lockdown",
        state,
        found: mode,
        purpose: "permits to read the memory of programs and kernel",
        remedy: "boot with lockdown=integrity or without; confidentiality forbids to read memory",
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_the_first_requirement() {
        let all = requirements();
        assert_eq!(all[0].what, "kernel");
        assert!(!all[0].found.is_empty());
        assert!(all.iter().all(|requirement| !requirement.advice().is_empty()));
    }

    /// A remedy says what to do; a purpose does not.
    #[test]
    fn missing_requirements_advise_what_to_do() {
        for mut requirement in requirements() {
            requirement.state = State::Missing;
            let verbs = [
                "run ",
                "boot ",
                "use ",
                "switch ",
                "hold ",
                "share ",
                "profiles have fewer names without it; run ",
            ];
            let is_known = verbs.iter().any(|verb| requirement.advice().starts_with(verb));
            assert!(is_known || requirement.what == "kernel faults", "{requirement:?}");
        }
    }

    #[test]
    fn own_process_namespace_limits_profiles() {
        let (other, own, two) = (0xf000_0001, "Pid:\t1\nNSpid:\t1\n", "Pid:\t4711\nNSpid:\t4711\t1\n");
        assert_eq!(numbering(FIRST_NAMESPACE, own).0, State::There);
        assert_eq!(numbering(other, own).0, State::Limited);
        // /proc is that of the machine.
        assert_eq!(numbering(other, two).0, State::There);
    }
}
