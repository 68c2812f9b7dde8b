//! The compiled kernel object; dependents need no BPF toolchain.
//!
//! `cargo xtask object` rebuilds the file from the source of this crate and records the tool versions beside it.

/// The BPF object for x86_64 kernels, as an ELF file.
pub const OBJECT: &[u8] = &ALIGNED.bytes;

/// Aligns the file, because a loader reads its headers in place.
#[repr(C, align(8))]
struct Aligned<const N: usize> {
    bytes: [u8; N],
}

static ALIGNED: Aligned<{ include_bytes!("../object/sampler.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler.x86_64.o") };
