//! Features of the running kernel.
//!
//! The number in its name doesn't tell them: distributions bring parts of later kernels to one with an older number. So the kernel's
//! own description of its types is asked, which everybody may read. It lists the functions that programs may call:
//!
//! ```text
//!   enum bpf_func_id { …, BPF_FUNC_loop = 181, …, BPF_FUNC_user_ringbuf_drain = 209, … }
//! ```

use super::types::KernelTypes;
use super::version;

/// A feature that not all kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) enum KernelFeature {
    /// Ring buffers, without which no sample leaves the kernel.
    Ring,
    /// Memory of programs and maps that is charged to control groups, and not limited as locked memory.
    Accounting,
    /// The number that tells a program at a perf event, such as a probe, which one it is.
    LinkCookies,
    /// The loop that drives the walk. [Another object](ebpf_programs::OBJECT_5_10) does without.
    Loop,
    /// The ring buffer by which this program asks the kernel side for the waits that have not ended.
    UserRing,
    /// The number that tells a program at a function of the kernel which one it is.
    Cookies,
}

impl KernelFeature {
    /// The feature without which no profiler starts. On arm64 the programs also need atomic operations and calls of functions
    /// before calls of other programs, which kernels with this feature compile.
    pub(in crate::live) const BASIS: KernelFeature =
        if cfg!(target_arch = "aarch64") { KernelFeature::UserRing } else { KernelFeature::Ring };

    /// Returns `true` if the running kernel lacks it, `false` if that is unknown.
    pub(in crate::live) fn is_missing(self) -> bool {
        let Ok(mut types) = KernelTypes::of_this_kernel() else { return false };
        let is_there = match self {
            KernelFeature::Ring => types.has_value(FUNCTIONS, "BPF_FUNC_ringbuf_query"),
            // Of the same version, as the memory is in no list.
            KernelFeature::Accounting => types.has_value(FUNCTIONS, "BPF_FUNC_ktime_get_coarse_ns"),
            KernelFeature::LinkCookies => types.has_value(FUNCTIONS, "BPF_FUNC_get_attach_cookie"),
            KernelFeature::Loop => types.has_value(FUNCTIONS, "BPF_FUNC_loop"),
            KernelFeature::UserRing => types.has_value(FUNCTIONS, "BPF_FUNC_user_ringbuf_drain"),
            KernelFeature::Cookies => Some(types.has_unnamed(&["target_btf_id", "cookie"])),
        };
        is_there == Some(false)
    }

    /// Returns a sentence that refuses what needs it, such as off-CPU time, if the running kernel lacks it.
    pub(in crate::live) fn refuse(self, what: &str) -> Option<String> {
        self.is_missing().then(|| {
            let (release, since) = (version::release(), self.since());
            format!("kernel {release} is too old for {what}; {since} or newer is needed")
        })
    }

    /// Returns the first kernel of kernel.org that has it.
    fn since(self) -> &'static str {
        match self {
            KernelFeature::Ring => "5.8",
            KernelFeature::Accounting => "5.11",
            KernelFeature::LinkCookies => "5.15",
            KernelFeature::Loop => "5.17",
            KernelFeature::UserRing => "6.1",
            KernelFeature::Cookies => "5.19",
        }
    }
}

/// The enumeration of functions that programs may call.
const FUNCTIONS: &str = "bpf_func_id";

#[test]
fn the_running_kernel_has_what_its_number_promises() {
    use KernelFeature::{Accounting, Cookies, LinkCookies, Loop, Ring, UserRing};
    use version::{parse, release};
    for feature in [Ring, Accounting, LinkCookies, Loop, UserRing, Cookies] {
        if parse(&release()) >= parse(feature.since()) {
            assert_eq!(feature.refuse("it"), None, "{feature:?}");
        }
    }
}
