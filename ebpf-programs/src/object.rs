//! The compiled kernel objects; dependents need no BPF toolchain.
//!
//! `cargo xtask object` rebuilds the files from the source of this crate and records the tool versions beside them.

/// The BPF object for kernels of the architecture that this library is compiled for, x86_64 or arm64, as an ELF file.
pub const OBJECT: &[u8] = &ALIGNED.bytes;

/// The BPF object for x86_64 kernels without `bpf_loop`, from 5.10 on, as an ELF file.
#[cfg(not(target_arch = "aarch64"))]
pub const OBJECT_5_10: &[u8] = &ALIGNED_5_10.bytes;

/// Aligns the file, because a loader reads its headers in place.
#[repr(C, align(8))]
struct Aligned<const N: usize> {
    bytes: [u8; N],
}

#[cfg(target_arch = "aarch64")]
static ALIGNED: Aligned<{ include_bytes!("../object/sampler.aarch64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler.aarch64.o") };

#[cfg(not(target_arch = "aarch64"))]
static ALIGNED: Aligned<{ include_bytes!("../object/sampler.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler.x86_64.o") };

#[cfg(not(target_arch = "aarch64"))]
static ALIGNED_5_10: Aligned<{ include_bytes!("../object/sampler_5_10.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler_5_10.x86_64.o") };
