//! Requirements of a profiler, checked on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::capability::{
    self, BPF, CHECKPOINT_RESTORE, Capability, DAC_READ_SEARCH, PERFMON, SYS_ADMIN, SYS_PTRACE,
};
use super::{kernel_version, memory};

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
    /// Purpose, or the remedy if it is missing.
    pub advice: &'static str,
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
pub fn requirements() -> Vec<Requirement> {
    vec![
        kernel(),
        architecture(),
        types(),
        compiler(),
        required_capability(BPF, "loads the sampling program"),
        required_capability(PERFMON, "reads the stacks of the kernel and of other users' programs"),
        sampling(),
        helpful_capability(SYS_PTRACE, "opens the files and reads the code of other users' programs"),
        helpful_capability(DAC_READ_SEARCH, "opens programs that only their owner may read"),
        helpful_capability(CHECKPOINT_RESTORE, "opens programs that were deleted or replaced while they run"),
        process_numbers(),
        kernel_names(),
        lockdown(),
    ]
}

fn kernel() -> Requirement {
    let release = kernel_version::release();
    let is_new_enough =
        kernel_version::parse(&release).is_some_and(|version| version >= kernel_version::MINIMUM);
    let state = if is_new_enough { State::There } else { State::Missing };
    Requirement {
        what: "kernel",
        state,
        found: release,
        advice: "5.17 or newer, for the loop that walks stacks",
    }
}

fn architecture() -> Requirement {
    let state = if super::IS_SUPPORTED { State::There } else { State::Missing };
    let found = std::env::consts::ARCH.to_owned();
    Requirement { what: "CPU", state, found, advice: "x86_64; the kernel side is compiled for no other yet" }
}

fn types() -> Requirement {
    let size = fs::metadata("/sys/kernel/btf/vmlinux").map(|file| file.len());
    let (state, found) = match size {
        Ok(size) => (State::There, format!("{} KiB", size / 1024)),
        Err(error) => (State::Missing, error.to_string()),
    };
    Requirement {
        what: "type information",
        state,
        found,
        advice: "a kernel built with CONFIG_DEBUG_INFO_BTF=y",
    }
}

fn compiler() -> Requirement {
    // A kernel that always compiles has no switch.
    let found = match read("/proc/sys/net/core/bpf_jit_enable").as_str() {
        "0" => "off",
        _ => "on",
    };
    let state = if found == "on" { State::There } else { State::Limited };
    let advice = "makes walks fast; switch it on with: sysctl net.core.bpf_jit_enable=1";
    Requirement { what: "BPF compiler", state, found: found.to_owned(), advice }
}

fn sampling() -> Requirement {
    let level = capability::paranoia();
    let state = if level <= 2 || SYS_ADMIN.is_held() { State::There } else { State::Missing };
    let advice = "kernel.perf_event_paranoid at most 2; some distributions' kernels want CAP_SYS_ADMIN above";
    Requirement { what: "perf events", state, found: format!("level {level}"), advice }
}

fn required_capability(capability: Capability, advice: &'static str) -> Requirement {
    let (state, found) =
        if capability.is_held() { (State::There, "held") } else { (State::Missing, "not held") };
    Requirement { what: capability.name, state, found: found.to_owned(), advice }
}

fn helpful_capability(capability: Capability, advice: &'static str) -> Requirement {
    let requirement = required_capability(capability, advice);
    let state = if requirement.state == State::Missing { State::Limited } else { requirement.state };
    Requirement { state, ..requirement }
}

fn process_numbers() -> Requirement {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(FIRST_NAMESPACE, |file| file.ino());
    let (state, found) = numbering(namespace, &read("/proc/self/status"));
    let advice = "matches processes with samples by the kernel's number; in a container: docker run --pid=host, hostPID: true";
    Requirement { what: "process numbers", state, found: found.to_owned(), advice }
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
    let advice = "names of code that the kernel generates: CAP_SYSLOG, and kernel.kptr_restrict at most 1";
    Requirement { what: "kernel symbols", state, found: found.to_owned(), advice }
}

fn lockdown() -> Requirement {
    let modes = read("/sys/kernel/security/lockdown");
    let mode = modes.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
    let state = if mode == "confidentiality" { State::Missing } else { State::There };
    Requirement {
        what: "lockdown",
        state,
        found: mode,
        advice: "confidentiality forbids to read the memory of programs and kernel",
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
        assert!(all.iter().all(|requirement| !requirement.advice.is_empty()));
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
