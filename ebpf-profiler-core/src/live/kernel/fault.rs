//! Faults of kernels that a profiler would trigger, recognized before anything is loaded.
//!
//! | fault | kernels | effect |
//! | --- | --- | --- |
//! | [user copies](KernelFault::UserCopy) | 5.19, 6.0, 6.1 before 6.1.36, 6.2, 6.3 before 6.3.10, with hardened copies | the machine hangs |
//! | [ring of a real-time kernel](KernelFault::RealTimeRing) | real-time kernels before 6.11.5 | a lock that sleeps is taken in an interrupt |
//!
//! Numbers of distributions are not those of Linux: Ubuntu's 6.2.0 and Debian's 6.1.0 have fixes of
//! later versions. Both say elsewhere which version of Linux they contain.

use std::fmt;
use std::fs;

use super::version;

/// A fault of the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelFault {
    /// Reading user memory in an interrupt may wait for a lock that the interrupted code holds:
    /// `copy_from_user_nofault` with `CONFIG_HARDENED_USERCOPY`, fixed by Linux's commit
    /// d319f344561d.
    UserCopy,
    /// The ring buffer's lock sleeps in a real-time kernel, and the sampling program takes it in an
    /// interrupt (CVE-2024-50138).
    RealTimeRing,
}

impl KernelFault {
    /// Returns the fault of the running kernel.
    pub(in crate::live) fn find() -> Option<KernelFault> {
        Kernel::running().fault()
    }

    /// Returns the remedy.
    pub fn remedy(self) -> &'static str {
        match self {
            KernelFault::UserCopy => {
                "use Linux 6.1.36, 6.3.10, 6.4 or newer, or boot with hardened_usercopy=off; if the distribution has the fix: \
                 Builder::accept_kernel_faults"
            }
            KernelFault::RealTimeRing => {
                "use a real-time kernel from 6.11.5 on; if the distribution has the fix: Builder::accept_kernel_faults"
            }
        }
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KernelFault::UserCopy => "reading the memory of programs in an interrupt can hang the machine",
            KernelFault::RealTimeRing => "its ring buffer sleeps in interrupts",
        })
    }
}

/// A kernel, as it describes itself.
struct Kernel {
    /// Version of Linux: three numbers.
    version: Option<[u32; 3]>,
    is_real_time: bool,
    /// Copies from and to user memory are checked against the object that they are in.
    has_hardened_copies: bool,
}

impl Kernel {
    fn running() -> Kernel {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = version::release();
        let build = read("/proc/sys/kernel/version");
        let configuration = read(&format!("/boot/config-{release}"));
        Kernel {
            version: version(&release, &build, &read("/proc/version_signature")),
            is_real_time: is_real_time(&build, &read("/sys/kernel/realtime")),
            has_hardened_copies: has_hardened_copies(&configuration, &read("/proc/cmdline")),
        }
    }

    fn fault(&self) -> Option<KernelFault> {
        let version = self.version?;
        let copies_may_hang = match version {
            [6, 1, patch] => patch < 36,
            [6, 3, patch] => patch < 10,
            [major, minor, _] => [[5, 19], [6, 0], [6, 2]].contains(&[major, minor]),
        };
        if copies_may_hang && self.has_hardened_copies {
            return Some(KernelFault::UserCopy);
        }
        (self.is_real_time && version < [6, 11, 5]).then_some(KernelFault::RealTimeRing)
    }
}

/// Returns the version of Linux that a kernel was made from.
///
/// ```text
///   signature   Ubuntu 6.2.0-39.40-generic 6.2.16                       of Ubuntu: the last word
///   build       #1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)    of Debian: the word after its name
///   release     6.1.34-56.100.amzn2023.x86_64                           of others
/// ```
fn version(release: &str, build: &str, signature: &str) -> Option<[u32; 3]> {
    let of_ubuntu = signature.split_whitespace().last();
    let of_debian = build.split_whitespace().skip_while(|word| *word != "Debian").nth(1);
    let mut texts = [of_ubuntu, of_debian].into_iter().flatten();
    texts.find_map(three_numbers).or_else(|| three_numbers(release))
}

