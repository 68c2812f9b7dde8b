//! Functions of the kernel, at their entry and exit (fentry, fexit). Their programs are loaded once for each function.

use aya_ebpf::helpers::generated::{bpf_get_func_arg, bpf_get_func_ret};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use ebpf_programs::abi::cookie;

use crate::context::Context;
use crate::event::{cookie, operand_of_function};
use crate::{sample, span};

/// Takes a sample with the value of the operand in the cookie.
#[inline(always)]
pub(crate) fn enter(context: &FEntryContext) {
    let cookie = cookie(context);
    let argument = |index| {
        let mut value = 0;
        // SAFETY: the helper writes one word, or fails.
        unsafe { bpf_get_func_arg(context.pointer(), index, &raw mut value) };
        value
    };
    sample::take(context, cookie as u16, operand_of_function(cookie, argument));
}

/// Begins the span of a function.
#[inline(always)]
pub(crate) fn begin(context: &FEntryContext) {
    span::begin(span::key(context, context.pointer() as u64));
}

/// Takes a sample with the time since the beginning of the span, or with the value of the operand in the cookie.
#[inline(always)]
pub(crate) fn leave(context: &FExitContext) {
    let cookie = cookie(context);
    let result = |_| {
        let mut value = 0;
        // SAFETY: the helper writes one word.
        unsafe { bpf_get_func_ret(context.pointer(), &raw mut value) };
        value
    };
    let value = if cookie & cookie::TIME == 0 {
        operand_of_function(cookie, result)
    } else {
        match span::end(&span::key(context, context.pointer() as u64)) {
            Some(time) => time,
            None => return,
        }
    };
    sample::take(context, cookie as u16, value);
}
