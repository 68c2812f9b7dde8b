//! Features of the running kernel.
//!
//! The number in its name doesn't tell them: distributions bring parts of later kernels to one with an older number. So the kernel's
//! own description of its types is asked, which everybody may read. It lists the functions that programs may call:
//!
//! ```text
//!   enum bpf_func_id { …, BPF_FUNC_loop = 181, …, BPF_FUNC_user_ringbuf_drain = 209, … }
//! ```

use super::kernel_types::KernelTypes;
use super::kernel_version;

/// A feature that not all kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelFeature {
    /// The loop that drives the walk.
    Loop,
    /// The ring buffer by which this program asks the kernel side for the waits that have not ended.
    UserRing,
    /// The number that tells a program at a function of the kernel which one it is.
    Cookies,
}

impl KernelFeature {
    /// Returns `true` if the running kernel lacks it, `false` if that is unknown.
    pub(super) fn is_missing(self) -> bool {
        let Ok(mut types) = KernelTypes::of_this_kernel() else { return false };
        let is_there = match self {
            KernelFeature::Loop => types.has_value(FUNCTIONS, "BPF_FUNC_loop"),
            KernelFeature::UserRing => types.has_value(FUNCTIONS, "BPF_FUNC_user_ringbuf_drain"),
            KernelFeature::Cookies => Some(types.has_unnamed(&["target_btf_id", "cookie"])),
        };
        is_there == Some(false)
    }

    /// Returns a sentence that refuses what needs it, such as off-CPU time, if the running kernel lacks it.
    pub(super) fn refuse(self, what: &str) -> Option<String> {
        self.is_missing().then(|| {
            let (release, since) = (kernel_version::release(), self.since());
            format!("kernel {release} is too old for {what}; {since} or newer is needed")
        })
    }

    /// Returns the first kernel of kernel.org that has it.
    fn since(self) -> &'static str {
        match self {
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
    use kernel_version::{parse, release};
    for feature in [KernelFeature::Loop, KernelFeature::UserRing, KernelFeature::Cookies] {
        if parse(&release()) >= parse(feature.since()) {
            assert_eq!(feature.refuse("it"), None, "{feature:?}");
        }
    }
}
