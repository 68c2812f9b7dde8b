//! The compiled kernel side, so that nobody downstream needs a BPF toolchain.
//!
//! `cargo xtask object` rebuilds the file from this crate's source, and says beside it what built it.

/// The BPF object for kernels of this machine's kind, as an ELF file.
pub const OBJECT: &[u8] = &ALIGNED.bytes;

/// A loader reads the file's headers in place, so they must be aligned.
#[repr(C, align(8))]
struct Aligned<const N: usize> {
    bytes: [u8; N],
}

static ALIGNED: Aligned<{ include_bytes!("../object/sampler.x86_64.o").len() }> =
    Aligned { bytes: *include_bytes!("../object/sampler.x86_64.o") };
