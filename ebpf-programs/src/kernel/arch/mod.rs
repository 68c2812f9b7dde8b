//! Architectures: what the kernel saves of a thread, and where. An object is compiled for one of them, by the setting
//! `bpf_target_arch`, which aya-ebpf has too.

#[cfg(bpf_target_arch = "aarch64")]
mod aarch64;

#[cfg(not(bpf_target_arch = "aarch64"))]
mod x86_64;

#[cfg(bpf_target_arch = "aarch64")]
pub(crate) use aarch64::{
    Native, PUSHED_BY_CALL, Saved, is_entering, is_user, order_reads, publish, registers, word,
};
#[cfg(not(bpf_target_arch = "aarch64"))]
pub(crate) use x86_64::{
    Native, PUSHED_BY_CALL, Saved, is_entering, is_user, order_reads, publish, registers, word,
};
