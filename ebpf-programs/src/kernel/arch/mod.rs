//! Architectures: what the kernel saves of a thread, and where. An object is compiled for one of them, by the setting
//! `bpf_target_arch`, which aya-ebpf has too.

#[cfg(bpf_target_arch = "aarch64")]
mod aarch64;
#[cfg(bpf_target_arch = "aarch64")]
use aarch64 as target;

#[cfg(not(bpf_target_arch = "aarch64"))]
mod x86_64;
#[cfg(not(bpf_target_arch = "aarch64"))]
use x86_64 as target;

pub(crate) use target::{
    Native, PUSHED_BY_CALL, Saved, is_entering, is_user, order_reads, publish, registers, word,
};