fn three_numbers(text: &str) -> Option<[u32; 3]> {
    let (major, minor) = version::parse(text)?;
    let third = text.split(['.', '-', '+', '~']).nth(2).and_then(|part| part.parse().ok());
    Some([major, minor, third.unwrap_or(0)])
}

/// `flag` is a file that only kernels with the patches for real time have.
fn is_real_time(build: &str, flag: &str) -> bool {
    flag.trim() == "1" || build.contains("PREEMPT_RT") || build.contains("PREEMPT RT")
}

/// Most kernels check copies; one without a configuration is taken for one of them.
fn has_hardened_copies(configuration: &str, command_line: &str) -> bool {
    let is_off = |word: &str| {
        word.strip_prefix("hardened_usercopy=").is_some_and(|value| ["off", "0", "n", "no"].contains(&value))
    };
    let is_built_in = configuration.is_empty() || configuration.contains("CONFIG_HARDENED_USERCOPY=y");
    is_built_in && !command_line.split_whitespace().any(is_off)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(release: &str, build: &str, signature: &str) -> Option<KernelFault> {
        let is_real_time = is_real_time(build, "");
        Kernel { version: version(release, build, signature), is_real_time, has_hardened_copies: true }
            .fault()
    }

    #[test]
    fn kernels_whose_user_copies_hang_are_recognized() {
        for release in
            ["5.19.17", "6.0.9-300.fc37.x86_64", "6.1.34-56.100.amzn2023.x86_64", "6.2.16", "6.3.9-arch1-1"]
        {
            assert_eq!(fault(release, "#1 SMP", ""), Some(KernelFault::UserCopy), "{release}");
        }
        for release in
            ["5.18.19", "6.1.36", "6.3.10", "6.4.0-rc1", "6.18.44-cloud-amd64", "5.14.0-427.el9", "unknown"]
        {
            assert_eq!(fault(release, "#1 SMP", ""), None, "{release}");
        }
    }

    /// The number in the name is that of the first release.
    #[test]
    fn versions_of_distributions_are_those_of_linux_within() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)";
        assert_eq!(version("6.1.0-37-amd64", debian, ""), Some([6, 1, 140]));
        assert_eq!(fault("6.1.0-37-amd64", debian, ""), None);
        assert_eq!(
            fault("6.1.0-9-amd64", "#1 SMP Debian 6.1.27-1 (2023-05-08)", ""),
            Some(KernelFault::UserCopy)
        );
        let ubuntu = "Ubuntu 6.2.0-39.40-generic 6.2.16";
        assert_eq!(version("6.2.0-39-generic", "#40-Ubuntu SMP", ubuntu), Some([6, 2, 16]));
        assert_eq!(version("6.18", "", ""), Some([6, 18, 0]));
    }

    #[test]
    fn kernels_without_hardened_copies_do_not_hang() {
        let hardened = "CONFIG_HARDENED_USERCOPY=y\n";
        assert!(has_hardened_copies("", "quiet") && has_hardened_copies(hardened, ""));
        assert!(!has_hardened_copies("# CONFIG_HARDENED_USERCOPY is not set\n", ""));
        assert!(!has_hardened_copies(hardened, "quiet hardened_usercopy=off ro"));
    }

    #[test]
    fn old_rings_are_refused_under_real_time_only() {
        let real_time = "#1 SMP PREEMPT_RT Debian 6.1.140-1 (2025-05-22)";
        assert_eq!(fault("6.1.0-37-rt-amd64", real_time, ""), Some(KernelFault::RealTimeRing));
        assert_eq!(fault("6.12.9-rt-amd64", "#1 SMP PREEMPT_RT Debian 6.12.9-1", ""), None);
        assert!(is_real_time("", "1\n") && !is_real_time("#1 SMP PREEMPT_DYNAMIC", ""));
    }

    #[test]
    fn faults_have_remedies() {
        for fault in [KernelFault::UserCopy, KernelFault::RealTimeRing] {
            assert!(fault.remedy().contains("accept_kernel_faults") && !fault.to_string().is_empty());
        }
        assert_eq!(KernelFault::find(), None, "tests run on kernels without known faults");
    }
}
