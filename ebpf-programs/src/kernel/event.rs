//! Events that a link's cookie describes: probes, tracepoints and counters by name.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_probe_read_kernel};
use aya_ebpf::programs::{ProbeContext, TracePointContext};
use ebpf_programs::abi::cookie;

use crate::context::Context;
use crate::sample;

/// Takes a sample with the value in the cookie.
#[inline(always)]
pub(crate) fn take<C: Context>(context: &C) {
    let cookie = cookie(context);
    sample::take(context, cookie as u16, cookie >> cookie::VALUE_SHIFT);
}

/// Takes a sample with the value in the cookie, or with that of a field of the event.
#[inline(always)]
pub(crate) fn take_tracepoint(context: &TracePointContext) {
    let cookie = cookie(context);
    let mut value = cookie >> cookie::VALUE_SHIFT;
    if cookie & cookie::FIELD != 0 {
        let mut field = read(context, (cookie >> cookie::OFFSET_SHIFT & cookie::OFFSET) as usize);
        // A size that is no constant is rejected by the verifier: what follows the field is cut off.
        field &= u64::MAX >> (64 - (8 << (cookie >> cookie::SIZE_SHIFT & 3)));
        value = value.wrapping_mul(field);
        if value == 0 {
            return;
        }
    }
    sample::take(context, cookie as u16, value);
}

/// Takes a sample with the value of an argument or of the function's result, as the cookie says.
#[inline(always)]
pub(crate) fn take_probe(context: &ProbeContext) {
    let cookie = cookie(context);
    let register = cookie >> cookie::REGISTER_SHIFT & 0xff;
    // Read before the choice: the verifier requires constant positions in the context, and the compiler would choose one.
    // Word numbers are those of `struct pt_regs`.
    let registers = [14, 13, 12, 11, 9, 8, 10].map(|index| context.word(index));
    let mut value = 1;
    for (number, &register_value) in (1..).zip(&registers) {
        if register == number {
            value = register_value;
        }
    }
    sample::take(context, cookie as u16, value);
}

/// Returns the [cookie](ebpf_programs::abi::cookie) of the link that runs the program.
#[inline(always)]
pub(crate) fn cookie<C: Context>(context: &C) -> u64 {
    // SAFETY: the helper returns 0 for a program without cookie.
    unsafe { bpf_get_attach_cookie(context.pointer()) }
}

/// Returns the word at a byte offset of a tracepoint's event.
#[inline(always)]
pub(crate) fn read(context: &TracePointContext, at: usize) -> u64 {
    let mut value = 0u64;
    // SAFETY: `value` has eight bytes; the helper fails without a fault.
    unsafe {
        let from = context.as_ptr().cast::<u8>().add(at);
        bpf_probe_read_kernel((&raw mut value).cast(), 8, from.cast());
    }
    value
}
