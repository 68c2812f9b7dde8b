//! Bare reads: the same addresses and sizes, without decoding.

use std::time::Duration;

use benches::usage::on_cpu;

/// Measures one `process_vm_readv` for each read.
pub(crate) fn bare(pid: u32, reads: &[(u64, usize)]) -> Duration {
    let mut bytes = vec![0_u8; reads.iter().map(|read| read.1).max().unwrap_or(0)];
    let begun = on_cpu();
    for &(address, len) in reads {
        let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len };
        // SAFETY: `here` is within `bytes`, which nothing else borrows; `there` is only read, by the
        // kernel, which checks it.
        std::hint::black_box(unsafe {
            libc::process_vm_readv(pid as i32, &raw const here, 1, &raw const there, 1, 0)
        });
    }
    on_cpu() - begun
}
