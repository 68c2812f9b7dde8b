//! The compiled kernel objects; dependents need no BPF toolchain.
//!
//! `cargo xtask object` rebuilds the files from the source of this crate and records the tool versions beside them.

/// The BPF object for x86_64 kernels, as an ELF file.
pub const OBJECT: &[u8] = &ALIGNED.bytes;

/// The BPF object for x86_64 kernels without `bpf_loop`, from 5.10 on, as an ELF file.
pub const OBJECT_5_10: &[u8] = &ALIGNED_5_10.bytes;

/// Aligns the file, because a loader reads its headers in place.
#[repr(C, align(8))]
struct Aligned<const N: usize> {
    bytes: [u8; N],
}

static ALIGNED: Aligned<{ include_bytes!("../object/sampler.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler.x86_64.o") };

static ALIGNED_5_10: Aligned<{ include_bytes!("../object/sampler_5_10.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler_5_10.x86_64.o") };
