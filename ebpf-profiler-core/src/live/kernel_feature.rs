//! Features of the running kernel.
//!
//! The number in its name doesn't tell them: distributions bring parts of later kernels to one with an older number. So the kernel's
//! own description of its types is asked, which everybody may read. It lists the functions that programs may call:
//!
//! ```text
//!   enum bpf_func_id { …, BPF_FUNC_loop = 181, …, BPF_FUNC_user_ringbuf_drain = 209, … }
//! ```

use super::kernel_types::KernelTypes;

/// A feature that not all kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelFeature {
    /// The loop that drives the walk.
    Loop,
    /// The ring buffer by which off-CPU time of waits that last is requested.
    UserRing,
    /// Numbers of programs at functions of the kernel.
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

    /// Returns the first kernel of kernel.org that has it.
    pub(super) fn since(self) -> &'static str {
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
    use super::kernel_version::{parse, release};
    for feature in [KernelFeature::Loop, KernelFeature::UserRing, KernelFeature::Cookies] {
        if parse(&release()) >= parse(feature.since()) {
            assert!(!feature.is_missing(), "{feature:?}");
        }
    }
}
