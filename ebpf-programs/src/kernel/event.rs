//! Events that a link's cookie describes: probes, tracepoints and counters by name.

use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, TracePointContext};
use ebpf_programs::abi::cookie::{self, operand};

use crate::context::Context;
use crate::sample;

/// Takes a sample with the value in the cookie.
#[inline(always)]
pub(crate) fn take<C: Context>(context: &C) {
    let cookie = cookie(context);
    sample::take(context, cookie as u16, cookie >> cookie::VALUE_SHIFT);
}

/// Takes a sample whose value is in the cookie, or in a field of the event.
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

/// Takes a sample with the value of the operand in the cookie.
#[inline(always)]
pub(crate) fn take_probe(context: &ProbeContext) {
    let cookie = cookie(context);
    sample::take(context, cookie as u16, operand(context, cookie));
}

/// Returns the value of an [operand](mod@operand); 0 for memory that is not present.
#[inline(always)]
fn operand(context: &ProbeContext, cookie: u64) -> u64 {
    let displacement = cookie as i64 >> operand::DISPLACEMENT_SHIFT;
    if displacement == operand::PRODUCT as i64 {
        let word = |shift: u32| read(context, (cookie >> shift & operand::WORD) as usize * 8);
        return word(operand::BASE_SHIFT).wrapping_mul(word(operand::INDEX_SHIFT));
    }
    let mut value = displacement as u64;
    let base = cookie >> operand::BASE_SHIFT & operand::WORD;
    if base != operand::NONE {
        value = value.wrapping_add(read(context, base as usize * 8));
    }
    let index = cookie >> operand::INDEX_SHIFT & operand::WORD;
    if index != operand::NONE {
        let scale = cookie >> operand::SCALE_SHIFT & operand::LOG;
        value = value.wrapping_add(read(context, index as usize * 8) << scale);
    }
    // Powers of two in digits of a constant: the compiler would prove the bound of a shift, and drop the mask that the verifier needs.
    let bytes = 0x8421u32 >> (4 * (cookie >> operand::SIZE_SHIFT & operand::LOG)) & 15;
    if cookie & operand::MEMORY != 0 {
        let mut word = [0u64; 2];
        // SAFETY: `word` has 16 bytes, of which the mask permits 15; the helper fails without a fault.
        unsafe { bpf_probe_read_user(word.as_mut_ptr().cast(), bytes, value as *const _) };
        value = word[0];
    }
    truncate(value, 64 - bytes * 8, cookie)
}

/// Returns the value of the [operand](mod@operand) of a function of the kernel, whose base word `word` returns.
#[inline(always)]
pub(crate) fn operand_of_function(cookie: u64, word: impl FnOnce(u32) -> u64) -> u64 {
    let base = cookie >> operand::BASE_SHIFT & operand::WORD;
    if base == operand::NONE {
        return cookie >> operand::DISPLACEMENT_SHIFT;
    }
    let bytes = 0x8421u32 >> (4 * (cookie >> operand::SIZE_SHIFT & operand::LOG)) & 15;
    truncate(word(base as u32), 64 - bytes * 8, cookie)
}

/// Removes the highest `cut` bits of a value. A negative one is 0.
#[inline(always)]
fn truncate(value: u64, cut: u32, cookie: u64) -> u64 {
    if cookie & operand::SIGNED == 0 {
        return value << cut >> cut;
    }
    let value = (value << cut) as i64 >> cut;
    if value < 0 { 0 } else { value as u64 }
}

/// Returns the [cookie](ebpf_programs::abi::cookie) of the link that runs the program.
#[inline(always)]
pub(crate) fn cookie<C: Context>(context: &C) -> u64 {
    #[cfg(feature = "kernel_5_10")]
    if let Some(cookie) = constant::cookie() {
        return cookie;
    }
    // SAFETY: the helper returns 0 for a program without cookie.
    unsafe { bpf_get_attach_cookie(context.pointer()) }
}

/// Returns the word at a byte offset of a context: of a tracepoint's event, or of a probe's registers.
#[inline(always)]
pub(crate) fn read<C: Context>(context: &C, at: usize) -> u64 {
    let mut value = 0u64;
    // SAFETY: `value` has eight bytes; the helper fails without a fault.
    unsafe {
        let from = context.pointer().cast::<u8>().add(at);
        bpf_probe_read_kernel((&raw mut value).cast(), 8, from.cast());
    }
    value
}

/// The cookies of kernels before 5.15, whose links have none: a program is loaded for each cookie, and passes it to its walk.
#[cfg(feature = "kernel_5_10")]
pub(crate) mod constant {
    use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;

    use crate::maps::CLAIMS;
    use crate::{COOKIE, HAS_COOKIES};

    /// Index of the cookie that is passed in [`CLAIMS`].
    const PASSED: usize = 7;

    /// A cookie that a walk takes from its caller.
    const OF_CALLER: u64 = u64::MAX;

    /// Passes the cookie of this program to the walk that it calls. Meanwhile no other event that has one is handled on this CPU:
    /// these kernels skip it, and count it.
    #[inline(always)]
    pub(crate) fn pass() {
        // SAFETY: the constant is volatile, because the loader has replaced it; the helper has no conditions, and the value
        // stays allocated while the program runs.
        unsafe {
            let cookie = (&raw const COOKIE).read_volatile();
            if cookie != OF_CALLER
                && let Some(claims) = CLAIMS.get_ptr_mut(bpf_get_smp_processor_id())
            {
                (*claims)[PASSED] = cookie;
            }
        }
    }

    /// Returns the cookie of this program, or of its caller; `None` if the link has it.
    #[inline(always)]
    pub(super) fn cookie() -> Option<u64> {
        // SAFETY: as above.
        unsafe {
            if (&raw const HAS_COOKIES).read_volatile() != 0 {
                return None;
            }
            match (&raw const COOKIE).read_volatile() {
                OF_CALLER => {
                    CLAIMS.get_ptr_mut(bpf_get_smp_processor_id()).map(|claims| (*claims)[PASSED]).or(Some(0))
                }
                cookie => Some(cookie),
            }
        }
    }
}
